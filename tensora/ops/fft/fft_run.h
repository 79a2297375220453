#pragma once

// Internal header: the transforms of complex lines, together, along vectors and alone; see Note
// [Lines in lanes].

#include <algorithm>

#include "tensora/backend/cpu/scratch.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/fft/fft_convolution.h"
#include "tensora/ops/fft/fft_lanes.h"
#include "tensora/ops/fft/fft_lines.h"

namespace tensora::cpu::TENSORA_ISA {

inline constexpr int64_t kSerialPoints = 1 << 14;  // of work that is not worth a second thread

/// Complex numbers next to each other.
template <class T>
Line<T> pairs_at(T* data) {
  return {data, data + 1, 2};
}

/// Two buffers of n vectors and one more.
template <class T>
class BufferMemory {
  using V = Parts<FftVector<T>>;

 public:
  explicit BufferMemory(int64_t n) : memory_((4 * (n + kBetween) + 1) * kFftLanes<T>) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    buffers_.first = reinterpret_cast<V*>((address + kFftBytes - 1) / kFftBytes * kFftBytes);
    buffers_.second = buffers_.first + n + kBetween;
  }
  const Buffers<T>& buffers() const { return buffers_; }

 private:
  // So that what is read and what is written do not have the same place in their pages.
  static constexpr int64_t kBetween = 5;

  HostScratch<T> memory_;
  Buffers<T> buffers_;
};

/// Lines of one length, which are not convolved, across lanes.
template <class T>
void run_across(const FftPlan<T>& plan, const Buffers<T>& buffers, const Lines<T>& from,
                const Lines<T>& to, T scale) {
  const auto run = [&](const auto& source) {
    if (!with_columns(to, scale, [&](const auto& sink) {
          run_passes<Layout::across>(plan, source, sink, buffers);
        }))
      scatter(run_to_buffer<Layout::across>(plan, source, buffers), plan.n, scale, to);
  };
  if (with_columns(from, T(1), run)) return;
  gather(from, plan.n, buffers.second);
  run(InBuffer<T>{buffers.second});
}

/// The transform of what is in the second buffer; returns the buffer that holds the result.
template <class T>
Parts<FftVector<T>>* run_in_buffers(const FftPlan<T>& plan, const Buffers<T>& buffers) {
  if (plan.convolution) return convolve_across(plan, buffers);
  return run_to_buffer<Layout::across>(plan, InBuffer<T>{buffers.second}, buffers);
}

/// The same buffers, or the result's memory in place of the one that the last pass does not read:
/// it is then in the cache when the result is written.
template <class T>
Buffers<T> with_result(const FftPlan<T>& plan, const Buffers<T>& buffers, const T* from, T* to) {
  if (reinterpret_cast<uintptr_t>(to) % kFftBytes != 0) return buffers;
  auto* const result = reinterpret_cast<Parts<FftVector<T>>*>(to);
  if (plan.passes.size() % 2 == 0) return {buffers.first, result};
  return from == to ? buffers : Buffers<T>{result, buffers.second};
}

/// A line of pairs next to each other, along vectors.
template <class T>
void run_along(const FftPlan<T>& plan, const Buffers<T>& buffers, const Line<T>& from,
               const Line<T>& to, T scale) {
  constexpr int64_t kStride = 2 * kFftLanes<T>;
  with_pairs(from, kStride, T(1), [&](const auto& source) {
    with_pairs(to, kStride, scale, [&](const auto& sink) {
      if (!plan.convolution)
        return run_passes<Layout::along>(plan, source, sink,
                                         with_result(plan, buffers, source.data, sink.data));
      convolve_along(plan, source, sink, buffers);
    });
  });
}

/// Rows k … of the columns at `at` …, times their twists, from the lanes of the columns to those of
/// the rows.
template <class T>
void twist_rows(const FftPlan<T>& plan, const Parts<FftVector<T>>* columns, int64_t k, int64_t at,
                Parts<FftVector<T>>* rows) {
  constexpr int kLanes = kFftLanes<T>;
  using V = Parts<FftVector<T>>;
  const FftTwists twists(plan.columns->n);
  const auto twist = [&](int64_t which) {
    const T* const re = plan.twists.data() + twists.at(which, at);
    return V{load_vector(re), load_vector(re + FftTwists::kGroup)};
  };
  const V coarse = twist(FftTwists::kFine + k / FftTwists::kFine);
  FftVector<T> re[kLanes] = {}, im[kLanes] = {};
  const int64_t count = std::min<int64_t>(kLanes, plan.columns->n - k);
  for (int64_t i = 0; i < count; ++i) {
    const V fine = twist((k + i) % FftTwists::kFine);
    const V both = times(fine, coarse.re, coarse.im);
    const V x = times(columns[k + i], both.re, both.im);
    re[i] = x.re;
    im[i] = x.im;
  }
  transpose_lanes<T>(re);
  transpose_lanes<T>(im);
  const int64_t used = std::min<int64_t>(kLanes, plan.rows->n - at);
  for (int64_t lane = 0; lane < used; ++lane) rows[at + lane] = {re[lane], im[lane]};
}

