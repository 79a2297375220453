#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "tensora/backend/cuda/loops/elements.cuh"
#include "tensora/backend/cuda/loops/packed.h"
#include "tensora/backend/cuda/runtime/capture.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/optim/multi_tensor_op.h"
#include "tensora/ops/optim/update_rules.h"

// Note [A list in one launch]
// The addresses and sizes of all tensors of a list are parameters of the kernel. Each tensor is cut
// into chunks of equal size and a block takes one chunk; which tensor that belongs to it finds by
// bisection in the parameters, which are in constant memory. All arrays of a tensor are dense and
// laid out alike, so elements are taken in memory order, four at a time.

namespace tensora::cuda {
namespace {

constexpr int kListTensors = 256;  // of one launch: the parameters of a kernel end at 32 KB
constexpr int kPack = 4;           // elements
constexpr int kPacks = 4;          // of a thread
constexpr int kChunk = kThreads * kPack * kPacks;
constexpr int kArrays = 6;  // parameter, gradient, three states, master weight

struct Entry {
  char* data[kArrays];  // null: there is none
  long long count;
  unsigned first_block;
  DType dtypes[3];  // of parameter, gradient and states
  bool vector;      // all arrays begin where packs can be read
};
struct List {
  Entry entries[kListTensors];
  int count;

  /// The tensor to which a block belongs.
  __device__ const Entry& of_block(unsigned block) const {
    int low = 0, high = count - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (entries[middle].first_block <= block)
        low = middle;
      else
        high = middle - 1;
    }
    return entries[low];
  }
};

template <class Body>
__device__ inline void visit_float(DType dtype, Body&& body) {
  if (dtype == DType::float32)
    body.template operator()<float>();
  else if (dtype == DType::bfloat16)
    body.template operator()<BFloat16>();
  else if (dtype == DType::float16)
    body.template operator()<Half>();
  else
    body.template operator()<double>();
}

// Up to kPack elements, whole packs in one or two accesses.
template <class T, class C>
__device__ inline void read_items(const char* data, long long first, int n, C (&to)[kPack]) {
  const T* const from = reinterpret_cast<const T*>(data) + first;
  if (n == kPack) return load_pack<T>(reinterpret_cast<const char*>(from), to);
#pragma unroll
  for (int i = 0; i < kPack; ++i) to[i] = i < n ? load_value<C>(from[i]) : C(0);
}
template <class T, class C>
__device__ inline void write_items(char* data, long long first, int n, const C (&from)[kPack]) {
  T* const to = reinterpret_cast<T*>(data) + first;
  if (n == kPack) return store_pack<T>(reinterpret_cast<char*>(to), from);
#pragma unroll
  for (int i = 0; i < kPack; ++i)
    if (i < n) to[i] = store_value<T>(from[i]);
}
template <class C>
__device__ inline void read_any(const char* data, DType dtype, long long first, int n,
                                C (&to)[kPack]) {
  visit_float(dtype, [&]<class T>() { read_items<T>(data, first, n, to); });
}
template <class C>
__device__ inline void write_any(char* data, DType dtype, long long first, int n,
                                 const C (&from)[kPack]) {
  visit_float(dtype, [&]<class T>() { write_items<T>(data, first, n, from); });
}

// Calls body(first, n) for the packs of a chunk that this thread takes; single elements where packs
// cannot be read.
template <class Body>
__device__ inline void each_pack(const Entry& entry, unsigned block, Body&& body) {
  const long long start = static_cast<long long>(block - entry.first_block) * kChunk;
  const long long end = min(start + kChunk, entry.count);
  if (entry.vector) {
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const long long first = start + (k * kThreads + static_cast<int>(threadIdx.x)) * kPack;
      if (first < end)
        body(first, static_cast<int>(min(end - first, static_cast<long long>(kPack))));
    }
    return;
  }
  for (long long i = start + threadIdx.x; i < end; i += kThreads) body(i, 1);
}

/// What every block of a step reads from device memory.
struct Numbers {
  const float *grad_scale, *found_inf;  // or null
  const double* corrections;            // or null: the rule has them
};

