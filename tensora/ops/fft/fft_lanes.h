#pragma once

// Internal header: the passes of Fourier transforms over lines in vectors; see Note [Lines in
// lanes].

#include "tensora/ops/fft/fft_plan.h"
#include "tensora/ops/fft/fft_vectors.h"

namespace tensora::cpu::TENSORA_ISA {

template <class V>
[[gnu::always_inline]] inline void butterfly_of_4(Parts<V>& x0, Parts<V>& x1, Parts<V>& x2,
                                                  Parts<V>& x3) {
  const Parts<V> a = plus(x0, x2), b = minus(x0, x2);
  const Parts<V> c = plus(x1, x3), d = minus(x1, x3);
  x0 = plus(a, c);
  x1 = {b.re + d.im, b.im - d.re};
  x2 = minus(a, c);
  x3 = {b.re - d.im, b.im + d.re};
}

template <class V, class T>
[[gnu::always_inline]] inline void butterfly_of_8(Parts<V>* x, T half_root /* of 1/2 */) {
  butterfly_of_4(x[0], x[2], x[4], x[6]);
  butterfly_of_4(x[1], x[3], x[5], x[7]);
  // The odd ones times the 8th roots of unity.
  const Parts<V> first = x[1];
  const Parts<V> second{(x[3].re + x[3].im) * half_root, (x[3].im - x[3].re) * half_root};
  const Parts<V> third{x[5].im, -x[5].re};
  const Parts<V> fourth{(x[7].im - x[7].re) * half_root, (x[7].re + x[7].im) * -half_root};
  const Parts<V> even[] = {x[0], x[2], x[4], x[6]}, odd[] = {first, second, third, fourth};
  for (int k = 0; k < 4; ++k) {
    x[k] = plus(even[k], odd[k]);
    x[k + 4] = minus(even[k], odd[k]);
  }
}

/// Four by four: first over numbers that are four apart, then over neighbours.
template <class T, class V>
[[gnu::always_inline]] inline void butterfly_of_16(Parts<V>* x) {
  // The 16th roots of unity are e^(-2 pi i k / 16).
  constexpr T kCos = static_cast<T>(0.92387953251128675613),
              kHalf = static_cast<T>(0.70710678118654752440),
              kSin = static_cast<T>(0.38268343236508977173);
  for (int j = 0; j < 4; ++j) butterfly_of_4(x[j], x[4 + j], x[8 + j], x[12 + j]);
  x[5] = times(x[5], kCos, -kSin);
  x[6] = times(x[6], kHalf, -kHalf);
  x[7] = times(x[7], kSin, -kCos);
  x[9] = times(x[9], kHalf, -kHalf);
  x[10] = {x[10].im, -x[10].re};
  x[11] = times(x[11], -kHalf, -kHalf);
  x[13] = times(x[13], kSin, -kCos);
  x[14] = times(x[14], -kHalf, -kHalf);
  x[15] = times(x[15], -kCos, kSin);
  for (int k = 0; k < 16; k += 4) butterfly_of_4(x[k], x[k + 1], x[k + 2], x[k + 3]);
  for (int k = 0; k < 4; ++k)
    for (int j = k + 1; j < 4; ++j) std::swap(x[4 * k + j], x[4 * j + k]);
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
    butterfly_of_4(x[0], x[1], x[2], x[3]);
  } else if constexpr (kRadix == 8) {
    butterfly_of_8(x, static_cast<T>(0.70710678118654752440));
  } else if constexpr (kRadix == 16) {
    butterfly_of_16<T>(x);
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
        const T c = roots[at], s = roots[2 * pairs + 1 + at];
        even = {even.re + sums[j].re * c, even.im + sums[j].im * c};
        odd = {odd.re - differences[j].im * s, odd.im + differences[j].re * s};
      }
      x[k] = plus(even, odd);
      x[2 * pairs + 1 - k] = minus(even, odd);
    }
  }
}

/// The butterflies of one block; `stride` counts vectors. In the first block, the outputs are
/// multiplied by 1.
template <int kRadix, bool kTwiddled, class T, class Source, class Sink>
[[gnu::always_inline]] inline void run_block(const FftPass<T>& pass, int64_t stride, int64_t block,
                                             const Source& from, const Sink& to) {
  const int radix = kRadix ? kRadix : static_cast<int>(pass.radix);
  int64_t step = stride * pass.blocks, out_step = stride;
  const T* const twiddles = pass.twiddles.data() + block * 2 * (radix - 1);
  for (int64_t q = 0; q < stride; ++q) {
    // Unknown to the compiler, or else it would keep a pointer for each j, more than there are
    // registers.
    asm("" : "+r"(step), "+r"(out_step));
    int64_t in = q + stride * block, out = q + stride * radix * block;
    Parts<FftVector<T>> x[kRadix ? kRadix : 31];
    x[0] = from.load(in);
    for (int j = 1; j < radix; ++j) x[j] = from.load(in += step);
    butterfly<kRadix>(x, radix, pass.roots.data());
    to.store(out, x[0]);
    for (int j = 1; j < radix; ++j)
      to.store(out += out_step,
               kTwiddled ? times(x[j], twiddles[2 * j - 2], twiddles[2 * j - 1]) : x[j]);
  }
}

