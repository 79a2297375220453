#pragma once

// Internal header: steps of optimizers over lists of tensors.

#include <optional>
#include <vector>

#include "tensora/backend/cuda/loops/packed.h"
#include "tensora/backend/cuda/runtime/capture.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/optim/multi_tensor_op.h"
#include "tensora/ops/optim/tensor_list.cuh"
#include "tensora/ops/optim/update_rules.h"

namespace tensora::cuda {

/// What every block of a step reads from device memory.
struct BlockNumbers {
  const float *grad_scale, *found_inf;  // or null
};

template <int kStates, class C, class Rule>
__device__ inline C stepped(const Rule& rule, C param, C grad, C (&states)[kStates]) {
  C state[3] = {};
#pragma unroll
  for (int s = 0; s < kStates; ++s) state[s] = states[s];
  const C result = rule(param, grad, state);
#pragma unroll
  for (int s = 0; s < kStates; ++s) states[s] = state[s];
  return result;
}

// A chunk of arrays of type T that begin at multiples of 16 bytes: see Note [Fetch first, convert
// later].
template <class T, int kStates, class C, class Rule>
__device__ inline void step_chunk(const ListEntry& entry, long long start, const Rule& rule,
                                  C inverse_scale) {
  constexpr int kPack = 16 / static_cast<int>(sizeof(T)), kTogether = 2, kArrays = 2 + kStates;
  constexpr int kPacks = kListChunk / kThreads / kPack;
#pragma unroll
  for (int some = 0; some < kPacks; some += kTogether) {
    RawGroup raw[kTogether][kArrays];
    const auto first = [&](int k) {
      return start + ((some + k) * kThreads + static_cast<int>(threadIdx.x)) * kPack;
    };
    const auto address = [&](int a, int k) {
      return entry.data[a] + first(k) * static_cast<long long>(sizeof(T));
    };
#pragma unroll
    for (int k = 0; k < kTogether; ++k)
#pragma unroll
      for (int a = 0; a < kArrays; ++a) fetch<16>(address(a, k), raw[k][a]);
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      C values[kArrays][kPack];
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        const auto value = [&](int a) { return load_value<C>(element_of<T>(raw[k][a], i)); };
        C states[kStates];
#pragma unroll
        for (int s = 0; s < kStates; ++s) states[s] = value(2 + s);
        values[0][i] = stepped(rule, value(0), value(1) * inverse_scale, states);
#pragma unroll
        for (int s = 0; s < kStates; ++s) values[2 + s][i] = states[s];
      }
#pragma unroll
      for (int a = 0; a < kArrays; ++a)
        if (a != 1) store_pack<T>(address(a, k), values[a]);
    }
  }
}

// Where every array is of type T and begins at a multiple of 16 bytes.
template <class T, class C, class Rule, int kStates>
__global__ void __launch_bounds__(kThreads)
    step_plain(const __grid_constant__ TensorList list, const Rule given, const Rule* made,
               const BlockNumbers numbers) {
  if (numbers.found_inf && *numbers.found_inf != 0) return;
  const ListEntry& entry = list.of_block(blockIdx.x);
  const Rule rule = made ? *made : given;
  const C inverse_scale = numbers.grad_scale ? C(1) / C(*numbers.grad_scale) : C(1);
  const long long start = static_cast<long long>(blockIdx.x - entry.first_block) * kListChunk;
  if (start + kListChunk <= entry.count)
    return step_chunk<T, kStates>(entry, start, rule, inverse_scale);
  for (long long i = start + threadIdx.x; i < entry.count; i += kThreads) {
    const auto array = [&](int a) { return reinterpret_cast<T*>(entry.data[a]) + i; };
    C states[kStates];
#pragma unroll
    for (int s = 0; s < kStates; ++s) states[s] = load_value<C>(*array(2 + s));
    *array(0) = store_value<T>(
        stepped(rule, load_value<C>(*array(0)), load_value<C>(*array(1)) * inverse_scale, states));
#pragma unroll
    for (int s = 0; s < kStates; ++s) *array(2 + s) = store_value<T>(states[s]);
  }
}

template <class C, class Rule>
__global__ void __launch_bounds__(kThreads)
    step_mixed(const __grid_constant__ TensorList list, const Rule given, const Rule* made,
               const BlockNumbers numbers) {
  if (numbers.found_inf && *numbers.found_inf != 0) return;
  const ListEntry& entry = list.of_block(blockIdx.x);
  const Rule rule = made ? *made : given;
  const C inverse_scale = numbers.grad_scale ? C(1) / C(*numbers.grad_scale) : C(1);
  each_pack(entry, blockIdx.x, [&](long long first, int n) {
    C param[kListPack], grad[kListPack], states[3][kListPack] = {};
    if (entry.data[5])
      read_items<float>(entry.data[5], first, n, param);
    else
      read_any(entry.data[0], entry.dtypes[0], first, n, param);
    read_any(entry.data[1], entry.dtypes[1], first, n, grad);
#pragma unroll
    for (int s = 0; s < 3; ++s)
      if (entry.data[2 + s]) read_any(entry.data[2 + s], entry.dtypes[2], first, n, states[s]);
#pragma unroll
    for (int i = 0; i < kListPack; ++i) {
      C state[3] = {states[0][i], states[1][i], states[2][i]};
      param[i] = rule(param[i], grad[i] * inverse_scale, state);
#pragma unroll
      for (int s = 0; s < 3; ++s) states[s][i] = state[s];
    }
    write_any(entry.data[0], entry.dtypes[0], first, n, param);
    if (entry.data[5]) write_items<float>(entry.data[5], first, n, param);
#pragma unroll
    for (int s = 0; s < 3; ++s)
      if (entry.data[2 + s]) write_any(entry.data[2 + s], entry.dtypes[2], first, n, states[s]);
  });
}