__device__ inline void correct(AdamRule<float>& rule, const double* corrections) {
  rule.step_size = static_cast<float>(corrections[0]);
  rule.inverse_root_correction = static_cast<float>(corrections[1]);
}
__device__ inline void correct(AdamRule<double>& rule, const double* corrections) {
  rule.step_size = corrections[0];
  rule.inverse_root_correction = corrections[1];
}
template <class C>
__device__ inline void correct(SgdRule<C>&, const double*) {}

// Where every array is float32 and packs can be read: all loads of a thread are in flight together.
template <class C, class Rule, int kStates>
__global__ void __launch_bounds__(kThreads)
    step_plain(const __grid_constant__ List list, const Rule given, const Numbers numbers) {
  if (numbers.found_inf && *numbers.found_inf != 0) return;
  const Entry& entry = list.of_block(blockIdx.x);
  Rule rule = given;
  if (numbers.corrections) correct(rule, numbers.corrections);
  const C inverse_scale = numbers.grad_scale ? C(1) / C(*numbers.grad_scale) : C(1);
  const long long start = static_cast<long long>(blockIdx.x - entry.first_block) * kChunk;
  const long long end = min(start + kChunk, entry.count);
  constexpr int kTogether = 2;
#pragma unroll
  for (int half = 0; half < kPacks / kTogether; ++half) {
    C values[kTogether][2 + kStates][kPack];
    int counts[kTogether];
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      const long long first =
          start + ((half * kTogether + k) * kThreads + static_cast<int>(threadIdx.x)) * kPack;
      counts[k] =
          first < end ? static_cast<int>(min(end - first, static_cast<long long>(kPack))) : 0;
      if (counts[k] == 0) continue;
#pragma unroll
      for (int a = 0; a < 2 + kStates; ++a)
        read_items<C>(entry.data[a], first, counts[k], values[k][a]);
    }
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      if (counts[k] == 0) continue;
      const long long first =
          start + ((half * kTogether + k) * kThreads + static_cast<int>(threadIdx.x)) * kPack;
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        C state[3] = {};
#pragma unroll
        for (int s = 0; s < kStates; ++s) state[s] = values[k][2 + s][i];
        values[k][0][i] = rule(values[k][0][i], values[k][1][i] * inverse_scale, state);
#pragma unroll
        for (int s = 0; s < kStates; ++s) values[k][2 + s][i] = state[s];
      }
      write_items<C>(entry.data[0], first, counts[k], values[k][0]);
#pragma unroll
      for (int s = 0; s < kStates; ++s)
        write_items<C>(entry.data[2 + s], first, counts[k], values[k][2 + s]);
    }
  }
}

