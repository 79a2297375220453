#pragma once

// Scans along one dim on the CPU: lines that are contiguous one by one, lines that are adjacent to
// each other side by side.
//
// A scan is a functor:
//   using Value;                                 the compute type
//   using State;
//   static constexpr bool kIndexed;              whether a second output takes int64 from `index`
//   State init() const;                          before the first element
//   State step(State, Value, int64_t i) const;   element i of the line
//   Value result(State) const;
//   int64_t index(State) const;

#include <algorithm>

#include "tensora/backend/cpu/convert.h"
#include "tensora/base/thread_pool.h"
#include "tensora/core/kernel.h"

namespace tensora::cpu::TENSORA_ISA {

template <class F>
class LineScan {
 public:
  using C = typename F::Value;
  using State = typename F::State;

  /// A 0-dim array counts as one line of one element.
  LineScan(const KernelContext& context, int dim, bool reverse, const F& functor)
      : functor_(functor), in_(context.input(0)), out_(context.output()), dim_(dim) {
    View index;
    if constexpr (F::kIndexed) index = context.output(1);
    for (View* view : {&in_, &out_, &index}) {
      if (view->dim() == 0) view->sizes = {1}, view->strides = {1};
      if (!reverse || view->numel == 0) continue;
      view->data = view->as<char>() + (view->sizes[dim] - 1) * view->strides[dim] *
                                          static_cast<int64_t>(element_size(view->dtype));
      view->strides[dim] = -view->strides[dim];
    }
    index_ = index;
    load_ = load_fn<C>(in_.dtype);
    store_ = store_fn<C>(out_.dtype);
  }

  void run() const {
    if (in_.numel == 0) return;
    const int last = in_.dim() - 1;
    const int64_t length = in_.sizes[dim_];
    if (dim_ == last) {
      parallel_for(in_.numel / length, std::max<int64_t>(1, 16 * 1024 / length),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t line = begin; line < end; ++line) along(line, length);
                   });
      return;
    }
    const int64_t width = in_.sizes[last], tiles = (width + kTile - 1) / kTile;
    parallel_for(in_.numel / (length * width) * tiles, 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const int64_t first = k % tiles * kTile;
        beside(k / tiles, length, first, std::min(kTile, width - first));
      }
    });
  }

 private:
  static constexpr int64_t kTile = 512;

  // Where line number `line` begins, counted over the dims that are not walked.
  char* line_at(const View& view, int64_t line, int64_t shift) const {
    int64_t offset = shift;
    for (int d = view.dim() - 1; d >= 0; --d) {
      if (d == dim_ || d == view.dim() - 1) continue;
      offset += line % view.sizes[d] * view.strides[d];
      line /= view.sizes[d];
    }
    return view.as<char>() + offset * static_cast<int64_t>(element_size(view.dtype));
  }
  void along(int64_t line, int64_t length) const {
    C values[kTile];
    State state = functor_.init();
    for (int64_t first = 0; first < length; first += kTile) {
      const int64_t n = std::min(kTile, length - first);
      load_(line_at(in_, line, first * in_.strides[dim_]), in_.strides[dim_], n, values);
      int64_t* index = nullptr;
      if constexpr (F::kIndexed)
        index = reinterpret_cast<int64_t*>(line_at(index_, line, first * index_.strides[dim_]));
      for (int64_t i = 0; i < n; ++i) {
        state = functor_.step(state, values[i], first + i);
        values[i] = functor_.result(state);
        if constexpr (F::kIndexed) index[i * index_.strides[dim_]] = functor_.index(state);
      }
      store_(values, line_at(out_, line, first * out_.strides[dim_]), out_.strides[dim_], n);
    }
  }
  void beside(int64_t group, int64_t length, int64_t first, int64_t n) const {
    const int last = in_.dim() - 1;
    C values[kTile];
    State state[kTile];
    std::fill_n(state, n, functor_.init());
    const auto place = [&](const View& view, int64_t i) {
      return line_at(view, group, i * view.strides[dim_] + first * view.strides[last]);
    };
    for (int64_t i = 0; i < length; ++i) {
      load_(place(in_, i), in_.strides[last], n, values);
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) {
        state[j] = functor_.step(state[j], values[j], i);
        values[j] = functor_.result(state[j]);
      }
      store_(values, place(out_, i), out_.strides[last], n);
      if constexpr (F::kIndexed) {
        auto* const index = reinterpret_cast<int64_t*>(place(index_, i));
        for (int64_t j = 0; j < n; ++j) index[j * index_.strides[last]] = functor_.index(state[j]);
      }
    }
  }

  F functor_;
  View in_, out_, index_;
  int dim_;
  LoadFn load_;
  StoreFn store_;
};

}  // namespace tensora::cpu::TENSORA_ISA
