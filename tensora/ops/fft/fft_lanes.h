#pragma once

// Internal header: the passes of Fourier transforms over lines in the lanes of vectors; see Note
// [Lines in lanes].

#include <cstdint>
#include <type_traits>

#include "tensora/ops/fft/fft_plan.h"

// Vectors wider than the registers are split by the compiler; the functions that pass them are all
// inlined, so there is no calling convention to warn about.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace tensora::cpu::TENSORA_ISA {

template <class T>
inline constexpr int kFftLanes = 32 / static_cast<int>(sizeof(T));
template <class T>
struct FftVectorOf {
  typedef T type __attribute__((vector_size(32)));
};
template <class T>
using FftVector = typename FftVectorOf<T>::type;

/// A complex number in each lane, or a single one where V is a number.
template <class V>
struct Parts {
  V re, im;
};

template <class V>
[[gnu::always_inline]] inline Parts<V> plus(const Parts<V>& a, const Parts<V>& b) {
  return {a.re + b.re, a.im + b.im};
}
template <class V>
[[gnu::always_inline]] inline Parts<V> minus(const Parts<V>& a, const Parts<V>& b) {
  return {a.re - b.re, a.im - b.im};
}
template <class V, class T>
[[gnu::always_inline]] inline Parts<V> times(const Parts<V>& a, T re, T im) {
  return {a.re * re - a.im * im, a.re * im + a.im * re};
}

/// The transform of `radix` numbers in place. An odd radix takes them in pairs around the first:
/// the roots of a pair are conjugates.
template <int kRadix, class V, class T>
[[gnu::always_inline]] inline void butterfly(Parts<V>* x, int radix, const T* roots) {
  if constexpr (kRadix == 2) {
    const Parts<V> first = x[0];
    x[0] = plus(first, x[1]);
    x[1] = minus(first, x[1]);
  } else if constexpr (kRadix == 4) {
    const Parts<V> a = plus(x[0], x[2]), b = minus(x[0], x[2]);
    const Parts<V> c = plus(x[1], x[3]), d = minus(x[1], x[3]);
    x[0] = plus(a, c);
    x[1] = {b.re + d.im, b.im - d.re};
    x[2] = minus(a, c);
    x[3] = {b.re - d.im, b.im + d.re};
  } else {
    constexpr int kMost = kRadix ? kRadix : 31;
    Parts<V> sums[kMost / 2 + 1], differences[kMost / 2 + 1];
    const Parts<V> first = x[0];
    const int pairs = (kRadix ? kRadix : radix) / 2;
    for (int j = 1; j <= pairs; ++j) {
      sums[j] = plus(x[j], x[2 * pairs + 1 - j]);
      differences[j] = minus(x[j], x[2 * pairs + 1 - j]);
      x[0] = plus(x[0], sums[j]);
    }
    for (int k = 1; k <= pairs; ++k) {
      Parts<V> even = first, odd = {};
      int at = 0;
      for (int j = 1; j <= pairs; ++j) {
        at += k;
        if (at >= 2 * pairs + 1) at -= 2 * pairs + 1;
        const T c = roots[2 * at], s = roots[2 * at + 1];
        even = {even.re + sums[j].re * c, even.im + sums[j].im * c};
        odd = {odd.re - differences[j].im * s, odd.im + differences[j].re * s};
      }
      x[k] = plus(even, odd);
      x[2 * pairs + 1 - k] = minus(even, odd);
    }
  }
}

template <int kRadix, class T>
void run_pass(const FftPass<T>& pass, const Parts<FftVector<T>>* from, Parts<FftVector<T>>* to) {
  const int radix = kRadix ? kRadix : static_cast<int>(pass.radix);
  const int64_t stride = pass.stride, step = pass.stride * pass.blocks;
  const T* twiddles = pass.twiddles.data();
  for (int64_t block = 0; block < pass.blocks; ++block, twiddles += 2 * (radix - 1))
    for (int64_t q = 0; q < stride; ++q) {
      const Parts<FftVector<T>>* const in = from + q + stride * block;
      Parts<FftVector<T>>* const out = to + q + stride * radix * block;
      Parts<FftVector<T>> x[kRadix ? kRadix : 31];
      x[0] = in[0];
      for (int j = 1; j < radix; ++j) x[j] = in[step * j];
      butterfly<kRadix>(x, radix, pass.roots.data());
      out[0] = x[0];
      if (block == 0)  // multiplied by 1
        for (int j = 1; j < radix; ++j) out[stride * j] = x[j];
      else
        for (int j = 1; j < radix; ++j)
          out[stride * j] = times(x[j], twiddles[2 * j - 2], twiddles[2 * j - 1]);
    }
}

/// All passes, from one buffer to the other and back; returns the one that holds the result.
template <class T>
Parts<FftVector<T>>* run_passes(const FftPlan<T>& plan, Parts<FftVector<T>>* from,
                                Parts<FftVector<T>>* to) {
  for (const FftPass<T>& pass : plan.passes) {
    switch (pass.radix) {
      case 2:
        run_pass<2>(pass, from, to);
        break;
      case 3:
        run_pass<3>(pass, from, to);
        break;
      case 4:
        run_pass<4>(pass, from, to);
        break;
      case 5:
        run_pass<5>(pass, from, to);
        break;
      default:
        run_pass<0>(pass, from, to);
    }
    Parts<FftVector<T>>* const result = to;
    to = from;
    from = result;
  }
  return from;
}

