#pragma once

// The CPU's reductions. Everything that depends on the reduction is a handful of small vectorised
// functions on contiguous tiles (`ReduceTiles`); dims, strides, dtypes and threads are handled
// around them, once, in reduce_isa.cpp.
//
// core/reduction.h describes the functors that tiles are made of. One whose results are found in
// another way, as positions are, writes its tiles itself.

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "tensora/core/kernel.h"
#include "tensora/core/reduction.h"

namespace tensora::cpu::TENSORA_ISA {

/// The type-erased functions of one reduction for one compute type. `f` is the functor, `x`
/// contiguous rows of compute values, `row_stride` elements apart. Accumulators are updated, never
/// overwritten, except by `init`.
struct ReduceTiles {
  void (*init)(const void* f, void* acc, int64_t n) = nullptr;
  /// acc[r] accumulates x[r][0 … n). `index` is the position of column 0 in the reduced range.
  void (*rows)(const void* f, const void* x, int64_t row_stride, int64_t rows, int64_t n,
               int64_t index, void* acc) = nullptr;
  /// acc[j] accumulates x[0 … rows)[j]. `index` is the position of row 0 in the reduced range.
  void (*columns)(const void* f, const void* x, int64_t row_stride, int64_t rows, int64_t n,
                  int64_t index, void* acc) = nullptr;
  /// acc[i] is combined with later[i], whose elements came after those of acc[i].
  void (*combine)(const void* f, void* acc, const void* later, int64_t n) = nullptr;
  /// The results, as contiguous arrays of the types named in `outputs`.
  void (*finish)(const void* f, const void* acc, int64_t n, void* const* out) = nullptr;

  DType compute = DType::float32;  // float32, float64, int64; uint8 reads 1-byte dtypes raw
  DType outputs[2] = {};
  int64_t acc_bytes = 0;
  bool indexed = false;  // uses `index`, so elements must arrive in logical order
};

/// Columns that one call of `columns` gets at most.
inline constexpr int64_t kReduceColumns = 1024;
/// Bytes that one accumulator takes at most.
inline constexpr int64_t kMaxAccBytes = 32;

/// Reduces the dims of `in` whose bit is set in `mask` into the outputs, whose dims are the kept
/// ones in order (dims of size 1 do not count). The result does not depend on the number of
/// threads.
void run_reduction(const View& in, uint32_t mask, std::span<const View* const> out,
                   const ReduceTiles& tiles, const void* functor);

// ---- tiles of a functor ------------------------------------------------------------------------

/// Elements folded into lanes before they are widened: bounds the rounding error of float lanes.
inline constexpr int64_t kRunBlock = 4096;
inline constexpr int64_t kRowBlock = 32;
/// How far ahead elements are fetched: a page, over the end of which processors do not look.
inline constexpr int64_t kFetchAhead = 4096;

template <class F>
inline constexpr int kReduceLanes = 256 / static_cast<int>(sizeof(typename F::Lane));

/// Many independent chains, so that the loop vectorises without permission to reorder additions.
template <int lanes, class F>
inline typename F::Lane reduce_lanes(const F& f, const typename F::Value* x, int64_t n) {
  alignas(64) typename F::Lane lane[lanes];
  for (int j = 0; j < lanes; ++j) lane[j] = f.lane();
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const char* const here = reinterpret_cast<const char*>(x + i);
    for (size_t line = 0; line < lanes * sizeof(x[0]); line += 64)
      __builtin_prefetch(here + kFetchAhead + line);
#pragma omp simd
    for (int j = 0; j < lanes; ++j) lane[j] = f.step(lane[j], x[i + j]);
  }
  const int rest = static_cast<int>(n - i);
#pragma omp simd
  for (int j = 0; j < rest; ++j) lane[j] = f.step(lane[j], x[i + j]);
#pragma GCC unroll 8
  for (int half = lanes / 2; half > 0; half /= 2) {
#pragma omp simd
    for (int j = 0; j < half; ++j) lane[j] = f.merge(lane[j], lane[j + half]);
  }
  return lane[0];
}

/// Up to kRunBlock elements. Short runs use few lanes, which are merged faster.
template <class F>
inline typename F::Lane reduce_block(const F& f, const typename F::Value* x, int64_t n) {
  constexpr int lanes = kReduceLanes<F>;
  if (n >= 4 * lanes) return reduce_lanes<lanes>(f, x, n);
  if (n >= lanes / 4) return reduce_lanes<lanes / 4>(f, x, n);
  typename F::Lane lane = f.lane();
  for (int64_t i = 0; i < n; ++i) lane = f.step(lane, x[i]);
  return lane;
}

