#pragma once

// Internal header
// Elements of any dtype that attention takes, as values of the compute type.

#include "tensora/backend/cuda/loops/elements.cuh"
#include "tensora/ops/attention/attention_call.h"

namespace tensora::cuda {

template <class C>
__device__ inline C load_at(const char* data, int64_t index, Element element) {
  if constexpr (sizeof(C) == 8) {
    if (element == Element::float64) return reinterpret_cast<const double*>(data)[index];
  }
  switch (element) {
    case Element::float16:
      return load_value<C>(reinterpret_cast<const Half*>(data)[index]);
    case Element::bfloat16:
      return load_value<C>(reinterpret_cast<const BFloat16*>(data)[index]);
    case Element::boolean:
      return C(reinterpret_cast<const bool*>(data)[index]);
    default:
      return C(reinterpret_cast<const float*>(data)[index]);
  }
}

template <class C>
__device__ inline void store_at(char* data, int64_t index, Element element, C value) {
  if constexpr (sizeof(C) == 8) {
    if (element == Element::float64) {
      reinterpret_cast<double*>(data)[index] = value;
      return;
    }
  }
  switch (element) {
    case Element::float16:
      reinterpret_cast<Half*>(data)[index] = store_value<Half>(value);
      break;
    case Element::bfloat16:
      reinterpret_cast<BFloat16*>(data)[index] = store_value<BFloat16>(value);
      break;
    default:
      reinterpret_cast<float*>(data)[index] = static_cast<float>(value);
  }
}

/// Calls `body` with the type in which a call computes.
template <class Body>
void with_compute_type(const AttentionCall& call, Body&& body) {
  if (call.query.element == Element::float64)
    body.template operator()<double>();
  else
    body.template operator()<float>();
}

/// So many blocks as one dimension of a grid.
inline unsigned grid_of(std::string_view op, int64_t blocks) {
  check(blocks < (int64_t{1} << 31), op, ": too many tiles for one launch: ", blocks);
  return static_cast<unsigned>(blocks);
}

}  // namespace tensora::cuda
