#include "tensora/backend/cuda/loops/indexing.cuh"
#include "tensora/backend/cuda/loops/packed.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/loss/multilabel_margin_op.h"

namespace tensora::cuda {
namespace {

constexpr int kBlock = 256;

struct MarginParams {
  const char *x, *target;
  long long row_step, class_step, target_row_step, target_step;
  long long classes;
  bool long_target;
  int* times;  // [N, C]: how often a class is a target
  const char* grad;
  long long grad_step;
  char* out;
  const char* op;
  Fault* fault;

  __device__ long long listed(long long row, long long i) const {
    const long long at = row * target_row_step + i * target_step;
    return long_target ? reinterpret_cast<const long long*>(target)[at]
                       : reinterpret_cast<const int*>(target)[at];
  }
};

// Counts how often each class is a target of the block's row; the list ends before the first -1.
__device__ inline int* count_targets(const MarginParams& params, long long row) {
  int* const times = params.times + row * params.classes;
  __shared__ unsigned long long end;
  if (threadIdx.x == 0) end = static_cast<unsigned long long>(params.classes);
  for (long long c = threadIdx.x; c < params.classes; c += kBlock) times[c] = 0;
  __syncthreads();
  for (long long i = threadIdx.x; i < params.classes; i += kBlock)
    if (params.listed(row, i) == -1) atomicMin(&end, static_cast<unsigned long long>(i));
  __syncthreads();
  for (long long i = threadIdx.x; i < static_cast<long long>(end); i += kBlock) {
    const long long y = params.listed(row, i);
    if (y >= 0 && y < params.classes)
      atomicAdd(&times[y], 1);
    else
      note_fault(params.fault, params.op, nullptr, y, params.classes, 1);
  }
  __syncthreads();
  return times;
}

// A block takes a row; a thread some classes, each of which it compares with all others.
template <class T>
__global__ void __launch_bounds__(kBlock) forward(const __grid_constant__ MarginParams params) {
  using C = accumulate_t<T>;
  const long long row = blockIdx.x;
  const int* const times = count_targets(params, row);
  const T* const x = reinterpret_cast<const T*>(params.x) + row * params.row_step;
  double sum = 0;
  for (long long i = threadIdx.x; i < params.classes; i += kBlock) {
    if (times[i] > 0) continue;
    const C score = load_value<C>(x[i * params.class_step]);
    for (long long y = 0; y < params.classes; ++y) {
      if (times[y] == 0) continue;
      const C excess = C(1) - load_value<C>(x[y * params.class_step]) + score;
      if (excess > 0 || excess != excess) sum += static_cast<double>(excess) * times[y];
    }
  }
  __shared__ double warps[kBlock / 32];
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    sum += __shfl_xor_sync(kWholeWarp, sum, distance);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < kBlock / 32; ++w) sum += warps[w];
  reinterpret_cast<C*>(params.out)[row] = C(sum / static_cast<double>(params.classes));
}

template <class T>
__global__ void __launch_bounds__(kBlock) backward(const __grid_constant__ MarginParams params) {
  using C = accumulate_t<T>;
  const long long row = blockIdx.x;
  const int* const times = count_targets(params, row);
  const T* const x = reinterpret_cast<const T*>(params.x) + row * params.row_step;
  const C factor =
      reinterpret_cast<const C*>(params.grad)[row * params.grad_step] / C(params.classes);
  for (long long i = threadIdx.x; i < params.classes; i += kBlock) {
    const C score = load_value<C>(x[i * params.class_step]);
    const bool is_target = times[i] > 0;
    long long active = 0;
    for (long long other = 0; other < params.classes; ++other) {
      if ((times[other] > 0) == is_target) continue;
      const C against = load_value<C>(x[other * params.class_step]);
      const C excess = is_target ? C(1) - score + against : C(1) - against + score;
      if (excess > 0) active += is_target ? -times[i] : times[other];
    }
    reinterpret_cast<T*>(params.out)[row * params.classes + i] = store_value<T>(C(active) * factor);
  }
}

MarginParams params_of(const KernelContext& context, const View& x, const View& target,
                       const Scratch& times) {
  MarginParams params{};
  params.x = x.as<const char>();
  params.target = target.as<const char>();
  params.row_step = x.strides[0];
  params.class_step = x.strides[1];
  params.target_row_step = target.strides[0];
  params.target_step = target.strides[1];
  params.classes = x.sizes[1];
  params.long_target = target.dtype == kInt64;
  params.times = reinterpret_cast<int*>(times.data());
  params.out = context.output().as<char>();
  params.op = context.op.data();
  params.fault = device_fault(context.device.index);
  return params;
}

void forward_kernel(const KernelContext& context, const NoAttrs&) {
  const View& x = context.input(0);
  const int device = context.device.index;
  const Scratch times(device, static_cast<size_t>(x.numel) * sizeof(int));
  const MarginParams params = params_of(context, x, context.input(1), times);
  visit_floating(x.dtype, context.op, [&]<class T>() {
    Launch{context.op, device}(forward<T>, dim3(static_cast<unsigned>(x.sizes[0])), dim3(kBlock),
                               params);
  });
}

void backward_kernel(const KernelContext& context, const NoAttrs&) {
  const View& x = context.input(1);
  if (x.numel == 0) return;
  const int device = context.device.index;
  const Scratch times(device, static_cast<size_t>(x.numel) * sizeof(int));
  MarginParams params = params_of(context, x, context.input(2), times);
  params.grad = context.input(0).as<const char>();
  params.grad_step = context.input(0).strides[0];
  visit_floating(x.dtype, context.op, [&]<class T>() {
    Launch{context.op, device}(backward<T>, dim3(static_cast<unsigned>(x.sizes[0])), dim3(kBlock),
                               params);
  });
}

}  // namespace

void register_multilabel_margin_cuda() {
  multilabel_margin_op.set_kernel(DeviceType::cuda, forward_kernel);
  multilabel_margin_backward_op.set_kernel(DeviceType::cuda, backward_kernel);
}

}  // namespace tensora::cuda