template <class C, class Rule>
__global__ void __launch_bounds__(kThreads)
    step_mixed(const __grid_constant__ List list, const Rule given, const Numbers numbers) {
  if (numbers.found_inf && *numbers.found_inf != 0) return;
  const Entry& entry = list.of_block(blockIdx.x);
  Rule rule = given;
  if (numbers.corrections) correct(rule, numbers.corrections);
  const C inverse_scale = numbers.grad_scale ? C(1) / C(*numbers.grad_scale) : C(1);
  each_pack(entry, blockIdx.x, [&](long long first, int n) {
    C param[kPack], grad[kPack], states[3][kPack] = {};
    if (entry.data[5])
      read_items<float>(entry.data[5], first, n, param);
    else
      read_any(entry.data[0], entry.dtypes[0], first, n, param);
    read_any(entry.data[1], entry.dtypes[1], first, n, grad);
#pragma unroll
    for (int s = 0; s < 3; ++s)
      if (entry.data[2 + s]) read_any(entry.data[2 + s], entry.dtypes[2], first, n, states[s]);
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
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

__global__ void find_corrections(const float* step, double lr, double beta1, double beta2,
                                 double* corrections) {
  corrections[0] = lr / (1 - pow(beta1, static_cast<double>(*step)));
  corrections[1] = 1 / sqrt(1 - pow(beta2, static_cast<double>(*step)));
}

bool aligned(const void* data, size_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % bytes == 0;
}

/// Cuts a list into launches: calls run(list, blocks) for each.
template <class Run>
void each_launch(const std::vector<Entry>& entries, const Run& run) {
  List list{};
  unsigned blocks = 0;
  const auto launch = [&] {
    if (blocks > 0) run(list, dim3(blocks));
    list.count = 0;
    blocks = 0;
  };
  for (const Entry& entry : entries) {
    if (entry.count == 0) continue;
    const auto more = static_cast<unsigned>((entry.count + kChunk - 1) / kChunk);
    if (list.count == kListTensors || blocks > 0x7fffffffu - more) launch();
    Entry& added = list.entries[list.count++];
    added = entry;
    added.first_block = blocks;
    blocks += more;
  }
  launch();
}

// An array of a tensor, and whether packs of it can be read.
void set_array(Entry& entry, int number, const View& view) {
  entry.data[number] = view.as<char>();
  entry.vector &= aligned(view.data, std::min<size_t>(16, kPack * element_size(view.dtype)));
}

// The entries of the parameters that are stepped in C.
std::vector<Entry> entries_of(const KernelContext& context, const ListLayout& layout, bool doubles,
                              bool& plain) {
  std::vector<Entry> entries;
  plain = !layout.masters;
  for (int64_t i = 0; i < layout.count; ++i) {
    const View& param = context.output(layout.param(i));
    if ((param.dtype == kFloat64) != doubles) continue;
    Entry entry{};
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
    for (DType dtype : entry.dtypes) plain &= dtype == kFloat32;
    plain &= entry.vector;
    entries.push_back(entry);
  }
  return entries;
}

template <class C, template <class> class Rule>
void step_tensors(const KernelContext& context, const ListLayout& layout, const Rule<C>& rule,
                  const Numbers& numbers) {
  bool plain = true;
  const std::vector<Entry> entries = entries_of(context, layout, std::is_same_v<C, double>, plain);
  const Launch launch{context.op, context.device.index};
  each_launch(entries, [&](const List& list, dim3 blocks) {
    const auto run = [&](auto* kernel) {
      launch(kernel, blocks, dim3(kThreads), list, rule, numbers);
    };
    if constexpr (std::is_same_v<C, float>) {
      constexpr int kUsual = std::is_same_v<Rule<C>, AdamRule<C>> ? 2 : 1;
      if (plain && layout.states == kUsual) return run(step_plain<C, Rule<C>, kUsual>);
    }
    run(step_mixed<C, Rule<C>>);
  });
}

template <class MakeRule>
void step_list(const KernelContext& context, const ListLayout& layout, Numbers numbers,
               const MakeRule& make_rule) {
  for (int64_t i = 0; i < layout.outputs(); ++i) {  // out of place: results begin as copies
    const auto slot = static_cast<size_t>(i);
    if (context.input(slot).data != context.output(slot).data)
      copy_elements(context.op, context.input(slot), context.output(slot));
  }
  if (layout.scaled) numbers.grad_scale = context.input(layout.scale()).as<const float>();
  if (layout.guarded) numbers.found_inf = context.input(layout.found_inf()).as<const float>();
  step_tensors<float>(context, layout, make_rule.template operator()<float>(), numbers);
  step_tensors<double>(context, layout, make_rule.template operator()<double>(), numbers);
}

void adam_list_kernel(const KernelContext& context, const AdamListAttrs& a) {
  check(a.layout.counted || !current_capture(),
        "adam_list: a graph would repeat the step that was recorded; give the step as a tensor and "
        "count it within the graph");
  const int device = context.device.index;
  Numbers numbers{};
  std::optional<Scratch> scratch;
  if (a.layout.counted) {
    scratch.emplace(device, 2 * sizeof(double));
    auto* const corrections = reinterpret_cast<double*>(scratch->data());
    Launch{context.op, device}(find_corrections, dim3(1), dim3(1),
                               context.input(a.layout.step()).as<const float>(), a.lr, a.beta1,
                               a.beta2, corrections);
    numbers.corrections = corrections;
  }
  const auto step = static_cast<double>(a.step);
  step_list(context, a.layout, numbers, [&]<class C>() {
    return AdamRule<C>{C(a.beta1),
                       C(a.beta2),
                       C(a.lr),
                       C(a.eps),
                       C(a.decoupled ? 0 : a.weight_decay),
                       C(a.decoupled ? 1 - a.lr * a.weight_decay : 1),
                       C(a.maximize ? -1 : 1),
                       C(a.lr / (1 - std::pow(a.beta1, step))),
                       C(1 / std::sqrt(1 - std::pow(a.beta2, step))),
                       a.amsgrad};
  });
}

void sgd_list_kernel(const KernelContext& context, const SgdListAttrs& a) {
  step_list(context, a.layout, {}, [&]<class C>() {
    return SgdRule<C>{
        C(a.lr),    C(a.momentum), C(1 - a.dampening), C(a.weight_decay), C(a.maximize ? -1 : 1),
        a.nesterov, a.first};
  });
}

// ---- norms and clipping -------------------------------------------------------------------------

enum class Order { two, one, highest, lowest, zero, other };

Order order_of(double p) {
  if (p == 2) return Order::two;
  if (p == 1) return Order::one;
  if (p == 0) return Order::zero;
  return std::isinf(p) ? (p > 0 ? Order::highest : Order::lowest) : Order::other;
}

struct NormRule {
  Order order;
  double p;

  __device__ double start() const { return order == Order::lowest ? __builtin_huge_val() : 0.0; }
  __device__ double join(double a, double b) const {
    if (order == Order::highest) return a > b || a != a ? a : b;
    if (order == Order::lowest) return a < b || a != a ? a : b;
    return a + b;
  }
  // A few elements are added in their own type: squares of float32 in double would be the
  // bottleneck.
  template <class C>
  __device__ double add(double acc, const C (&values)[kPack], int n) const {
    if (order == Order::two && n == kPack) {
      const double sum = sizeof(C) == 4 ? squares_of_floats(values) : squares(values);
      return acc + sum;
    }
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      if (i >= n) continue;
      const double x = fabs(static_cast<double>(values[i]));
      switch (order) {
        case Order::two:
          acc += x * x;
          break;
        case Order::zero:
          acc += x != 0;
          break;
        case Order::other:
          acc += pow(x, p);
          break;
        default:
          acc = join(acc, x);
      }
    }
    return acc;
  }
  template <class C>
  __device__ static double squares(const C (&values)[kPack]) {
    double sum = 0;
#pragma unroll
    for (int i = 0; i < kPack; ++i) sum += static_cast<double>(values[i]) * values[i];
    return sum;
  }
  // Squares that would leave float's range are taken in double.
  template <class C>
  __device__ static double squares_of_floats(const C (&values)[kPack]) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kPack; ++i)
      sum += static_cast<float>(values[i]) * static_cast<float>(values[i]);
    return sum < 1e30f && sum > 1e-30f ? static_cast<double>(sum) : squares(values);
  }
  __device__ double finish(double acc) const {
    if (order == Order::two) return sqrt(acc);
    return order == Order::other ? pow(acc, 1 / p) : acc;
  }
};

