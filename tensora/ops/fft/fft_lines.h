#pragma once

// Internal header: lines of arrays, to the lanes of vectors and back.

#include <algorithm>

#include "tensora/ops/fft/fft_vectors.h"

namespace tensora::cpu::TENSORA_ISA {

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
  bool is_full() const { return count == kFftLanes<T>; }
  /// Whether the lines are neighbours, `step` numbers apart, in all lanes.
  bool are_neighbours(int64_t step) const {
    bool yes = is_full();
    for (int lane = 0; lane < count; ++lane) yes &= offsets[lane] == lane * step;
    return yes;
  }
};

/// Calls body(InPairs) if the parts of an element are neighbours, and returns whether they are.
template <class T, class Body>
[[gnu::always_inline]] inline bool with_pairs(const Line<T>& line, int64_t stride, T scale,
                                              const Body& body) {
  if (line.re && line.im == line.re + 1)
    body(InPairs<T, false>{line.re, stride, scale});
  else if (line.im && line.re == line.im + 1)
    body(InPairs<T, true>{line.im, stride, scale});
  else
    return false;
  return true;
}
/// The same if the lines are columns of pairs.
template <class T, class Body>
[[gnu::always_inline]] inline bool with_columns(const Lines<T>& lines, T scale, const Body& body) {
  return lines.are_neighbours(2) && with_pairs(lines.first, lines.first.stride, scale, body);
}
/// The same if all lanes have lines of pairs next to each other.
template <class T, class Body>
[[gnu::always_inline]] inline bool with_rows(const Lines<T>& lines, T scale, const Body& body) {
  return lines.is_full() && lines.first.stride == 2 &&
         with_pairs(lines.first, 2 * kFftLanes<T>, scale, body);
}

/// Elements begin … n of the lines, one by one.
template <class T>
void gather_elements(const Lines<T>& lines, int64_t begin, int64_t n, Parts<FftVector<T>>* to) {
  constexpr int kLanes = kFftLanes<T>;
  const int64_t stride = lines.first.stride;
  T* const numbers = reinterpret_cast<T*>(to);
  for (int64_t j = begin; j < n; ++j) to[j] = Parts<FftVector<T>>{};
  for (int part = 0; part < 2; ++part) {
    const T* const from = part == 0 ? lines.first.re : lines.first.im;
    if (!from) continue;
    constexpr int64_t kBlock = 16;  // elements: the lines share the cache
    for (int64_t block = begin; block < n; block += kBlock)
      for (int lane = 0; lane < lines.count; ++lane)
        for (int64_t j = block; j < std::min(block + kBlock, n); ++j)
          numbers[(2 * j + part) * kLanes + lane] = from[lines.offsets[lane] + j * stride];
  }
}
template <class T>
void scatter_elements(const Parts<FftVector<T>>* from, int64_t begin, int64_t n, T scale,
                      const Lines<T>& lines) {
  constexpr int kLanes = kFftLanes<T>;
  const int64_t stride = lines.first.stride;
  const T* const numbers = reinterpret_cast<const T*>(from);
  for (int part = 0; part < 2; ++part) {
    T* const to = part == 0 ? lines.first.re : lines.first.im;
    if (!to) continue;
    constexpr int64_t kBlock = 16;
    for (int64_t block = begin; block < n; block += kBlock)
      for (int lane = 0; lane < lines.count; ++lane)
        for (int64_t j = block; j < std::min(block + kBlock, n); ++j)
          to[lines.offsets[lane] + j * stride] = numbers[(2 * j + part) * kLanes + lane] * scale;
  }
}

