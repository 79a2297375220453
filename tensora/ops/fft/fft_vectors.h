#pragma once

// Internal header: complex numbers in vectors, and where Fourier transforms read and write them.

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

// Vectors wider than the registers are split by the compiler; the functions that pass them are all
// inlined, so there is no calling convention to warn about.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace tensora::cpu::TENSORA_ISA {

#if defined(__AVX512F__)
inline constexpr int kFftBytes = 64;
#else
inline constexpr int kFftBytes = 32;
#endif
/// The code that runs radices 3 and 5: their own, or 0, which runs any odd radix. Without AVX a
/// vector takes two registers, and their own code would be large.
#if defined(__AVX__)
inline constexpr int kCodeOfRadix3 = 3, kCodeOfRadix5 = 5;
#else
inline constexpr int kCodeOfRadix3 = 0, kCodeOfRadix5 = 0;
#endif
template <class T>
inline constexpr int kFftLanes = kFftBytes / static_cast<int>(sizeof(T));
template <class T>
struct FftVectorOf {
  typedef T type __attribute__((vector_size(kFftBytes)));
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
/// The factor has a number for each lane, or one for all.
template <class V, class F>
[[gnu::always_inline]] inline Parts<V> times(const Parts<V>& a, F re, F im) {
  return {a.re * re - a.im * im, a.re * im + a.im * re};
}

template <class T>
[[gnu::always_inline]] inline FftVector<T> load_vector(const T* at) {
  FftVector<T> value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}
template <class T>
[[gnu::always_inline]] inline void store_vector(T* at, FftVector<T> value) {
  std::memcpy(at, &value, sizeof(value));
}

/// Lane i of the result is lane kIndex(i) of a and b, which are counted on.
template <auto kIndex, class V>
[[gnu::always_inline]] inline V shuffled(V a, V b) {
  return [&]<size_t... i>(std::index_sequence<i...>) {
    return __builtin_shufflevector(a, b, kIndex(static_cast<int>(i))...);
  }(std::make_index_sequence<sizeof(V) / sizeof(a[0])>{});
}

/// The first halves of a and b, or the second ones, in turns of kChunk lanes.
template <int kChunk, bool kSecond, class V>
[[gnu::always_inline]] inline V zipped(V a, V b) {
  constexpr int kLanes = sizeof(V) / sizeof(a[0]);
  return shuffled<[](int i) {
    return i / kChunk % 2 * kLanes + (kSecond ? kLanes / 2 : 0) + i / kChunk / 2 * kChunk +
           i % kChunk;
  }>(a, b);
}

/// Four vectors of chunks as the four that hold all first chunks, then all second ones, and so on.
template <int kChunk, class V>
[[gnu::always_inline]] inline void transpose_chunks(V& a, V& b, V& c, V& d) {
  constexpr int kChunks = static_cast<int>(sizeof(V) / sizeof(a[0])) / kChunk;
  if constexpr (kChunks == 2) {
    const V low = zipped<kChunk, false>(c, d), high = zipped<kChunk, true>(a, b);
    a = zipped<kChunk, false>(a, b);
    d = zipped<kChunk, true>(c, d);
    b = low;
    c = high;
  } else if constexpr (kChunks > 2) {
    const V even_low = zipped<kChunk, false>(a, c), even_high = zipped<kChunk, true>(a, c);
    const V odd_low = zipped<kChunk, false>(b, d), odd_high = zipped<kChunk, true>(b, d);
    a = zipped<kChunk, false>(even_low, odd_low);
    b = zipped<kChunk, true>(even_low, odd_low);
    c = zipped<kChunk, false>(even_high, odd_high);
    d = zipped<kChunk, true>(even_high, odd_high);
  }
}

/// As many vectors as they have lanes: lane i of vector j becomes lane j of vector i.
template <class T>
[[gnu::always_inline]] inline void transpose_lanes(FftVector<T>* rows) {
  constexpr int kLanes = kFftLanes<T>;
  for (int round = 1; round < kLanes; round *= 2) {
    FftVector<T> next[kLanes];
    for (int i = 0; i < kLanes / 2; ++i) {
      next[2 * i] = zipped<1, false>(rows[i], rows[i + kLanes / 2]);
      next[2 * i + 1] = zipped<1, true>(rows[i], rows[i + kLanes / 2]);
    }
    for (int i = 0; i < kLanes; ++i) rows[i] = next[i];
  }
}

/// Pairs of parts in memory, in two vectors, to the parts.
template <class T>
[[gnu::always_inline]] inline Parts<FftVector<T>> load_pairs(const T* at) {
  const FftVector<T> a = load_vector(at), b = load_vector(at + kFftLanes<T>);
  return {shuffled<[](int i) { return 2 * i; }>(a, b),
          shuffled<[](int i) { return 2 * i + 1; }>(a, b)};
}
/// The same pairs from the last to the first.
template <class T>
[[gnu::always_inline]] inline Parts<FftVector<T>> load_pairs_reversed(const T* at) {
  const FftVector<T> a = load_vector(at), b = load_vector(at + kFftLanes<T>);
  return {shuffled<[](int i) { return 2 * (kFftLanes<T> - 1 - i); }>(a, b),
          shuffled<[](int i) { return 2 * (kFftLanes<T> - 1 - i) + 1; }>(a, b)};
}
template <class T>
[[gnu::always_inline]] inline void store_pairs(T* at, const Parts<FftVector<T>>& x) {
  store_vector<T>(at, zipped<1, false>(x.re, x.im));
  store_vector<T>(at + kFftLanes<T>, zipped<1, true>(x.re, x.im));
}

/// Vectors of parts in a buffer, one after the other.
template <class T>
struct InBuffer {
  Parts<FftVector<T>>* data;

  [[gnu::always_inline]] Parts<FftVector<T>> load(int64_t i) const { return data[i]; }
  [[gnu::always_inline]] void store(int64_t i, const Parts<FftVector<T>>& x) const { data[i] = x; }
};

/// Vectors of pairs in memory, `stride` numbers from one to the next; what is stored is multiplied
/// by `scale`. kSwapped: the imaginary parts come first.
template <class T, bool kSwapped>
struct InPairs {
  T* data;
  int64_t stride;
  T scale = 1;

  InPairs at(int64_t offset) const { return {data + offset, stride, scale}; }
  [[gnu::always_inline]] Parts<FftVector<T>> load(int64_t i) const {
    const Parts<FftVector<T>> x = load_pairs(data + i * stride);
    return kSwapped ? Parts<FftVector<T>>{x.im, x.re} : x;
  }
  [[gnu::always_inline]] void store(int64_t i, const Parts<FftVector<T>>& x) const {
    const FftVector<T> re = x.re * scale, im = x.im * scale;
    store_pairs<T>(data + i * stride, {kSwapped ? im : re, kSwapped ? re : im});
  }
};

}  // namespace tensora::cpu::TENSORA_ISA
