#pragma once

// Following a user's indices on the device. See Note [Wrong indices on the device].

#include "tensora/backend/cuda/elements.cuh"
#include "tensora/backend/cuda/fault.h"
#include "tensora/core/dtype.h"

namespace tensora::cuda {

/// What an index may be, and where a wrong one is noted.
struct IndexLimits {
  const char* op;
  Fault* fault;
  long long lowest, limit;  // lowest: 0, or -limit where negative ones count from the end
  int dim;
};

/// The position that index number `at` (in bytes) names; -1, with a note, if there is none.
__device__ inline long long checked_index(const char* indices, int at, DType dtype,
                                          const IndexLimits& limits) {
  const long long index = dtype == DType::int64 ? *reinterpret_cast<const long long*>(indices + at)
                                                : *reinterpret_cast<const int*>(indices + at);
  if (index >= limits.lowest && index < limits.limit)
    return index < 0 ? index + limits.limit : index;
  volatile Fault* const fault = limits.fault;
  fault->op = limits.op;
  fault->limit = limits.limit;
  fault->dim = limits.dim;
  fault->index = index;
  __threadfence_system();
  fault->is_set = 1;
  return -1;
}

}  // namespace tensora::cuda
