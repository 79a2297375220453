#pragma once

// Filling a tensor with values that depend on the position alone: sequences and random numbers.

#include <cstdint>

#include "tensora/backend/cpu/convert.h"
#include "tensora/core/view.h"

namespace tensora::cpu::TENSORA_ISA {

/// to[j] = the value of element `start + j`, for j < n; contiguous, of the compute type. `start` is
/// a multiple of kGenerateTile.
using GenerateFn = void (*)(const void* functor, int64_t start, int64_t n, void* to);
inline constexpr int64_t kGenerateTile = 1024;

/// Fills `out`, whose elements are numbered in row-major order whatever their strides. The values
/// come in `compute` (float32, float64 or int64) and are converted to the dtype of `out`.
void run_generate(const View& out, GenerateFn fn, DType compute, const void* functor);

/// Elements [start, start + n) of `in`, in row-major order, converted by `load` into `to`.
void gather_rows(const View& in, LoadFn load, int64_t start, int64_t n, void* to, size_t to_bytes);

template <class F, class C>
void generate_tile(const void* functor, int64_t start, int64_t n, void* to) {
  const F local = *static_cast<const F*>(functor);
  C* const target = static_cast<C*>(to);
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) target[j] = local.template at<C>(start + j);
}

}  // namespace tensora::cpu::TENSORA_ISA