/// The transform of lines in one of two buffers of plan.longest() elements; returns the one that
/// holds the result.
template <class T>
Parts<FftVector<T>>* run_in_buffers(const FftPlan<T>& plan, Parts<FftVector<T>>* first,
                                    Parts<FftVector<T>>* second) {
  if (!plan.convolution) return run_passes(plan, first, second);
  const T *const chirp = plan.chirp.data(), *const spectrum = plan.spectrum.data();
  const int64_t length = plan.convolution->n;
  for (int64_t j = 0; j < plan.n; ++j) first[j] = times(first[j], chirp[2 * j], chirp[2 * j + 1]);
  for (int64_t j = plan.n; j < length; ++j) first[j] = Parts<FftVector<T>>{};
  auto* const product = run_passes(*plan.convolution, first, second);
  for (int64_t k = 0; k < length; ++k) {  // and exchanged, for the inverse transform
    const auto x = times(product[k], spectrum[2 * k], spectrum[2 * k + 1]);
    product[k] = {x.im, x.re};
  }
  auto* const result = run_passes(*plan.convolution, product, product == first ? second : first);
  for (int64_t k = 0; k < plan.n; ++k)
    result[k] =
        times(Parts<FftVector<T>>{result[k].im, result[k].re}, chirp[2 * k], chirp[2 * k + 1]);
  return result;
}

/// Where the parts of a line's elements are, `stride` numbers apart; either may be null: zeros are
/// read there, and nothing is written.
template <class T>
struct Line {
  T* re = nullptr;
  T* im = nullptr;
  int64_t stride = 1;

  Line at(int64_t offset) const {
    return {re ? re + offset : nullptr, im ? im + offset : nullptr, stride};
  }
  Line swapped() const { return {im, re, stride}; }
};

/// Lines of one kind, `offsets` numbers from the first, one for each lane.
template <class T>
struct Lines {
  Line<T> first;
  int64_t offsets[kFftLanes<T>] = {};
  int count = 0;

  static Lines equally(const Line<T>& first, int64_t step, int64_t count) {
    Lines lines{first, {}, count < kFftLanes<T> ? static_cast<int>(count) : kFftLanes<T>};
    for (int lane = 0; lane < lines.count; ++lane) lines.offsets[lane] = lane * step;
    return lines;
  }
  /// Whether the lines are neighbours, `step` numbers apart, in all lanes.
  bool are_neighbours(int64_t step) const {
    bool yes = count == kFftLanes<T>;
    for (int lane = 0; lane < count; ++lane) yes &= offsets[lane] == lane * step;
    return yes;
  }
};

/// Calls body(step) with a constant where neighbouring lines are 1 or 2 numbers apart, else 0.
template <class T, class Body>
[[gnu::always_inline]] inline void with_step(const Lines<T>& lines, const Body& body) {
  if (lines.are_neighbours(2))
    body(std::integral_constant<int, 2>{});
  else if (lines.are_neighbours(1))
    body(std::integral_constant<int, 1>{});
  else
    body(std::integral_constant<int, 0>{});
}

template <class T>
void gather_part(const T* from, const Lines<T>& lines, int64_t n, T* to /* n, 2 lanes */) {
  constexpr int kLanes = kFftLanes<T>;
  if (!from || lines.count < kLanes)
    for (int64_t j = 0; j < n; ++j)
      for (int lane = 0; lane < kLanes; ++lane) to[j * 2 * kLanes + lane] = 0;
  if (!from) return;
  with_step(lines, [&](auto step) {
    if constexpr (step != 0) {
      for (int64_t j = 0; j < n; ++j, from += lines.first.stride, to += 2 * kLanes)
        for (int lane = 0; lane < kLanes; ++lane) to[lane] = from[lane * step];
    } else {
      constexpr int64_t kBlock = 16;  // elements: the lines share the cache
      for (int64_t begin = 0; begin < n; begin += kBlock) {
        const int64_t end = begin + kBlock < n ? begin + kBlock : n;
        for (int lane = 0; lane < lines.count; ++lane)
          for (int64_t j = begin; j < end; ++j)
            to[j * 2 * kLanes + lane] = from[lines.offsets[lane] + j * lines.first.stride];
      }
    }
  });
}

template <class T>
void scatter_part(const T* from /* n, 2 lanes */, const Lines<T>& lines, int64_t n, T scale,
                  T* to) {
  constexpr int kLanes = kFftLanes<T>;
  if (!to) return;
  with_step(lines, [&](auto step) {
    if constexpr (step != 0) {
      for (int64_t j = 0; j < n; ++j, from += 2 * kLanes, to += lines.first.stride)
        for (int lane = 0; lane < kLanes; ++lane) to[lane * step] = from[lane] * scale;
    } else {
      constexpr int64_t kBlock = 16;
      for (int64_t begin = 0; begin < n; begin += kBlock) {
        const int64_t end = begin + kBlock < n ? begin + kBlock : n;
        for (int lane = 0; lane < lines.count; ++lane)
          for (int64_t j = begin; j < end; ++j)
            to[lines.offsets[lane] + j * lines.first.stride] = from[j * 2 * kLanes + lane] * scale;
      }
    }
  });
}

/// The lines' elements in lanes; lanes without a line hold zeros.
template <class T>
void gather(const Lines<T>& lines, int64_t n, Parts<FftVector<T>>* to) {
  T* const numbers = reinterpret_cast<T*>(to);
  gather_part<T>(lines.first.re, lines, n, numbers);
  gather_part<T>(lines.first.im, lines, n, numbers + kFftLanes<T>);
}
template <class T>
void scatter(const Parts<FftVector<T>>* from, int64_t n, T scale, const Lines<T>& lines) {
  const T* const numbers = reinterpret_cast<const T*>(from);
  scatter_part<T>(numbers, lines, n, scale, lines.first.re);
  scatter_part<T>(numbers + kFftLanes<T>, lines, n, scale, lines.first.im);
}

}  // namespace tensora::cpu::TENSORA_ISA
