#pragma once

// Internal header: lines whose length has a large prime factor, by convolution; see Note [Lines in
// lanes].

#include <algorithm>

#include "tensora/ops/fft/fft_lanes.h"

namespace tensora::cpu::TENSORA_ISA {

/// The transform of lines across lanes in the second buffer; returns the buffer that holds the
/// result.
template <class T>
Parts<FftVector<T>>* convolve_across(const FftPlan<T>& plan, const Buffers<T>& buffers) {
  const FftPlan<T>& inner = *plan.convolution;
  const auto multiply = [](Parts<FftVector<T>> x, const std::vector<T>& table, int64_t k) {
    const T* const re = table.data() + k;
    return times(x, re[0], re[table.size() / 2]);
  };
  auto* const x = buffers.second;
  for (int64_t j = 0; j < plan.n; ++j) x[j] = multiply(x[j], plan.chirp, j);
  for (int64_t j = plan.n; j < inner.n; ++j) x[j] = Parts<FftVector<T>>{};
  auto* const product = run_to_buffer<Layout::across>(inner, InBuffer<T>{x}, buffers);
  for (int64_t k = 0; k < inner.n; ++k) {  // and exchanged, for the inverse transform
    const auto y = multiply(product[k], plan.spectrum, k);
    product[k] = {y.im, y.re};
  }
  auto* const result =
      run_to_buffer<Layout::across>(inner, InBuffer<T>{product}, {buffers.other(product), product});
  for (int64_t k = 0; k < plan.n; ++k)
    result[k] = multiply({result[k].im, result[k].re}, plan.chirp, k);
  return result;
}

template <class T>
[[gnu::always_inline]] inline void transpose_parts(Parts<FftVector<T>>* x) {
  constexpr int kLanes = kFftLanes<T>;
  FftVector<T> re[kLanes], im[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    re[i] = x[i].re;
    im[i] = x[i].im;
  }
  transpose_lanes<T>(re);
  transpose_lanes<T>(im);
  for (int i = 0; i < kLanes; ++i) x[i] = {re[i], im[i]};
}

/// As many rows from row k on as there are lanes: the rest of the transform, the product with the
/// chirp's spectrum, and the beginning of the inverse transform, whose parts are exchanged.
template <class T>
void convolve_rows(const FftPlan<T>& plan, int64_t k, Parts<FftVector<T>>* rows) {
  constexpr int kLanes = kFftLanes<T>;
  const int64_t n = plan.convolution->n, m = n / kLanes;
  const auto multiply = [n](Parts<FftVector<T>> x, const T* re) {
    return times(x, load_vector(re), load_vector(re + n));
  };
  const T* const twists = plan.convolution_twists.data() + k * kLanes;
  const T* const spectrum = plan.spectrum.data() + k;
  Parts<FftVector<T>> x[kLanes];
  for (int i = 0; i < kLanes; ++i) x[i] = multiply(rows[k + i], twists + i * kLanes);
  transpose_parts<T>(x);
  butterfly<kLanes>(x, kLanes, spectrum);
  for (int i = 0; i < kLanes; ++i) {
    const auto product = multiply(x[i], spectrum + i * m);
    x[i] = {product.im, product.re};
  }
  butterfly<kLanes>(x, kLanes, spectrum);
  transpose_parts<T>(x);
  for (int i = 0; i < kLanes; ++i) rows[k + i] = multiply(x[i], twists + i * kLanes);
}

/// The transform of a line of pairs along vectors. The convolution's line is an array that has a
/// column in each lane: the columns are transformed, then the rows, and back; nothing needs the
/// order of the spectrum between. The pairs go by way of a buffer, because lines of odd lengths
/// begin anywhere, and vectors that share two lines of the cache are slow.
template <class T, bool kSwappedIn, bool kSwappedOut>
void convolve_along(const FftPlan<T>& plan, const InPairs<T, kSwappedIn>& source,
                    const InPairs<T, kSwappedOut>& sink, const Buffers<T>& buffers) {
  constexpr int kLanes = kFftLanes<T>;
  const FftPlan<T>& columns = *plan.convolution_columns;
  const int64_t used = (plan.n + kLanes - 1) / kLanes;
  const auto times_chirp = [&plan](const Parts<FftVector<T>>& x, int64_t j) {
    const T* const re = plan.chirp.data() + j * kLanes;
    return times(x, load_vector(re), load_vector(re + plan.chirp.size() / 2));
  };
  const InPairs<T, kSwappedIn> in{reinterpret_cast<T*>(buffers.first), 2 * kLanes};
  std::copy(source.data, source.data + 2 * plan.n, in.data);
  std::fill(in.data + 2 * plan.n, in.data + 2 * used * kLanes, T(0));
  auto* const x = buffers.second;
  for (int64_t j = 0; j < used; ++j) x[j] = times_chirp(in.load(j), j);
  for (int64_t j = used; j < columns.n; ++j) x[j] = Parts<FftVector<T>>{};
  auto* const rows = run_to_buffer<Layout::across>(columns, InBuffer<T>{x}, buffers);
  for (int64_t k = 0; k < columns.n; k += kLanes) convolve_rows(plan, k, rows);
  auto* const result =
      run_to_buffer<Layout::across>(columns, InBuffer<T>{rows}, {buffers.other(rows), rows});
  const InPairs<T, kSwappedOut> out{reinterpret_cast<T*>(buffers.other(result)), 2 * kLanes,
                                    sink.scale};
  for (int64_t j = 0; j < used; ++j) out.store(j, times_chirp({result[j].im, result[j].re}, j));
  std::copy(out.data, out.data + 2 * plan.n, sink.data);
}

}  // namespace tensora::cpu::TENSORA_ISA
