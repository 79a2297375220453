#pragma once

// Following a user's indices on the device. See Note [Wrong values on the device].

#include "tensora/backend/cuda/loops/elements.cuh"
#include "tensora/backend/cuda/runtime/fault.h"
#include "tensora/core/dtype.h"

namespace tensora::cuda {

/// Records an error, unless one is recorded already. If several threads find errors at the same
/// time, one writes. The texts must come from the host: a literal in a kernel is in the device's
/// memory.
__device__ inline void note_fault(Fault* fault, const char* op, const char* sentence,
                                  long long index = 0, long long limit = 0, int dim = 0) {
  if (atomicCAS(&fault->state, 0, 1) != 0) return;
  volatile Fault* const note = fault;
  note->op = op;
  note->sentence = sentence;
  note->index = index;
  note->limit = limit;
  note->dim = dim;
  __threadfence_system();
  note->state = 2;
}

/// The valid range of an index, and where an invalid one is recorded.
struct IndexLimits {
  const char* op;
  Fault* fault;
  long long lowest, limit;  // lowest: 0, or -limit where negative ones count from the end
  int dim;
};

/// The index at byte offset `at`, as it stands there.
__device__ inline long long raw_index(const char* indices, int at, DType dtype) {
  return dtype == DType::int64 ? *reinterpret_cast<const long long*>(indices + at)
                               : *reinterpret_cast<const int*>(indices + at);
}

/// The position that an index names; -1, with a record, if it is invalid.
__device__ inline long long checked_index(long long index, const IndexLimits& limits) {
  if (index >= limits.lowest && index < limits.limit)
    return index < 0 ? index + limits.limit : index;
  note_fault(limits.fault, limits.op, nullptr, index, limits.limit, limits.dim);
  return -1;
}

/// The same for the index at byte offset `at`.
__device__ inline long long checked_index(const char* indices, int at, DType dtype,
                                          const IndexLimits& limits) {
  return checked_index(raw_index(indices, at, dtype), limits);
}

/// Adds to an element that other threads may be adding to.
template <class T>
__device__ inline void atomic_add(T* to, T value) {
  if constexpr (is_complex_type<T>) {
    atomicAdd(&to->re, value.re);
    atomicAdd(&to->im, value.im);
  } else if constexpr (sizeof(T) == 8 && !is_float_type<T>) {
    atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
  } else if constexpr (sizeof(T) >= 4) {
    atomicAdd(to, value);
  } else {
    // Narrow elements: compare-and-swap of the aligned word that contains the element.
    using Acc = accumulate_t<T>;
    constexpr unsigned kMask = (1u << 8 * sizeof(T)) - 1;
    const size_t address = reinterpret_cast<size_t>(to);
    unsigned* const word = reinterpret_cast<unsigned*>(address & ~size_t{3});
    const unsigned shift = static_cast<unsigned>(address & 3) * 8;
    unsigned seen = *reinterpret_cast<volatile unsigned*>(word), expected;
    do {
      expected = seen;
      const unsigned old_bits = expected >> shift & kMask;
      T element;
      __builtin_memcpy(&element, &old_bits, sizeof(T));
      element = T(load_value<Acc>(element) + load_value<Acc>(value));
      unsigned bits = 0;
      __builtin_memcpy(&bits, &element, sizeof(T));
      seen = atomicCAS(word, expected, (expected & ~(kMask << shift)) | bits << shift);
    } while (seen != expected);
  }
}

}  // namespace tensora::cuda
