#include "tensora/distributed/nccl/nccl_api.h"

#include <dlfcn.h>

#include "tensora/base/error_kinds.h"

namespace tensora::distributed {
namespace {

NcclApi open_nccl() {
  void* const handle = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* const reason = ::dlerror();
    fail("the backend nccl needs libnccl.so.2, which could not be opened (",
         reason ? reason : "no reason given",
         "); install NVIDIA's package libnccl2 or add the library to LD_LIBRARY_PATH");
  }
  NcclApi api{};
  const auto load = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(handle, name));
    check(function != nullptr, "libnccl.so.2 is too old: it has no ", name, "; 2.18 or newer has");
  };
  load(api.version, "ncclGetVersion");
  load(api.unique_id, "ncclGetUniqueId");
  load(api.init, "ncclCommInitRankConfig");
  load(api.async_error, "ncclCommGetAsyncError");
  load(api.abort_comm, "ncclCommAbort");
  load(api.destroy, "ncclCommDestroy");
  load(api.all_reduce, "ncclAllReduce");
  load(api.reduce, "ncclReduce");
  load(api.reduce_scatter, "ncclReduceScatter");
  load(api.all_gather, "ncclAllGather");
  load(api.broadcast, "ncclBroadcast");
  load(api.send, "ncclSend");
  load(api.recv, "ncclRecv");
  load(api.group_start, "ncclGroupStart");
  load(api.group_end, "ncclGroupEnd");
  load(api.error_text, "ncclGetErrorString");
  int version = 0;
  api.version(&version);
  check(version >= 21800, "libnccl.so.2 is too old: 2.18 or newer is needed, this is ", version);
  return api;
}

}  // namespace

const NcclApi& nccl() {
  static const NcclApi api = open_nccl();
  return api;
}

int nccl_dtype(DType dtype, CollectiveKind kind) {
  switch (dtype) {
    case DType::int8:
      return 0;
    case DType::boolean:
    case DType::uint8:
      return 1;
    case DType::int32:
      return 2;
    case DType::int64:
      return 4;
    case DType::float16:
      return 6;
    case DType::float32:
    case DType::complex64:
      return 7;
    case DType::float64:
    case DType::complex128:
      return 8;
    case DType::bfloat16:
      return 9;
    default:
      throw NotImplementedError(concat(name(kind), ": NCCL does not add ", dtype));
  }
}

int nccl_op(ReduceOp op, DType dtype) {
  // A sum of bools says whether one is true, a product whether all are.
  const bool logical = dtype == kBool;
  switch (op) {
    case ReduceOp::sum:
      return logical ? 2 : 0;
    case ReduceOp::product:
      check_as<NotImplementedError>(!is_complex(dtype), "NCCL does not multiply complex numbers");
      return logical ? 3 : 1;
    case ReduceOp::maximum:
      return 2;
    case ReduceOp::minimum:
      return 3;
    case ReduceOp::average:
      return 4;
  }
  return 0;
}

}  // namespace tensora::distributed
