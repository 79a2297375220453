#pragma once

// Internal header: loops over whole lists of tensors on the CPU.

#include <algorithm>
#include <vector>

#include "tensora/backend/cpu/convert.h"
#include "tensora/backend/cpu/copy.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/optim/multi_tensor_op.h"
#include "tensora/ops/optim/update_rules.h"

namespace tensora::cpu::TENSORA_ISA {

inline constexpr int64_t kTile = 1024;
inline constexpr int64_t kTaskTiles = 16;

// The tiles of all tensors, numbered through, so that threads share small and large ones evenly.
class TileList {
 public:
  explicit TileList(std::span<const int64_t> sizes) : sizes_(sizes), starts_{0} {
    for (int64_t size : sizes) starts_.push_back(starts_.back() + (size + kTile - 1) / kTile);
  }
  // body(tensor, first element, count)
  template <class Body>
  void each(const Body& body) const {
    parallel_for(starts_.back(), kTaskTiles, [&](int64_t begin, int64_t end) {
      auto at = static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), begin) -
                                    starts_.begin()) -
                1;
      for (int64_t tile = begin; tile < end; ++tile) {
        while (tile >= starts_[at + 1]) ++at;
        const int64_t first = (tile - starts_[at]) * kTile;
        body(at, first, std::min(kTile, sizes_[at] - first), tile);
      }
    });
  }
  int64_t tiles() const { return starts_.back(); }

 private:
  std::span<const int64_t> sizes_;
  std::vector<int64_t> starts_;
};

// One array of a list: elements in memory order.
template <class C>
struct Column {
  char* data;
  int64_t bytes;
  LoadFn load;
  StoreFn store;

  explicit Column(const View& view)
      : data(view.as<char>()),
        bytes(static_cast<int64_t>(element_size(view.dtype))),
        load(load_fn<C>(view.dtype)),
        store(store_fn<C>(view.dtype)) {}
  void read(int64_t first, int64_t n, C* to) const { load(data + first * bytes, 1, n, to); }
  void write(int64_t first, int64_t n, const C* from) const {
    store(from, data + first * bytes, 1, n);
  }
};

template <class C, class Rule>
void step_tile(const Rule& rule, int states, int64_t n, C inverse_scale, C* param, const C* grad,
               C (&state)[3][kTile]) {
  const Rule local = rule;
  for (int k = states; k < 3; ++k) std::fill_n(state[k], n, C(0));
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    C each[3] = {state[0][i], state[1][i], state[2][i]};
    param[i] = local(param[i], grad[i] * inverse_scale, each);
    state[0][i] = each[0];
    state[1][i] = each[1];
    state[2][i] = each[2];
  }
}

template <class C, class Rule>
void step_tensors(const KernelContext& context, const ListLayout& layout, const Rule& rule,
                  const std::vector<int64_t>& numbers) {
  const C inverse_scale =
      layout.scaled ? C(1) / static_cast<C>(*context.input(layout.scale()).as<const float>())
                    : C(1);
  std::vector<int64_t> sizes;
  for (int64_t i : numbers) sizes.push_back(context.input(layout.param(i)).numel);
  TileList(sizes).each([&](size_t at, int64_t first, int64_t n, int64_t) {
    const int64_t i = numbers[at];
    C param[kTile], grad[kTile], state[3][kTile];
    const Column<C> params(context.output(layout.param(i)));
    const Column<C> from(layout.masters ? context.output(layout.master(i))
                                        : context.output(layout.param(i)));
    from.read(first, n, param);
    Column<C>(context.input(layout.grad(i))).read(first, n, grad);
    for (int k = 0; k < layout.states; ++k)
      Column<C>(context.output(layout.state(k, i))).read(first, n, state[k]);
    step_tile(rule, layout.states, n, inverse_scale, param, grad, state);
    for (int k = 0; k < layout.states; ++k)
      Column<C>(context.output(layout.state(k, i))).write(first, n, state[k]);
    if (layout.masters) from.write(first, n, param);
    params.write(first, n, param);
  });
}

// Parameters of float64 are stepped in float64, all others in float32.
template <template <class> class Rule, class Attrs>
void step_list(const KernelContext& context, const Attrs& attrs) {
  const ListLayout& layout = attrs.layout;
  for (int64_t i = 0; i < layout.outputs(); ++i) {  // out of place: results begin as copies
    const auto slot = static_cast<size_t>(i);
    if (context.input(slot).data != context.output(slot).data)
      copy_elements(context.input(slot), context.output(slot));
  }
  if (layout.guarded && *context.input(layout.found_inf()).as<const float>() != 0) return;
  StepNumbers numbers = numbers_of(attrs);
  if (layout.counted) numbers.step = double{*context.input(layout.step()).as<const float>()};
  if (layout.carried) numbers.product = double{*context.input(layout.product()).as<const float>()};
  if (layout.rated) numbers.lr = *context.input(layout.rate()).as<const double>();
  std::vector<int64_t> floats, doubles;
  for (int64_t i = 0; i < layout.count; ++i)
    (context.input(layout.param(i)).dtype == kFloat64 ? doubles : floats).push_back(i);
  step_tensors<float>(context, layout, Rule<float>::make(attrs, numbers), floats);
  step_tensors<double>(context, layout, Rule<double>::make(attrs, numbers), doubles);
}

}  // namespace tensora::cpu::TENSORA_ISA
