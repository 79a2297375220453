#include <algorithm>

#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/loops/packed.h"
#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/loss/class_logits.cuh"
#include "tensora/ops/loss/cross_entropy_gradient_op.h"

// See Note [Cross-entropy without probabilities]. Where classes are adjacent, a warp or a block
// takes a row; where targets are, as in images, a thread takes a row.

namespace tensora::cuda {
namespace {

constexpr unsigned kWarp = 32;
constexpr unsigned kRowThreads = 256;  // of a block: eight rows, or one
constexpr unsigned kRowBlocks = 3;     // of a multiprocessor, for whose registers they are compiled
constexpr int kInFlight = 4;           // packs of a thread that are loaded together

__device__ inline float exp_of_difference(float x, float shift) {
  constexpr float kLog2e = 1.4426950408889634f;
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"((x - shift) * kLog2e));
  return power;
}
__device__ inline double exp_of_difference(double x, double shift) { return exp(x - shift); }

// What logits are relative to in the weighted sum of them all, so that large ones keep their
// digits.
template <class C, class T>
__device__ inline C base_of(const ClassForwardParams& params, const T* row) {
  if (!(params.terms.share > 0) || params.logits.classes == 0) return 0;
  const C first = load_value<C>(row[0]);
  return isfinite(first) ? first : C(0);
}

// log(sum(exp(x))) as it is accumulated: the largest x so far, and the sum relative to it.
template <class C>
struct Running {
  C largest = C(-__builtin_huge_val()), sum = 0, dot = 0;