/// The lines' elements in lanes; lanes without a line hold zeros.
template <class T>
void gather(const Lines<T>& lines, int64_t n, Parts<FftVector<T>>* to) {
  constexpr int kLanes = kFftLanes<T>;
  if (with_columns(lines, T(1), [&](const auto& columns) {
        for (int64_t j = 0; j < n; ++j) to[j] = columns.load(j);
      }))
    return;
  const int64_t whole = n / kLanes;
  const bool in_blocks = with_rows(lines, T(1), [&](const auto& row) {
    for (int64_t i = 0; i < whole; ++i) {
      FftVector<T> re[kLanes], im[kLanes];
      for (int lane = 0; lane < kLanes; ++lane) {
        const auto x = row.at(lines.offsets[lane]).load(i);
        re[lane] = x.re;
        im[lane] = x.im;
      }
      transpose_lanes<T>(re);
      transpose_lanes<T>(im);
      for (int k = 0; k < kLanes; ++k) to[i * kLanes + k] = {re[k], im[k]};
    }
  });
  gather_elements(lines, in_blocks ? whole * kLanes : 0, n, to);
}

template <class T>
void scatter(const Parts<FftVector<T>>* from, int64_t n, T scale, const Lines<T>& lines) {
  constexpr int kLanes = kFftLanes<T>;
  if (with_columns(lines, scale, [&](const auto& columns) {
        for (int64_t j = 0; j < n; ++j) columns.store(j, from[j]);
      }))
    return;
  const int64_t whole = n / kLanes;
  const bool in_blocks = with_rows(lines, scale, [&](const auto& row) {
    for (int64_t i = 0; i < whole; ++i) {
      FftVector<T> re[kLanes], im[kLanes];
      for (int k = 0; k < kLanes; ++k) {
        re[k] = from[i * kLanes + k].re;
        im[k] = from[i * kLanes + k].im;
      }
      transpose_lanes<T>(re);
      transpose_lanes<T>(im);
      for (int lane = 0; lane < kLanes; ++lane)
        row.at(lines.offsets[lane]).store(i, {re[lane], im[lane]});
    }
  });
  scatter_elements(from, in_blocks ? whole * kLanes : 0, n, scale, lines);
}

/// The rest of a spectrum of n elements of which the first half is there: its conjugates, from the
/// last to the first. `conjugate`: of the conjugate of all that.
template <class T>
void add_conjugates(const Line<T>& line, int64_t n, bool conjugate) {
  constexpr int kLanes = kFftLanes<T>;
  const int64_t end = (n + 1) / 2, stride = line.stride;
  int64_t k = 1;
  if (stride == 2) {
    const FftVector<T> zeros = {};
    const FftVector<T> sign =
        shuffled<[](int i) { return i % 2 ? kLanes : 0; }>(zeros + 1, zeros - 1);
    for (; k + kLanes / 2 <= end; k += kLanes / 2) {
      const FftVector<T> x = load_vector(line.re + 2 * k), other = x * sign;
      const FftVector<T> rest = conjugate ? x : other;
      if (conjugate) store_vector<T>(line.re + 2 * k, other);
      store_vector<T>(line.re + 2 * (n - k - kLanes / 2 + 1),
                      shuffled<[](int i) { return (kLanes - 2 - i) + i % 2 * 2; }>(rest, rest));
    }
  }
  for (; k < end; ++k) {
    const T re = line.re[k * stride], im = line.im[k * stride];
    line.im[k * stride] = conjugate ? -im : im;
    line.re[(n - k) * stride] = re;
    line.im[(n - k) * stride] = conjugate ? im : -im;
  }
}

/// A line's elements as pairs.
template <class T>
void copy_from_line(const Line<T>& line, int64_t n, T* pairs) {
  for (int64_t j = 0; j < n; ++j) {
    pairs[2 * j] = line.re ? line.re[j * line.stride] : T(0);
    pairs[2 * j + 1] = line.im ? line.im[j * line.stride] : T(0);
  }
}
template <class T>
void copy_to_line(const T* pairs, int64_t n, const Line<T>& line) {
  for (int64_t j = 0; j < n; ++j) {
    if (line.re) line.re[j * line.stride] = pairs[2 * j];
    if (line.im) line.im[j * line.stride] = pairs[2 * j + 1];
  }
}

}  // namespace tensora::cpu::TENSORA_ISA