template <class F>
void init_tile(const void* functor, void* acc, int64_t n) {
  using Acc = typename F::Acc;
  const F& f = *static_cast<const F*>(functor);
  std::fill_n(static_cast<Acc*>(acc), n, f.widen(f.lane()));
}

template <class F>
concept LooksTwice = requires(const F f, typename F::Value x) { f.first_look(x); };
template <class F>
concept HasParts = requires { typename F::PartA; };

/// See Note [Taken again].
template <class F, class C>
inline typename F::Acc again_if_needed(const F& f, typename F::Acc acc, const C* x, int64_t step,
                                       int64_t n) {
  if constexpr (requires { f.wide(); }) {
    if (f.fits(acc)) [[likely]]
      return acc;
    const auto wide = f.wide();
    auto lane = wide.lane();
    for (int64_t i = 0; i < n; ++i) lane = wide.step(lane, x[i * step]);
    return wide.widen(lane);
  }
  return acc;
}

/// A run of up to kRunBlock elements, which stay in the L1 cache.
template <class F>
inline typename F::Acc reduce_run(const F& f, const typename F::Value* x, int64_t n) {
  if constexpr (LooksTwice<F>) {
    const auto count = static_cast<double>(n);
    const auto seen = reduce_block(f.first_look(x[0]), x, n);
    const auto look = f.second_look(x[0], seen, count);
    return again_if_needed(f, f.of_run(x[0], seen, look, reduce_block(look, x, n), count), x, 1, n);
  } else if constexpr (HasParts<F>) {
    return {reduce_run(f.part_a, x, n), reduce_run(f.part_b, x, n)};
  } else {
    return f.widen(reduce_block(f, x, n));
  }
}

template <class F>
void rows_tile(const void* functor, const void* from, int64_t row_stride, int64_t rows, int64_t n,
               int64_t, void* to) {
  using Acc = typename F::Acc;
  const F f = *static_cast<const F*>(functor);
  Acc* const acc = static_cast<Acc*>(to);
  for (int64_t r = 0; r < rows; ++r) {
    const auto* x = static_cast<const typename F::Value*>(from) + r * row_stride;
    Acc total = acc[r];
    for (int64_t i = 0; i < n; i += kRunBlock)
      total = f.combine(total, reduce_run(f, x + i, std::min(kRunBlock, n - i)));
    acc[r] = total;
  }
}

/// lane[j] accumulates x[0 … height)[j] by the functor of column j, functor(j).
template <class Functor, class Lane, class C>
inline void step_columns(const Functor& functor, Lane* lane, const C* x, int64_t row_stride,
                         int64_t height, int64_t n) {
  for (int64_t j = 0; j < n; ++j) lane[j] = functor(j).lane();
  for (int64_t i = 0; i < height; ++i, x += row_stride) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) lane[j] = functor(j).step(lane[j], x[j]);
  }
}

/// take(j, acc) for each of n columns of up to kRowBlock rows.
template <class F, class Take>
inline void reduce_columns(const F& f, const typename F::Value* x, int64_t row_stride,
                           int64_t height, int64_t n, Take&& take) {
  if constexpr (LooksTwice<F>) {
    using First = decltype(f.first_look(x[0]));
    using Second = decltype(f.second_look(x[0], typename First::Lane(), 0.0));
    const auto count = static_cast<double>(height);
    alignas(64) typename First::Lane seen[kReduceColumns];
    alignas(64) typename Second::Lane seen_then[kReduceColumns];
    alignas(64) typename F::Value centers[kReduceColumns];
    const auto first = [&](int64_t j) { return f.first_look(x[j]); };
    step_columns(first, seen, x, row_stride, height, n);
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) centers[j] = f.second_look(x[j], seen[j], count).center;
    const auto second = [&](int64_t j) { return Second(centers[j]); };
    step_columns(second, seen_then, x, row_stride, height, n);
    for (int64_t j = 0; j < n; ++j)
      take(j, again_if_needed(f, f.of_run(x[j], seen[j], second(j), seen_then[j], count), x + j,
                              row_stride, height));
  } else {
    alignas(64) typename F::Lane lane[kReduceColumns];
    step_columns([&](int64_t) { return f; }, lane, x, row_stride, height, n);
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) take(j, f.widen(lane[j]));
  }
}

