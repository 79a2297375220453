#pragma once

#include <cstdint>

namespace tensora::cuda {

/// Whether `x` takes the place of `best` as the largest (smallest) so far. NaN takes any place and
/// leaves it to nobody.
template <bool largest, class C>
__device__ inline bool replaces(C x, C best) {
  return !(largest ? x <= best : x >= best) && best == best;
}

/// What every other value replaces or equals.
template <bool largest, class C>
__device__ inline C worst() {
  if constexpr (sizeof(C) == 8 && C(1) / C(2) == C(0))
    return largest ? INT64_MIN : INT64_MAX;
  else
    return largest ? -static_cast<C>(INFINITY) : static_cast<C>(INFINITY);
}

}  // namespace tensora::cuda
