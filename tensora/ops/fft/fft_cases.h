#pragma once

// Internal header: Fourier transforms by their definition, in float64. Complex arrays and tensors
// are seen as real ones with a last dim of 2, so that the suite's finite differences apply.

#include <cmath>
#include <complex>
#include <numbers>

#include "tests/suite/cases.h"

namespace tensora::suite {

// A copy, because pairs must begin at even places and the samples lie anywhere.
inline Tensor from_parts(const Tensor& parts) { return view_as_complex(clone(contiguous(parts))); }
inline Tensor to_parts(const Tensor& x) { return x.is_complex() ? view_as_real(x) : x; }

/// A real array with imaginary parts of 0.
inline Array with_zeros(const Array& x) {
  Shape sizes = x.sizes;
  sizes.push_back(2);
  Array out(sizes);
  for (int64_t i = 0; i < x.numel(); ++i) out[2 * i] = x[i];
  return out;
}

/// Pairs along `dim`, which counts from 0, cut off or filled up with zeros.
inline Array resized(const Array& x, int dim, int64_t size) {
  Shape sizes = x.sizes;
  sizes[dim] = size;
  Array out(sizes);
  Array::each(sizes, [&](const Shape& index) {
    if (index[dim] < x.sizes[dim]) out.at(index) = x.at(index);
  });
  return out;
}

/// The sums of x[j] e^(-2 pi i j k / n) along `dim`, or with the opposite sign, times `scale`.
inline Array transformed(const Array& x, int dim, bool forward, double scale = 1) {
  using Z = std::complex<double>;
  const int64_t n = x.sizes[dim];
  int64_t step = 1;  // pairs from one element to the next
  for (int d = dim + 1; d < x.sizes.size() - 1; ++d) step *= x.sizes[d];
  std::vector<Z> roots;
  for (int64_t k = 0; k < n; ++k)
    roots.push_back(std::polar(1., (forward ? -2 : 2) * std::numbers::pi * static_cast<double>(k) /
                                       static_cast<double>(n)));
  Array out(x.sizes);
  for (int64_t line = 0; line < x.numel() / 2 / std::max<int64_t>(n, 1); ++line) {
    const int64_t first = line / step * step * n + line % step;
    for (int64_t k = 0; k < n; ++k) {
      Z sum = 0;
      for (int64_t j = 0, turn = 0; j < n; ++j) {
        const int64_t at = 2 * (first + j * step);
        sum += Z(x[at], x[at + 1]) * roots[static_cast<size_t>(turn)];
        turn += k;
        if (turn >= n) turn -= n;
      }
      out[2 * (first + k * step)] = sum.real() * scale;
      out[2 * (first + k * step) + 1] = sum.imag() * scale;
    }
  }
  return out;
}

/// The real parts alone.
inline Array real_parts(const Array& x) {
  Shape sizes = x.sizes;
  sizes.resize(sizes.size() - 1);
  Array out(sizes);
  for (int64_t i = 0; i < out.numel(); ++i) out[i] = x[2 * i];
  return out;
}

/// All n elements along `dim` of a spectrum whose first half is given, whose other elements are
/// conjugates: that of elements which are their own is taken to be real.
inline Array completed(const Array& half, int dim, int64_t n) {
  Array all = resized(half, dim, n);
  const int last = half.sizes.size() - 1;
  Array::each(all.sizes, [&](const Shape& index) {
    const int64_t k = index[dim];
    Shape from = index;
    from[dim] = std::min(k, n - k);
    const double sign = index[last] == 0 ? 1 : k == (n - k) % n ? 0 : 2 * k < n ? 1 : -1;
    all.at(index) = k == 0 && index[last] == 1 ? 0 : sign * half.at(k == 0 ? index : from);
  });
  return all;
}

}  // namespace tensora::suite
