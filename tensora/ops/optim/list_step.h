#pragma once

// Internal header: an optimizer's step over a whole list of tensors on the CPU.

#include <algorithm>
#include <vector>

#include "tensora/backend/cpu/copy.h"
#include "tensora/backend/cpu/isa.h"
#include "tensora/ops/optim/multi_tensor_op.h"
#include "tensora/ops/optim/tile_list.h"
#include "tensora/ops/optim/update_rules.h"

namespace tensora::cpu::TENSORA_ISA {

// `states` is known to the compiler, so that the others cost nothing.
template <int states, class C, class Rule>
void step_elements(const Rule& rule, int64_t n, C inverse_scale, C* param, const C* grad,
                   C* const (&state)[3]) {
  const Rule local = rule;
  C *const first = state[0], *const second = state[1], *const third = state[2];
  // While the roots and quotients are computed, the next tile is fetched.
  constexpr int64_t line = 64 / sizeof(C), block = 4 * line;
  const auto fetch = [](const C* array, int64_t from) {
    for (int64_t at = from; at < from + block; at += line) __builtin_prefetch(array + at + kTile);
  };
  for (int64_t start = 0; start < n; start += block) {
    const int64_t end = std::min(n, start + block);
    fetch(param, start);
    fetch(grad, start);
    for (int k = 0; k < states; ++k) fetch(state[k], start);
#pragma omp simd
    for (int64_t i = start; i < end; ++i) {
      C each[3] = {};
      if constexpr (states > 0) each[0] = first[i];
      if constexpr (states > 1) each[1] = second[i];
      if constexpr (states > 2) each[2] = third[i];
      param[i] = local(param[i], grad[i] * inverse_scale, each);
      if constexpr (states > 0) first[i] = each[0];
      if constexpr (states > 1) second[i] = each[1];
      if constexpr (states > 2) third[i] = each[2];
    }
  }
}

#if defined(__AVX2__)
// The usual step of float32 parameters, with AVX-512: for the others the wider vectors are not
// worth another copy of the code. Roots and quotients take it four fifths of the time.
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] inline void step_adam_wide(
    const AdamRule<float>& rule, int64_t n, float inverse_scale, float* param, const float* grad,
    float* const (&state)[3]) {
  const AdamRule<float> local = rule;
  float *const first = state[0], *const second = state[1];
  constexpr int64_t line = 16, block = 4 * line;
  for (int64_t start = 0; start < n; start += block) {
    const int64_t end = start + block < n ? start + block : n;
    for (const float* array : {static_cast<const float*>(param), grad,
                               static_cast<const float*>(first), static_cast<const float*>(second)})
      for (int64_t at = start; at < start + block; at += line)
        __builtin_prefetch(array + at + kTile);
#pragma omp simd
    for (int64_t i = start; i < end; ++i) {
      float each[3] = {first[i], second[i], 0};
      param[i] = local(param[i], grad[i] * inverse_scale, each);
      first[i] = each[0];
      second[i] = each[1];
    }
  }
}
#endif

template <class C, class Rule>
void step_tile(const Rule& rule, int states, int64_t n, C inverse_scale, C* param, const C* grad,
               C* const (&state)[3]) {
#if defined(__AVX2__)
  if constexpr (std::is_same_v<Rule, AdamRule<float>>)
    if (states == 2 && cpu_isa() == Isa::avx512)
      return step_adam_wide(rule, n, inverse_scale, param, grad, state);
#endif
  switch (states) {
    case 0:
      return step_elements<0>(rule, n, inverse_scale, param, grad, state);
    case 1:
      return step_elements<1>(rule, n, inverse_scale, param, grad, state);
    case 2:
      return step_elements<2>(rule, n, inverse_scale, param, grad, state);
    default:
      return step_elements<3>(rule, n, inverse_scale, param, grad, state);
  }
}

// What is of the type of the loop is stepped in its own memory, other types through tiles.
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
    StepTile<C> tiles[5];
    const View& param = context.output(layout.param(i));
    C* const from =
        tiles[0].read(layout.masters ? context.output(layout.master(i)) : param, first, n);
    C* const grad = tiles[1].read(context.input(layout.grad(i)), first, n);
    C* state[3] = {};
    for (int k = 0; k < layout.states; ++k)
      state[k] = tiles[k + 2].read(context.output(layout.state(k, i)), first, n);
    step_tile(rule, layout.states, n, inverse_scale, from, grad, state);
    for (int k = 0; k < layout.states; ++k) tiles[k + 2].write(first, n);
    tiles[0].write(first, n);
    if (layout.masters) Column<C>(param).write(first, n, from);
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
