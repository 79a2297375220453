#pragma once

// The host's side of traversing several strided arrays together: which dims remain after merging,
// and how the work is split so that a kernel can count in 32 bits.

#include <cstdint>
#include <span>

#include "tensora/base/function_ref.h"
#include "tensora/core/view.h"

namespace tensora::cuda {

inline constexpr int kMaxArrays = 13;
/// Dims that a kernel's Walk has room for (elements.cuh).
inline constexpr int kMaxPartDims = 8;

/// Dim 0 is the innermost; strides are in bytes. What lies beyond `arrays` and `dims` is unset: a
/// walk is made and copied at every launch, and most have three arrays and one dim.
struct HostWalk {
  int arrays = 0;
  int dims = 0;
  int64_t sizes[kMaxDims];
  int64_t strides[kMaxArrays][kMaxDims];
  char* data[kMaxArrays];

  HostWalk() {
    for (auto& array : strides) array[0] = 0;  // a walk of one step may leave them so
  }
  HostWalk(const HostWalk& other) { *this = other; }
  HostWalk& operator=(const HostWalk& other) {
    arrays = other.arrays;
    dims = other.dims;
    for (int d = 0; d < dims; ++d) sizes[d] = other.sizes[d];
    for (int k = 0; k < arrays; ++k) {
      for (int d = 0; d < dims; ++d) strides[k][d] = other.strides[k][d];
      data[k] = other.data[k];
    }
    return *this;
  }
  int64_t count() const {
    int64_t product = 1;
    for (int d = 0; d < dims; ++d) product *= sizes[d];
    return product;
  }
};

/// The walk over an output (array 0) and operands broadcast to it: dims ordered by the output's
/// strides, adjacent dims merged where the strides of all arrays allow it.
HostWalk make_walk(std::span<const View* const> views);

/// Whether groups of `group` elements of array k along dim 0 can be accessed as one: contiguous and
/// aligned.
bool has_groups(const HostWalk& walk, int k, int64_t element_bytes, int64_t group);

/// Calls body(part, is_last) for parts that together cover the walk, each with at most kMaxPartDims
/// dims, fewer than 2^31 steps and offsets below 2^31 bytes.
void each_part(const HostWalk& walk, FunctionRef<void(const HostWalk& part, bool is_last)> body);

/// Multiplier and shift of Note [Division by multiplication].
struct DivisorNumbers {
  unsigned divisor, multiplier, shift;
};
DivisorNumbers divisor_numbers(int64_t divisor);

}  // namespace tensora::cuda
