#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "tensora/backend/cuda/loops/packed.h"
#include "tensora/ops/optim/multi_tensor_op.h"
#include "tensora/ops/optim/tensor_list.cuh"

namespace tensora::cuda {
namespace {

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
  __device__ double add(double acc, const C (&values)[kListPack], int n) const {
    if (order == Order::two && n == kListPack) {
      const double sum = sizeof(C) == 4 ? squares_of_floats(values) : squares(values);
      return acc + sum;
    }
#pragma unroll
    for (int i = 0; i < kListPack; ++i) {
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
  __device__ static double squares(const C (&values)[kListPack]) {
    double sum = 0;
#pragma unroll
    for (int i = 0; i < kListPack; ++i) sum += static_cast<double>(values[i]) * values[i];
    return sum;
  }
  // Squares that would leave float's range are taken in double.
  template <class C>
  __device__ static double squares_of_floats(const C (&values)[kListPack]) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kListPack; ++i)
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
    norm_parts(const __grid_constant__ TensorList list, const NormRule rule, double* parts) {
  const ListEntry& entry = list.of_block(blockIdx.x);
  double acc = rule.start();
  each_pack(entry, blockIdx.x, [&](long long first, int n) {
    if (entry.dtypes[0] == DType::float64) {
      double values[kListPack];
      read_items<double>(entry.data[0], first, n, values);
      acc = rule.add(acc, values, n);
    } else {
      float values[kListPack];
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

void list_norm_kernel(const KernelContext& context, const ListNormAttrs& attrs) {
  const int device = context.device.index;
  std::vector<ListEntry> entries;
  std::vector<std::unique_ptr<Packed>> copies;  // of views with gaps
  int64_t parts = 0;
  for (const View* view : context.in) {
    const bool dense = is_dense(view->sizes, view->strides);
    if (!dense) copies.push_back(std::make_unique<Packed>(context.op, device, *view));
    entries.push_back(entry_of(dense ? *view : copies.back()->view()));
    parts += (view->numel + kListChunk - 1) / kListChunk;
  }
  const Scratch scratch(device, static_cast<size_t>(std::max<int64_t>(1, parts)) * sizeof(double));
  auto* const all = reinterpret_cast<double*>(scratch.data());
  const NormRule rule{order_of(attrs.p), attrs.p};
  const Launch launch{context.op, device};
  int64_t done = 0;
  each_launch(entries, [&](const TensorList& list, dim3 blocks) {
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
__device__ inline void clip_pack(const ListEntry& entry, const ClipRule& rule, C factor,
                                 long long first, int n) {
  C values[kListPack];
  read_any(entry.data[0], entry.dtypes[0], first, n, values);
#pragma unroll
  for (int i = 0; i < kListPack; ++i) {
    const C limit = C(rule.limit), x = values[i];
    values[i] = rule.norm ? x * factor : x < -limit ? -limit : x > limit ? limit : x;
  }
  write_any(entry.data[0], entry.dtypes[0], first, n, values);
}

__global__ void __launch_bounds__(kThreads)
    clip_list(const __grid_constant__ TensorList list, const ClipRule rule) {
  double factor = 1;
  if (rule.norm) {
    const double norm = rule.wide_norm ? *static_cast<const double*>(rule.norm)
                                       : *static_cast<const float*>(rule.norm);
    factor = rule.limit / (norm + 1e-6);
    if (factor >= 1) return;  // NaN goes on
  }
  const ListEntry& entry = list.of_block(blockIdx.x);
  each_pack(entry, blockIdx.x, [&](long long first, int n) {
    if (entry.dtypes[0] == DType::float64)
      clip_pack<double>(entry, rule, factor, first, n);
    else
      clip_pack<float>(entry, rule, static_cast<float>(factor), first, n);
  });
}

void list_clip_kernel(const KernelContext& context, const ListClipAttrs& attrs) {
  std::vector<ListEntry> entries;
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
  each_launch(entries, [&](const TensorList& list, dim3 blocks) {
    Launch{context.op, context.device.index}(clip_list, blocks, dim3(kThreads), list, rule);
  });
}

}  // namespace

void register_list_norm_cuda() {
  list_norm_op.set_kernel(DeviceType::cuda, list_norm_kernel);
  list_clip_op.set_kernel(DeviceType::cuda, list_clip_kernel);
}

}  // namespace tensora::cuda