// Where one of the numbers is in device memory, the rule is made there.
template <class Rule, class Attrs>
__global__ void make_rule(const Attrs attrs, StepNumbers numbers, const float* step,
                          const float* product, const double* lr, Rule* made) {
  if (step) numbers.step = static_cast<double>(*step);
  if (product) numbers.product = static_cast<double>(*product);
  if (lr) numbers.lr = *lr;
  *made = Rule::make(attrs, numbers);
}

// The entries of the parameters that are stepped in C. `plain`: the dtype of all arrays, if they
// have one and begin at multiples of 16 bytes, and there are no master weights.
inline std::vector<ListEntry> entries_of(const KernelContext& context, const ListLayout& layout,
                                         bool doubles, std::optional<DType>& plain) {
  std::vector<ListEntry> entries;
  bool alike = !layout.masters;
  for (int64_t i = 0; i < layout.count; ++i) {
    const View& param = context.output(layout.param(i));
    if ((param.dtype == kFloat64) != doubles) continue;
    ListEntry entry{};
    entry.vector = true;
    entry.count = param.numel;
    const View& grad = context.input(layout.grad(i));
    set_array(entry, 0, param);
    set_array(entry, 1, grad);
    entry.dtypes[0] = param.dtype;
    entry.dtypes[1] = grad.dtype;
    entry.dtypes[2] = param.dtype;
    for (int k = 0; k < layout.states; ++k) {
      const View& state = context.output(layout.state(k, i));
      check(k == 0 || state.dtype == entry.dtypes[2], context.op,
            ": the states of a parameter must have one dtype on cuda, got ", entry.dtypes[2],
            " and ", state.dtype);
      entry.dtypes[2] = state.dtype;
      set_array(entry, 2 + k, state);
    }
    if (layout.masters) set_array(entry, 5, context.output(layout.master(i)));
    entries.push_back(entry);
    for (DType dtype : entry.dtypes) alike &= dtype == entries[0].dtypes[0];
    for (const char* data : entry.data) alike &= aligned(data, 16);
  }
  if (alike && !entries.empty()) plain = entries[0].dtypes[0];
  return entries;
}

template <class C, template <class> class Rule, class Attrs>
void step_tensors(const KernelContext& context, const Attrs& attrs, const BlockNumbers& numbers) {
  const ListLayout& layout = attrs.layout;
  std::optional<DType> plain;
  const std::vector<ListEntry> entries =
      entries_of(context, layout, std::is_same_v<C, double>, plain);
  if (entries.empty()) return;
  const Launch launch{context.op, context.device.index};
  const StepNumbers given = numbers_of(attrs);
  const Rule<C> rule = Rule<C>::make(attrs, given);
  std::optional<Scratch> scratch;
  Rule<C>* made = nullptr;
  if (layout.counted || layout.carried || layout.rated) {
    scratch.emplace(context.device.index, sizeof(Rule<C>));
    made = reinterpret_cast<Rule<C>*>(scratch->data());
    const auto number = [&](bool there, size_t slot) {
      return there ? context.input(slot).template as<const float>() : nullptr;
    };
    launch(make_rule<Rule<C>, Attrs>, dim3(1), dim3(1), attrs, given,
           number(layout.counted, layout.step()), number(layout.carried, layout.product()),
           layout.rated ? context.input(layout.rate()).template as<const double>() : nullptr, made);
  }
  each_launch(entries, [&](const TensorList& list, dim3 blocks) {
    const auto run = [&](auto* kernel) {
      launch(kernel, blocks, dim3(kThreads), list, rule, static_cast<const Rule<C>*>(made),
             numbers);
    };
    if constexpr (std::is_same_v<C, float>) {
      constexpr int kUsual = Rule<C>::kUsualStates;
      const bool usual = layout.states == kUsual;
      if (usual && plain == kFloat32) return run(step_plain<float, C, Rule<C>, kUsual>);
      if (usual && plain == kBFloat16) return run(step_plain<BFloat16, C, Rule<C>, kUsual>);
    }
    run(step_mixed<C, Rule<C>>);
  });
}

template <template <class> class Rule, class Attrs>
void step_list(const KernelContext& context, const Attrs& attrs) {
  const ListLayout& layout = attrs.layout;
  for (int64_t i = 0; i < layout.outputs(); ++i) {  // out of place: results begin as copies
    const auto slot = static_cast<size_t>(i);
    if (context.input(slot).data != context.output(slot).data)
      copy_elements(context.op, context.input(slot), context.output(slot));
  }
  BlockNumbers numbers{};
  if (layout.scaled) numbers.grad_scale = context.input(layout.scale()).as<const float>();
  if (layout.guarded) numbers.found_inf = context.input(layout.found_inf()).as<const float>();
  step_tensors<float, Rule>(context, attrs, numbers);
  step_tensors<double, Rule>(context, attrs, numbers);
}

/// A step whose number counts can be recorded only where the number is a tensor.
inline void check_recordable(const KernelContext& context, bool counts, const ListLayout& layout) {
  check(!counts || layout.counted || !current_capture(), context.op,
        ": a graph would repeat the step that was recorded; give the step as a tensor and count it "
        "within the graph");
}

}  // namespace tensora::cuda