// The result of thread 0 is that of the block.
__device__ inline double join_block(const NormRule& rule, double acc) {
  __shared__ double warps[kThreads / 32];
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    acc = rule.join(acc, __shfl_xor_sync(kWholeWarp, acc, distance));
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = acc;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int w = 1; w < kThreads / 32; ++w) acc = rule.join(acc, warps[w]);
  return acc;
}

__global__ void __launch_bounds__(kThreads)
    norm_parts(const __grid_constant__ List list, const NormRule rule, double* parts) {
  const Entry& entry = list.of_block(blockIdx.x);
  double acc = rule.start();
  each_pack(entry, blockIdx.x, [&](long long first, int n) {
    if (entry.dtypes[0] == DType::float64) {
      double values[kPack];
      read_items<double>(entry.data[0], first, n, values);
      acc = rule.add(acc, values, n);
    } else {
      float values[kPack];
      read_any(entry.data[0], entry.dtypes[0], first, n, values);
      acc = rule.add(acc, values, n);
    }
  });
  acc = join_block(rule, acc);
  if (threadIdx.x == 0) parts[blockIdx.x] = acc;
}

__global__ void __launch_bounds__(kThreads)
    join_parts(const double* parts, long long count, const NormRule rule, void* out, bool wide) {
  double acc = rule.start();
  for (long long i = threadIdx.x; i < count; i += kThreads) acc = rule.join(acc, parts[i]);
  acc = join_block(rule, acc);
  if (threadIdx.x != 0) return;
  const double result = rule.finish(acc);
  if (wide)
    *static_cast<double*>(out) = result;
  else
    *static_cast<float*>(out) = static_cast<float>(result);
}

