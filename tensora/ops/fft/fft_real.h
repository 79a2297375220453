#pragma once

// Internal header: the spectra of real lines, from and to those of half as many complex numbers.

#include "tensora/ops/fft/fft_vectors.h"

namespace tensora::cpu::TENSORA_ISA {

/// Element k of the transform of real numbers x, from those of the pairs x[2 j] + i x[2 j + 1]: a
/// is element k of n / 2, b element n / 2 - k; the root is e^(-2 pi i k / n).
template <class V, class F>
[[gnu::always_inline]] inline Parts<V> apart(const Parts<V>& a, const Parts<V>& b, F re, F im) {
  const Parts<V> even{a.re + b.re, a.im - b.im}, odd{a.im + b.im, b.re - a.re};
  const Parts<V> twice = plus(even, times(odd, re, im));
  return {twice.re * 0.5F, twice.im * 0.5F};
}

/// The reverse, times two, its parts exchanged, for the inverse transform.
template <class V, class F>
[[gnu::always_inline]] inline Parts<V> together(const Parts<V>& a, const Parts<V>& b, F re, F im) {
  const Parts<V> even{a.re + b.re, a.im - b.im};
  const Parts<V> odd = times(Parts<V>{a.re - b.re, a.im + b.im}, re, -im);
  return {even.im + odd.re, even.re - odd.im};
}

/// Elements 0 … half of x from z; `roots` has half + 1 real parts, then as many imaginary ones.
template <class V, class T>
void take_apart(const Parts<V>* z, int64_t half, const T* roots, Parts<V>* x) {
  for (int64_t k = 0; k <= half; ++k)
    x[k] = apart(z[k < half ? k : 0], z[k ? half - k : 0], roots[k], roots[half + 1 + k]);
}

template <class V, class T>
void put_together(Parts<V>* x, int64_t half, const T* roots, Parts<V>* z) {
  x[0].im = x[half].im = V{};
  for (int64_t k = 0; k < half; ++k)
    z[k] = together(x[k], x[half - k], roots[k], roots[half + 1 + k]);
}

/// The same for a line along vectors, to pairs; after z there is place for one more vector.
template <class T>
void take_apart_along(Parts<FftVector<T>>* z, int64_t half, const T* roots, T scale, T* pairs) {
  constexpr int kLanes = kFftLanes<T>;
  const int64_t vectors = half / kLanes;
  z[vectors] = z[0];
  // Lane i of z[v] stands for element v * kLanes + i; its mirror image begins in the next vector.
  const auto mirrored = [](FftVector<T> next, FftVector<T> after) {
    return shuffled<[](int i) { return i == 0 ? kLanes : kLanes - i; }>(next, after);
  };
  for (int64_t v = 0; v < vectors; ++v) {
    const auto &next = z[vectors - v - 1], &after = z[vectors - v];
    const Parts<FftVector<T>> b{mirrored(next.re, after.re), mirrored(next.im, after.im)};
    const auto x =
        apart(z[v], b, load_vector(roots + v * kLanes), load_vector(roots + half + 1 + v * kLanes));
    store_pairs<T>(pairs + v * 2 * kLanes, {x.re * scale, x.im * scale});
  }
  pairs[2 * half] = (z[0].re[0] - z[0].im[0]) * scale;
  pairs[2 * half + 1] = 0;
}

/// The same from pairs.
template <class T>
void put_together_along(const T* pairs, int64_t half, const T* roots, Parts<FftVector<T>>* z) {
  constexpr int kLanes = kFftLanes<T>;
  for (int64_t k = 0; k < half; k += kLanes) {
    Parts<FftVector<T>> a = load_pairs(pairs + 2 * k);
    Parts<FftVector<T>> b = load_pairs_reversed(pairs + 2 * (half - k - kLanes + 1));
    if (k == 0) a.im[0] = b.im[0] = 0;
    z[k / kLanes] = together(a, b, load_vector(roots + k), load_vector(roots + half + 1 + k));
  }
}

/// A spectrum of odd length n from its first half, its parts exchanged.
template <class V>
void complete(Parts<V>* x, int64_t n, Parts<V>* z) {
  z[0] = {V{}, x[0].re};
  for (int64_t k = 1; k <= n / 2; ++k) {
    z[k] = {x[k].im, x[k].re};
    z[n - k] = {-x[k].im, x[k].re};
  }
}

}  // namespace tensora::cpu::TENSORA_ISA