  __device__ C shift() const { return largest == C(-__builtin_huge_val()) ? C(0) : largest; }
  template <int V>
  __device__ void add(const C (&values)[V]) {
    C top = values[0];
#pragma unroll
    for (int i = 1; i < V; ++i) top = max(top, values[i]);
    if (top > largest) {
      sum *= exp_of_difference(largest, top);
      largest = top;
    }
    const C from = shift();
#pragma unroll
    for (int i = 0; i < V; ++i) sum += exp_of_difference(values[i], from);
  }
  __device__ void join(const Running& other) {
    const C top = max(largest, other.largest);
    if (top != C(-__builtin_huge_val()))
      sum =
          sum * exp_of_difference(largest, top) + other.sum * exp_of_difference(other.largest, top);
    else
      sum += other.sum;
    largest = top;
    dot += other.dot;
  }
  // NaN where the largest is infinite, as in log_softmax.
  __device__ C log_sum() const { return log(sum) + (largest - largest); }
};

// Calls body(values, first, count) with the elements of a row in packs: whole ones where they are
// aligned, single elements before and after.
template <class T, class C, unsigned kGroup, class Body>
__device__ inline void each_pack(const T* row, long long length, unsigned lane, Body&& body) {
  constexpr int kPack = 16 / static_cast<int>(sizeof(T));
  const auto misfit = static_cast<long long>(reinterpret_cast<size_t>(row) % 16 / sizeof(T));
  const long long head = min(length, misfit == 0 ? 0 : kPack - misfit);
  const long long packs = (length - head) / kPack;
  for (long long start = lane; start < packs; start += kGroup * kInFlight) {
    Pack<T, kPack> raw[kInFlight];
#pragma unroll
    for (int u = 0; u < kInFlight; ++u) {
      const long long pack = start + u * static_cast<long long>(kGroup);
      if (pack < packs)
        raw[u] = *reinterpret_cast<const Pack<T, kPack>*>(row + head + pack * kPack);
    }
#pragma unroll
    for (int u = 0; u < kInFlight; ++u) {
      const long long pack = start + u * static_cast<long long>(kGroup);
      if (pack >= packs) break;
      C values[kPack];
#pragma unroll
      for (int i = 0; i < kPack; ++i) values[i] = load_value<C>(raw[u].items[i]);
      body(values, head + pack * kPack);
    }
  }
  const long long rest = head + packs * kPack;
  for (long long c = lane; c < head + (length - rest); c += kGroup) {
    const long long at = c < head ? c : rest + c - head;
    const C single[1] = {load_value<C>(row[at])};
    body(single, at);
  }
}

template <class C>
__device__ inline void join_warp(Running<C>& running) {
#pragma unroll
  for (unsigned distance = kWarp / 2; distance > 0; distance /= 2) {
    Running<C> other;
    other.largest = __shfl_xor_sync(kWholeWarp, running.largest, distance);
    other.sum = __shfl_xor_sync(kWholeWarp, running.sum, distance);
    other.dot = __shfl_xor_sync(kWholeWarp, running.dot, distance);
    running.join(other);
  }
}

template <class T, unsigned kGroup>
__global__ void __launch_bounds__(kRowThreads, kRowBlocks)
    forward_rows(const __grid_constant__ ClassForwardParams params) {
  using C = accumulate_t<T>;
  const unsigned lane = threadIdx.x % kGroup;
  const long long row =
      static_cast<long long>(blockIdx.x) * (kRowThreads / kGroup) + threadIdx.x / kGroup;
  if (row >= params.logits.rows) return;  // a whole group
  const T* const x = params.logits.row<T>(row);
  const bool smooth = params.terms.share > 0;
  const C base = base_of<C>(params, x);
  Running<C> running;
  each_pack<T, C, kGroup>(x, params.logits.classes, lane, [&](const auto& values, long long first) {
    running.add(values);
    if (smooth)
      for (int i = 0; i < static_cast<int>(sizeof(values) / sizeof(C)); ++i)
        running.dot += (values[i] - base) * params.terms.of<C>(first + i);
  });
  join_warp(running);
  if constexpr (kGroup > kWarp) {
    constexpr unsigned kWarps = kGroup / kWarp;
    __shared__ C largest[kWarps], sum[kWarps], dot[kWarps];
    if (lane % kWarp == 0) {
      largest[lane / kWarp] = running.largest;
      sum[lane / kWarp] = running.sum;
      dot[lane / kWarp] = running.dot;
    }
    __syncthreads();
    if (lane >= kWarp) return;
    running = Running<C>();
    if (lane < kWarps) {
      running.largest = largest[lane];
      running.sum = sum[lane];
      running.dot = dot[lane];
    }
    join_warp(running);
  }
  if (lane != 0) return;
  const long long y = params.logits.place(row);
  const C logit = y < 0 ? C(0) : load_value<C>(x[y]);
  params.store(row, y, running.largest, running.log_sum(), logit, base, running.dot);
}

// A thread per row; adjacent threads read adjacent targets' logits.
template <class T>
__global__ void __launch_bounds__(kThreads)
    forward_columns(const __grid_constant__ ClassForwardParams params) {
  using C = accumulate_t<T>;
  const long long row = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (row >= params.logits.rows) return;
  const T* const x = params.logits.row<T>(row);
  const long long step = params.logits.class_step;
  const bool smooth = params.terms.share > 0;
  const C base = base_of<C>(params, x);
  Running<C> running;
#pragma unroll 4
  for (long long c = 0; c < params.logits.classes; ++c) {
    const C single[1] = {load_value<C>(x[c * step])};
    running.add(single);
    if (smooth) running.dot += (single[0] - base) * params.terms.of<C>(c);
  }
  const long long y = params.logits.place(row);
  const C logit = y < 0 ? C(0) : load_value<C>(x[y * step]);
  params.store(row, y, running.largest, running.log_sum(), logit, base, running.dot);
}

// The gradient of a logit: exp(x - largest) * scale - even * weight, and at the target less
// `strength`.
template <class C>
struct Slopes {
  C strength = 0, scale = 0, even = 0, largest = 0;
  long long y;

