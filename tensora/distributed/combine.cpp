#include "tensora/distributed/combine.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace tensora::distributed {
namespace {

constexpr int64_t kTile = 1024;  // elements; a tile of any accumulator stays in the L1 cache

template <ReduceOp op, class Acc>
inline Acc combined(Acc a, Acc b) {
  if constexpr (op == ReduceOp::sum || op == ReduceOp::average) {
    return static_cast<Acc>(a + b);
  } else if constexpr (op == ReduceOp::product) {
    return static_cast<Acc>(a * b);
  } else {
    // A NaN stays, as in PyTorch's minimum and maximum.
    if constexpr (op == ReduceOp::minimum)
      return b < a || b != b ? b : a;
    else
      return b > a || b != b ? b : a;
  }
}

// Half types accumulate in float. Integers wrap around in their own type, as their addition does;
// a bool is added as a number, so that a sum says whether any rank's was true.
template <class T>
struct AccumulatorOf {
  using type = T;
};
template <>
struct AccumulatorOf<Half> {
  using type = float;
};
template <>
struct AccumulatorOf<BFloat16> {
  using type = float;
};
template <>
struct AccumulatorOf<bool> {
  using type = int;
};

template <class T, class Acc>
inline T stored(Acc value) {
  if constexpr (std::is_same_v<T, bool>)
    return value != 0;
  else
    return T(value);
}

template <ReduceOp op, class T>
void combine_tile(std::span<const void* const> parts, std::span<void* const> outs, int64_t begin,
                  int64_t n) {
  using Acc = typename AccumulatorOf<T>::type;
  alignas(64) Acc sums[kTile];
  const T* const first = static_cast<const T*>(parts[0]) + begin;
  for (int64_t i = 0; i < n; ++i) sums[i] = static_cast<Acc>(first[i]);
  for (const void* part : parts.subspan(1)) {
    const T* const next = static_cast<const T*>(part) + begin;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) sums[i] = combined<op>(sums[i], static_cast<Acc>(next[i]));
  }
  if constexpr (op == ReduceOp::average && std::is_floating_point_v<Acc>) {
    const Acc factor = Acc(1) / static_cast<Acc>(parts.size());
    for (int64_t i = 0; i < n; ++i) sums[i] *= factor;
  }
  T* const out = static_cast<T*>(outs[0]) + begin;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = stored<T>(sums[i]);
  for (void* other : outs.subspan(1))
    std::memcpy(static_cast<T*>(other) + begin, out, static_cast<size_t>(n) * sizeof(T));
}

// Two parts in one pass. Bits are those of combine_tile.
template <ReduceOp op, bool twice, class T>
void combine_two(const T* first, const T* second, T* out, T* other, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    T result = combined<op>(first[i], second[i]);
    if constexpr (op == ReduceOp::average) result *= T(0.5);
    out[i] = result;
    if constexpr (twice) other[i] = result;
  }
}

template <ReduceOp op, class T>
void combine_all(std::span<const void* const> parts, std::span<void* const> outs, int64_t count) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)
    if (parts.size() == 2 && outs.size() <= 2) {
      const T* const a = static_cast<const T*>(parts[0]);
      const T* const b = static_cast<const T*>(parts[1]);
      T* const out = static_cast<T*>(outs[0]);
      T* const other = static_cast<T*>(outs.back());
      return outs.size() == 2 ? combine_two<op, true>(a, b, out, other, count)
                              : combine_two<op, false>(a, b, out, other, count);
    }
  for (int64_t at = 0; at < count; at += kTile)
    combine_tile<op, T>(parts, outs, at, std::min(kTile, count - at));
}

template <class T>
void combine_typed(ReduceOp op, std::span<const void* const> parts, std::span<void* const> outs,
                   int64_t count) {
  switch (op) {
    case ReduceOp::sum:
      return combine_all<ReduceOp::sum, T>(parts, outs, count);
    case ReduceOp::average:
      return combine_all<ReduceOp::average, T>(parts, outs, count);
    case ReduceOp::product:
      return combine_all<ReduceOp::product, T>(parts, outs, count);
    case ReduceOp::minimum:
      return combine_all<ReduceOp::minimum, T>(parts, outs, count);
    case ReduceOp::maximum:
      return combine_all<ReduceOp::maximum, T>(parts, outs, count);
  }
}

}  // namespace

void combine(ReduceOp op, DType dtype, std::span<const void* const> parts,
             std::span<void* const> outs, int64_t count) {
  if (is_complex(dtype)) {
    if (op != ReduceOp::product) return combine(op, real_dtype(dtype), parts, outs, 2 * count);
    if (dtype == kComplex64)
      return combine_all<ReduceOp::product, Complex<float>>(parts, outs, count);
    return combine_all<ReduceOp::product, Complex<double>>(parts, outs, count);
  }
  visit_dtype(dtype, [&]<class T>() { combine_typed<T>(op, parts, outs, count); });
}

}  // namespace tensora::distributed
