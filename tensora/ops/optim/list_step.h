#pragma once

// Internal header: an optimizer's step over a whole list of tensors on the CPU.

#include <algorithm>
#include <vector>

#include "tensora/backend/cpu/copy.h"
#include "tensora/ops/optim/multi_tensor_op.h"
#include "tensora/ops/optim/tile_list.h"
#include "tensora/ops/optim/update_rules.h"

namespace tensora::cpu::TENSORA_ISA {

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