  __device__ Slopes(const ClassBackwardParams& params, long long row)
      : y(params.logits.place(row)) {
    if (y < 0) return;
    const C grad = params.grad_of<C>(row);
    strength = grad * C(1 - params.terms.share) * params.terms.of<C>(y);
    scale = strength;
    largest = static_cast<const C*>(params.largest)[row];
    if (params.terms.share > 0) {
      even = grad * params.terms.even<C>(params.logits.classes);
      scale += even * params.terms.sum<C>(params.logits.classes);
    }
    scale *= exp(-static_cast<const C*>(params.log_sum)[row]);
  }
  /// Of a class that is not the target of this row.
  __device__ C of(const ClassBackwardParams& params, C x, long long c) const {
    const C value = exp_of_difference(x, largest) * scale;
    return params.terms.share > 0 ? value - even * params.terms.of<C>(c) : value;
  }
};

template <class T, unsigned kGroup>
__global__ void __launch_bounds__(kRowThreads, kRowBlocks)
    backward_rows(const __grid_constant__ ClassBackwardParams params) {
  using C = accumulate_t<T>;
  const unsigned lane = threadIdx.x % kGroup;
  const long long row =
      static_cast<long long>(blockIdx.x) * (kRowThreads / kGroup) + threadIdx.x / kGroup;
  if (row >= params.logits.rows) return;
  const long long begin = blockIdx.y * params.chunk;
  const long long length = min(params.chunk, params.logits.classes - begin);
  const T* const x = params.logits.row<T>(row) + begin;
  T* const out = params.out_row<T>(row) + begin;
  const Slopes<C> slopes(params, row);
  if (slopes.y < 0) {
    for (long long c = lane; c < length; c += kGroup) out[c] = store_value<T>(C(0));
    return;
  }
  const long long target = slopes.y - begin;
  if ((reinterpret_cast<size_t>(x) ^ reinterpret_cast<size_t>(out)) % 16 != 0) {
    for (long long c = lane; c < length; c += kGroup) {
      const C value = slopes.of(params, load_value<C>(x[c]), begin + c);
      out[c] = store_value<T>(c == target ? value - slopes.strength : value);
    }
    return;
  }
  each_pack<T, C, kGroup>(x, length, lane, [&](const auto& values, long long first) {
    constexpr int kCount = static_cast<int>(sizeof(values) / sizeof(C));
    C result[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) result[i] = slopes.of(params, values[i], begin + first + i);
    if (target >= first && target < first + kCount) {
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        if (first + i == target) result[i] -= slopes.strength;
    }
    store_pack<T>(reinterpret_cast<char*>(out + first), result);
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    backward_columns(const __grid_constant__ ClassBackwardParams params) {
  using C = accumulate_t<T>;
  const long long row = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (row >= params.logits.rows) return;
  const long long begin = blockIdx.y * params.chunk;
  const long long end = min(begin + params.chunk, params.logits.classes);
  const T* const x = params.logits.row<T>(row);
  T* const out = params.out_row<T>(row);
  const Slopes<C> slopes(params, row);
#pragma unroll 4
  for (long long c = begin; c < end; ++c) {
    C value = 0;
    if (slopes.y >= 0) {
      value = slopes.of(params, load_value<C>(x[c * params.logits.class_step]), c);
      if (c == slopes.y) value -= slopes.strength;
    }
    out[c * params.out_class_step] = store_value<T>(value);
  }
}

constexpr long long kClassesOfWarp = 1024;

void run_forward(const KernelContext& context, DType dtype, const ClassForwardParams& params) {
  const Launch launch{context.op, context.device.index};
  const ClassLogits& logits = params.logits;
  visit_floating(dtype, context.op, [&]<class T>() {
    if (logits.class_step != 1 && logits.classes > 1)
      launch(forward_columns<T>, blocks_for(logits.rows, kThreads), dim3(kThreads), params);
    else if (logits.classes <= kClassesOfWarp)
      launch(forward_rows<T, kWarp>, blocks_for(logits.rows, kRowThreads / kWarp),
             dim3(kRowThreads), params);
    else
      launch(forward_rows<T, kRowThreads>, blocks_for(logits.rows, 1), dim3(kRowThreads), params);
  });
}

void cross_entropy_kernel(const KernelContext& context, const CrossEntropyAttrs& attrs) {
  ClassForwardParams params{};
  params.logits = logits_of(context, context.input(0), context.input(1), attrs);
  params.terms = terms_of(context, 2, attrs);
  params.loss = context.output(0).data;
  params.weight = context.output(1).data;
  params.largest = context.output(2).data;
  params.log_sum = context.output(3).data;
  run_forward(context, context.input(0).dtype, params);
}

void run_backward(const KernelContext& context, DType dtype, ClassBackwardParams params) {
  const ClassLogits& logits = params.logits;
  const int device = context.device.index;
  const bool rows = (logits.class_step == 1 && params.out_class_step == 1) || logits.classes == 1;
  const bool warps = rows && logits.classes <= kClassesOfWarp;
  const unsigned per_block = !rows ? kThreads : warps ? kRowThreads / kWarp : 1;
  // Few rows are split, so that every multiprocessor has work; splits keep the alignment of packs.
  const long long blocks = (logits.rows + per_block - 1) / per_block;
  const long long wanted = 8ll * device_info(device).multiprocessors / blocks;
  const long long smallest = rows ? 8192 : 32;
  params.chunk = std::max(smallest, (logits.classes / std::max(1ll, wanted) + 15) / 16 * 16);
  const auto chunks = static_cast<unsigned>((logits.classes + params.chunk - 1) / params.chunk);
  const Launch launch{context.op, device};
  const dim3 grid = blocks_for(logits.rows, per_block, chunks);
  visit_floating(dtype, context.op, [&]<class T>() {
    if (!rows)
      launch(backward_columns<T>, grid, dim3(kThreads), params);
    else if (warps)
      launch(backward_rows<T, kWarp>, grid, dim3(kRowThreads), params);
    else
      launch(backward_rows<T, kRowThreads>, grid, dim3(kRowThreads), params);
  });
}

void cross_entropy_backward_kernel(const KernelContext& context, const CrossEntropyAttrs& attrs) {
  if (context.output().numel == 0) return;
  ClassBackwardParams params = backward_params(context, attrs, 5);
  const int device = context.device.index;
  const Packed largest(context.op, device, context.input(3));  // as the forward made them
  const Packed log_sum(context.op, device, context.input(4));
  params.largest = largest.view().data;
  params.log_sum = log_sum.view().data;
  run_backward(context, context.output().dtype, params);
}

// The two kernels one after the other: a thread reads what it overwrites. One kernel that keeps the
// row in shared memory between sum and gradient was measured to be slower, 0.63 against 0.39 ms for
// 4736 rows of 50304 on an H200.
void cross_entropy_gradient_kernel(const KernelContext& context, const CrossEntropyAttrs& attrs) {
  const View &input = context.input(0), &out = context.output(0), &losses = context.output(1);
  if (input.sizes[0] == 0) return;
  ClassForwardParams forward{};
  forward.logits = logits_of(context, input, context.input(2), attrs);
  const size_t bytes = losses.bytes();
  const Scratch loss(context.device.index, bytes), weight(context.device.index, bytes),
      largest(context.device.index, bytes), log_sum(context.device.index, bytes);
  forward.loss = loss.data();
  forward.weight = weight.data();
  forward.largest = largest.data();
  forward.log_sum = log_sum.data();
  run_forward(context, input.dtype, forward);
  View made = losses;
  made.data = loss.data();
  made.strides = contiguous_strides(losses.sizes);
  made.update();
  copy_elements(context.op, made, losses);
  if (out.numel == 0) return;
  ClassBackwardParams backward{};
  backward.logits = forward.logits;
  backward.grad = context.input(3).data;  // one for all rows: its strides are 0
  backward.largest = largest.data();
  backward.log_sum = log_sum.data();
  backward.out = out.as<char>();
  backward.out_batch_step = out.strides[0];
  backward.out_class_step = out.strides[1];
  run_backward(context, out.dtype, backward);
}

}  // namespace

void register_cross_entropy_cuda() {
  cross_entropy_op.set_kernel(DeviceType::cuda, cross_entropy_kernel);
  cross_entropy_backward_op.set_kernel(DeviceType::cuda, cross_entropy_backward_kernel);
  cross_entropy_gradient_op.set_kernel(DeviceType::cuda, cross_entropy_gradient_kernel);
}

}  // namespace tensora::cuda