template <int kRadix, class T, class Source, class Sink>
void run_blocks(const FftPass<T>& pass, int64_t stride, const Source& from, const Sink& to) {
  run_block<kRadix, false>(pass, stride, 0, from, to);
  for (int64_t block = 1; block < pass.blocks; ++block)
    run_block<kRadix, true>(pass, stride, block, from, to);
}

template <class T, class Source, class Sink>
void run_pass(const FftPass<T>& pass, int64_t stride, const Source& from, const Sink& to) {
  switch (pass.radix) {
    case 2:
      return run_blocks<2>(pass, stride, from, to);
    case 3:
      return run_blocks<kCodeOfRadix3>(pass, stride, from, to);
    case 4:
      return run_blocks<4>(pass, stride, from, to);
    case 5:
      return run_blocks<kCodeOfRadix5>(pass, stride, from, to);
    case 8:
      return run_blocks<8>(pass, stride, from, to);
    default:
      return run_blocks<0>(pass, stride, from, to);
  }
}

/// A pass of radix 4 over a line along vectors whose stride, 1 or 4, is less than a vector: the
/// outputs, neighbours in chunks of kStride elements, are brought together between the lanes.
template <int kStride, class T, class Source>
void run_crossing_pass(const FftPass<T>& pass, const Source& from, Parts<FftVector<T>>* to) {
  constexpr int kLanes = kFftLanes<T>;
  const int64_t elements = pass.stride * pass.blocks, vectors = elements / kLanes;
  const T* const twiddles = pass.element_twiddles.data();
  for (int64_t i = 0; i < vectors; ++i, to += 4) {
    Parts<FftVector<T>> x[4];
    for (int j = 0; j < 4; ++j) x[j] = from.load(i + vectors * j);
    butterfly_of_4(x[0], x[1], x[2], x[3]);
    for (int j = 1; j < 4; ++j) {
      const T* const re = twiddles + (2 * j - 2) * elements + i * kLanes;
      x[j] = times(x[j], load_vector(re), load_vector(re + elements));
    }
    transpose_chunks<kStride>(x[0].re, x[1].re, x[2].re, x[3].re);
    transpose_chunks<kStride>(x[0].im, x[1].im, x[2].im, x[3].im);
    for (int j = 0; j < 4; ++j) to[j] = x[j];
  }
}

/// Whether each vector has an element of several lines, or several elements of one line.
enum class Layout { across, along };

template <Layout kLayout, class T>
int64_t vectors_of(int64_t elements) {
  return kLayout == Layout::along ? elements / kFftLanes<T> : elements;
}

/// Two buffers that passes use in turn.
template <class T>
struct Buffers {
  Parts<FftVector<T>>*first, *second;

  Parts<FftVector<T>>* other(const Parts<FftVector<T>>* one) const {
    return one == first ? second : first;
  }
};

/// The first `count` passes; returns the buffer that holds the result. The source is not the first
/// buffer; it may be the second one.
template <Layout kLayout, class T, class Source>
Parts<FftVector<T>>* run_first_passes(const FftPlan<T>& plan, size_t count, const Source& source,
                                      const Buffers<T>& buffers) {
  const auto stride = [](const FftPass<T>& pass) { return vectors_of<kLayout, T>(pass.stride); };
  if (count == 0)
    for (int64_t i = 0; i < vectors_of<kLayout, T>(plan.n); ++i) buffers.first[i] = source.load(i);
  else if constexpr (kLayout == Layout::along)
    run_crossing_pass<1>(plan.passes[0], source, buffers.first);
  else
    run_pass(plan.passes[0], stride(plan.passes[0]), source, InBuffer<T>{buffers.first});
  Parts<FftVector<T>>* result = buffers.first;
  for (size_t i = 1; i < count; ++i) {
    const FftPass<T>& pass = plan.passes[i];
    const InBuffer<T> to{buffers.other(result)};
    if (kLayout == Layout::along && i == 1)
      run_crossing_pass<4>(pass, InBuffer<T>{result}, to.data);
    else
      run_pass(pass, stride(pass), InBuffer<T>{result}, to);
    result = to.data;
  }
  return result;
}

template <Layout kLayout, class T, class Source>
Parts<FftVector<T>>* run_to_buffer(const FftPlan<T>& plan, const Source& source,
                                   const Buffers<T>& buffers) {
  return run_first_passes<kLayout>(plan, plan.passes.size(), source, buffers);
}

template <Layout kLayout, class T, class Source, class Sink>
void run_passes(const FftPlan<T>& plan, const Source& source, const Sink& sink,
                const Buffers<T>& buffers) {
  if (plan.n == 1) return sink.store(0, source.load(0));
  auto* const before = run_first_passes<kLayout>(plan, plan.passes.size() - 1, source, buffers);
  const FftPass<T>& last = plan.passes.back();
  run_pass(last, vectors_of<kLayout, T>(last.stride), InBuffer<T>{before}, sink);
}

}  // namespace tensora::cpu::TENSORA_ISA