template <class F>
void columns_tile(const void* functor, const void* from, int64_t row_stride, int64_t rows,
                  int64_t n, int64_t, void* to) {
  const F f = *static_cast<const F*>(functor);
  auto* const acc = static_cast<typename F::Acc*>(to);
  for (int64_t r = 0; r < rows; r += kRowBlock) {
    const auto* const x = static_cast<const typename F::Value*>(from) + r * row_stride;
    const int64_t height = std::min(kRowBlock, rows - r);
    if constexpr (HasParts<F>) {
      reduce_columns(f.part_a, x, row_stride, height, n,
                     [&](int64_t j, auto part) { acc[j].a = f.part_a.combine(acc[j].a, part); });
      reduce_columns(f.part_b, x, row_stride, height, n,
                     [&](int64_t j, auto part) { acc[j].b = f.part_b.combine(acc[j].b, part); });
    } else {
      reduce_columns(f, x, row_stride, height, n,
                     [&](int64_t j, auto part) { acc[j] = f.combine(acc[j], part); });
    }
  }
}

template <class F>
void combine_tile(const void* functor, void* to, const void* from, int64_t n) {
  using Acc = typename F::Acc;
  const F f = *static_cast<const F*>(functor);
  Acc* const acc = static_cast<Acc*>(to);
  const Acc* const later = static_cast<const Acc*>(from);
  for (int64_t i = 0; i < n; ++i) acc[i] = f.combine(acc[i], later[i]);
}

// Note [One function for every element]
// The C library's vector functions differ from its scalar ones in the last bit. A loop over n
// results would use the one for full vectors and the other for the rest, and n depends on how the
// outputs were split among threads. So such functions are applied to full vectors only.
template <class F, class Out>
void finish_in_full_vectors(const F& f, const typename F::Acc* acc, int64_t n, Out* to) {
  constexpr int64_t width = 8;
  for (int64_t i = 0; i < n; i += width) {
    alignas(64) Out block[width];
    const int64_t count = std::min(width, n - i);
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) block[j] = f.finish(acc[i + std::min(j, count - 1)]);
    std::copy_n(block, count, to + i);
  }
}

template <class F>
void finish_tile(const void* functor, const void* from, int64_t n, void* const* out) {
  const F f = *static_cast<const F*>(functor);
  const auto* const acc = static_cast<const typename F::Acc*>(from);
  auto* const to = static_cast<typename F::Out*>(out[0]);
  if constexpr (F::kMathInFinish)
    finish_in_full_vectors(f, acc, n, to);
  else
    for (int64_t i = 0; i < n; ++i) to[i] = f.finish(acc[i]);
  if constexpr (F::kOutputs == 2) {
    auto* const beside = static_cast<decltype(f.second(acc[0]))*>(out[1]);
    for (int64_t i = 0; i < n; ++i) beside[i] = f.second(acc[i]);
  }
}

template <class F>
constexpr DType second_dtype() {
  if constexpr (F::kOutputs == 2)
    return dtype_of<decltype(std::declval<const F&>().second(std::declval<typename F::Acc>()))>;
  else
    return {};
}

/// The tiles of a functor.
template <class F>
constexpr ReduceTiles reduce_tiles() {
  static_assert(!F::kIndexed, "positions need tiles of their own");
  static_assert(sizeof(typename F::Acc) <= kMaxAccBytes);
  return {.init = init_tile<F>,
          .rows = rows_tile<F>,
          .columns = columns_tile<F>,
          .combine = combine_tile<F>,
          .finish = finish_tile<F>,
          .compute = dtype_of<typename F::Value>,
          .outputs = {dtype_of<typename F::Out>, second_dtype<F>()},
          .acc_bytes = sizeof(typename F::Acc)};
}

/// Reduces input 0 into the outputs.
template <class F>
void reduce(const KernelContext& context, uint32_t mask, const F& functor) {
  static constexpr ReduceTiles tiles = reduce_tiles<F>();
  run_reduction(context.input(0), mask, context.out, tiles, &functor);
}

/// Calls body.template operator()<C>() with the compute type that serves a floating `dtype`: double
/// for itself, float for the others.
template <class Body>
void visit_compute_floating(DType dtype, Body&& body) {
  if (dtype == DType::float64)
    body.template operator()<double>();
  else
    body.template operator()<float>();
}

/// The same with int64 for bool and the integers.
template <class Body>
void visit_compute(DType dtype, Body&& body) {
  if (is_floating_point(dtype))
    visit_compute_floating(dtype, body);
  else
    body.template operator()<int64_t>();
}

}  // namespace tensora::cpu::TENSORA_ISA