Entry entry_of(const View& view) {
  Entry entry{};
  entry.vector = true;
  entry.count = view.numel;
  entry.dtypes[0] = view.dtype;
  set_array(entry, 0, view);
  return entry;
}

void list_norm_kernel(const KernelContext& context, const ListNormAttrs& attrs) {
  const int device = context.device.index;
  std::vector<Entry> entries;
  std::vector<std::unique_ptr<Packed>> copies;  // of views with gaps
  int64_t parts = 0;
  for (const View* view : context.in) {
    const bool dense = is_dense(view->sizes, view->strides);
    if (!dense) copies.push_back(std::make_unique<Packed>(context.op, device, *view));
    entries.push_back(entry_of(dense ? *view : copies.back()->view()));
    parts += (view->numel + kChunk - 1) / kChunk;
  }
  const Scratch scratch(device, static_cast<size_t>(std::max<int64_t>(1, parts)) * sizeof(double));
  auto* const all = reinterpret_cast<double*>(scratch.data());
  const NormRule rule{order_of(attrs.p), attrs.p};
  const Launch launch{context.op, device};
  int64_t done = 0;
  each_launch(entries, [&](const List& list, dim3 blocks) {
    launch(norm_parts, blocks, dim3(kThreads), list, rule, all + done);
    done += blocks.x;
  });
  const View& out = context.output();
  launch(join_parts, dim3(1), dim3(kThreads), all, parts, rule, out.data, out.dtype == kFloat64);
}

struct ClipRule {
  const void* norm;  // or null: elements are clipped
  bool wide_norm;
  double limit;
};

template <class C>
__device__ inline void clip_pack(const Entry& entry, const ClipRule& rule, C factor,
                                 long long first, int n) {
  C values[kPack];
  read_any(entry.data[0], entry.dtypes[0], first, n, values);
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    const C limit = C(rule.limit), x = values[i];
    values[i] = rule.norm ? x * factor : x < -limit ? -limit : x > limit ? limit : x;
  }
  write_any(entry.data[0], entry.dtypes[0], first, n, values);
}

__global__ void __launch_bounds__(kThreads)
    clip_list(const __grid_constant__ List list, const ClipRule rule) {
  double factor = 1;
  if (rule.norm) {
    const double norm = rule.wide_norm ? *static_cast<const double*>(rule.norm)
                                       : *static_cast<const float*>(rule.norm);
    factor = rule.limit / (norm + 1e-6);
    if (factor >= 1) return;  // NaN goes on
  }
  const Entry& entry = list.of_block(blockIdx.x);
  each_pack(entry, blockIdx.x, [&](long long first, int n) {
    if (entry.dtypes[0] == DType::float64)
      clip_pack<double>(entry, rule, factor, first, n);
    else
      clip_pack<float>(entry, rule, static_cast<float>(factor), first, n);
  });
}

void list_clip_kernel(const KernelContext& context, const ListClipAttrs& attrs) {
  std::vector<Entry> entries;
  for (size_t i = 0; i < context.out.size(); ++i) {
    if (context.input(i).data != context.output(i).data)
      copy_elements(context.op, context.input(i), context.output(i));
    entries.push_back(entry_of(context.output(i)));
  }
  ClipRule rule{nullptr, false, attrs.limit};
  if (attrs.by_norm) {
    const View& norm = context.input(context.out.size());
    rule.norm = norm.data;
    rule.wide_norm = norm.dtype == kFloat64;
  }
  each_launch(entries, [&](const List& list, dim3 blocks) {
    Launch{context.op, context.device.index}(clip_list, blocks, dim3(kThreads), list, rule);
  });
}

}  // namespace

void register_multi_tensor_cuda() {
  adam_list_op.set_kernel(DeviceType::cuda, adam_list_kernel);
  sgd_list_op.set_kernel(DeviceType::cuda, sgd_list_kernel);
  list_norm_op.set_kernel(DeviceType::cuda, list_norm_kernel);
  list_clip_op.set_kernel(DeviceType::cuda, list_clip_kernel);
}

}  // namespace tensora::cuda
