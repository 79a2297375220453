#pragma once

// Internal header
// The numbers of weights of any dtype, one by one.

#include "tensora/backend/cuda/loops/elements.cuh"
#include "tensora/ops/quant/blocks.h"

namespace tensora::cuda {

/// A plain number in the shape of a block.
template <class T>
struct BlockOfOne {
  static constexpr int kNumbers = 1;
  T value;
  __device__ float number(int) const { return load_value<float>(value); }
};

template <class Block>
__device__ inline float number_of(const char* row, int64_t i) {
  return reinterpret_cast<const Block*>(row)[i / Block::kNumbers].number(
      static_cast<int>(i % Block::kNumbers));
}

/// Calls `body` with the block of a weight's dtype.
template <class Body>
void visit_weight(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::float32:
      return body.template operator()<BlockOfOne<float>>();
    case DType::float16:
      return body.template operator()<BlockOfOne<Half>>();
    case DType::bfloat16:
      return body.template operator()<BlockOfOne<BFloat16>>();
    case DType::int8:
      return body.template operator()<BlockOfOne<signed char>>();
    case DType::float8_e4m3fn:
      return body.template operator()<BlockOfOne<Float8E4M3>>();
    default:
      visit_block(dtype, std::forward<Body>(body));
  }
}

}  // namespace tensora::cuda
