#pragma once

// The part of NCCL that is used here. The library is opened at run time, so that a machine without
// it has everything else; its C interface is stable (NVIDIA/nccl: src/nccl.h.in).

#include <climits>
#include <cstddef>

#include "tensora/core/process_group.h"

namespace tensora::distributed {

struct NcclId {
  char bytes[128];
};
using NcclComm = struct NcclCommBody*;
inline constexpr int kNcclSuccess = 0, kNcclInProgress = 7;

/// The fields of version 2.18; the library sets those that came later.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef, version = 21800;
  int blocking = 0, cluster_size = INT_MIN, min_blocks = INT_MIN, max_blocks = INT_MIN;
  const char* network = nullptr;
  int split_share = INT_MIN;
};

struct NcclApi {
  int (*version)(int* version);
  int (*unique_id)(NcclId* id);
  int (*init)(NcclComm* comm, int ranks, NcclId id, int rank, NcclConfig* config);
  int (*async_error)(NcclComm comm, int* error);
  int (*abort_comm)(NcclComm comm);
  int (*destroy)(NcclComm comm);
  int (*all_reduce)(const void*, void*, size_t, int dtype, int op, NcclComm, void* stream);
  int (*reduce)(const void*, void*, size_t, int dtype, int op, int root, NcclComm, void* stream);
  int (*reduce_scatter)(const void*, void*, size_t, int dtype, int op, NcclComm, void* stream);
  int (*all_gather)(const void*, void*, size_t, int dtype, NcclComm, void* stream);
  int (*broadcast)(const void*, void*, size_t, int dtype, int root, NcclComm, void* stream);
  int (*send)(const void*, size_t, int dtype, int peer, NcclComm, void* stream);
  int (*recv)(void*, size_t, int dtype, int peer, NcclComm, void* stream);
  int (*group_start)();
  int (*group_end)();
  const char* (*error_text)(int error);
};

/// Opens libnccl.so.2 at the first call; throws a sentence that names the package where it is
/// missing.
const NcclApi& nccl();

/// NCCL's number of the dtype in a reduction; complex numbers count as two. Throws where NCCL has
/// none.
int nccl_dtype(DType dtype, CollectiveKind kind);
int nccl_op(ReduceOp op, DType dtype);

}  // namespace tensora::distributed