// A line as an array: columns across lanes, twists, rows across lanes.
template <class T>
void run_split(const FftPlan<T>& plan, const Line<T>& from, const Line<T>& to, T scale) {
  constexpr int64_t kLanes = kFftLanes<T>;
  static_assert(FftTwists::kFine % kLanes == 0 && FftTwists::kGroup % kLanes == 0);
  const int64_t columns = plan.columns->n, rows = plan.rows->n;
  const auto groups = [](int64_t n) { return (n + kLanes - 1) / kLanes; };
  const auto grain = [](int64_t n) { return std::max<int64_t>(1, kSerialPoints / (n * kLanes)); };
  // Rows in lanes: those of one group after those of the other.
  const BufferMemory<T> memory(groups(columns) * rows);
  Parts<FftVector<T>>* const middle = memory.buffers().first;
  parallel_for(groups(rows), grain(columns), [&](int64_t begin, int64_t end) {
    const BufferMemory<T> own(columns);
    for (int64_t at = begin * kLanes; at < std::min(end * kLanes, rows); at += kLanes) {
      const Line<T> column{from.re, from.im, from.stride * rows};
      const auto lines = Lines<T>::equally(column.at(at * from.stride), from.stride, rows - at);
      const auto run = [&](const auto& source) {
        const auto* const result =
            run_to_buffer<Layout::across>(*plan.columns, source, own.buffers());
        for (int64_t k = 0; k < columns; k += kLanes)
          twist_rows(plan, result, k, at, middle + k / kLanes * rows);
      };
      if (with_columns(lines, T(1), run)) continue;
      gather(lines, columns, own.buffers().second);
      run(InBuffer<T>{own.buffers().second});
    }
  });
  parallel_for(groups(columns), grain(rows), [&](int64_t begin, int64_t end) {
    const BufferMemory<T> own(rows);
    for (int64_t k = begin * kLanes; k < std::min(end * kLanes, columns); k += kLanes) {
      const InBuffer<T> source{middle + k / kLanes * rows};
      const Line<T> spread{to.re, to.im, to.stride * columns};
      const auto lines = Lines<T>::equally(spread.at(k * to.stride), to.stride, columns - k);
      if (!with_columns(lines, scale, [&](const auto& sink) {
            run_passes<Layout::across>(*plan.rows, source, sink, own.buffers());
          }))
        scatter(run_to_buffer<Layout::across>(*plan.rows, source, own.buffers()), rows, scale,
                lines);
    }
  });
}

template <class T>
void run_line(const FftPlan<T>& plan, const Line<T>& from, const Line<T>& to, T scale);

template <class T>
void transform_pairs(const FftPlan<T>& plan, const T* from, T* to) {
  run_line(plan, pairs_at(const_cast<T*>(from)), pairs_at(to), T(1));
}

// x[j] chirp[j], convolved with the chirp's conjugate, times the chirp.
template <class T>
void convolve(const FftPlan<T>& plan, const Line<T>& from, const Line<T>& to, T scale) {
  const int64_t length = plan.convolution->n;
  const HostScratch<T> memory(4 * length);
  T *const x = memory.data(), *const y = x + 2 * length;
  const auto multiply = [](const std::vector<T>& table, int64_t n, T factor, T* pairs) {
    const T *const re = table.data(), *const im = re + table.size() / 2;
    for (int64_t k = 0; k < n; ++k) {
      const auto product = times(Parts<T>{pairs[2 * k], pairs[2 * k + 1]}, re[k], im[k]);
      pairs[2 * k] = product.re * factor;
      pairs[2 * k + 1] = product.im * factor;
    }
  };
  copy_from_line(from, plan.n, x);
  multiply(plan.chirp, plan.n, T(1), x);
  std::fill(x + 2 * plan.n, x + 2 * length, T(0));
  run_line(*plan.convolution, pairs_at(x), pairs_at(y), T(1));
  multiply(plan.spectrum, length, T(1), y);
  run_line(*plan.convolution, pairs_at(y).swapped(), pairs_at(x).swapped(), T(1));
  multiply(plan.chirp, plan.n, scale, x);
  copy_to_line(x, plan.n, to);
}

/// One line alone.
template <class T>
void run_line(const FftPlan<T>& plan, const Line<T>& from, const Line<T>& to, T scale) {
  if (plan.runs_along()) {
    const HostScratch<T> memory(2 * plan.n);
    const Line<T> pairs = pairs_at(memory.data());
    const BufferMemory<T> buffers(plan.longest() / kFftLanes<T>);
    copy_from_line(from, plan.n, pairs.re);
    run_along(plan, buffers.buffers(), pairs, pairs, scale);
    return copy_to_line(pairs.re, plan.n, to);
  }
  if (plan.convolution) return convolve(plan, from, to, scale);
  if (plan.columns) return run_split(plan, from, to, scale);
  const BufferMemory<T> memory(plan.n);
  run_across(plan, memory.buffers(), Lines<T>::equally(from, 0, 1), Lines<T>::equally(to, 0, 1),
             scale);
}

}  // namespace tensora::cpu::TENSORA_ISA
