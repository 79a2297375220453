#include "tensora/backend/cuda/loops/generate.cuh"
#include "tensora/backend/cuda/loops/packed.h"
#include "tensora/ops/nn/dropout.h"

namespace tensora::cuda {
namespace {

constexpr int kItems = 8;  // elements of a thread: 16 bytes of a half type, two counters

struct DropoutParams {
  DropoutAttrs attrs;
  const ReplayRandom* replay;
  const char* in;
  char* out;
  int64_t count;
  bool aligned;
};

struct SlopeParams {
  RandomSlopeAttrs attrs;
  const ReplayRandom* replay;
  const char *in, *condition;
  char* out;
  int64_t count;
};

template <class T>
using compute_t = accumulate_t<T>;

template <class C>
struct Mask {
  unsigned last;
  C scale, kept, dropped;
  bool shifts;

  __device__ explicit Mask(const DropoutAttrs& attrs) {
    const unsigned long long limit = attrs.limit();
    last = limit == 0 ? 0u : static_cast<unsigned>(limit - 1);
    scale = limit == 0 ? C(0) : C(attrs.scale);
    kept = C(limit == 0 ? attrs.dropped : attrs.kept);
    dropped = C(attrs.dropped);
    shifts = attrs.shifts();
  }
  __device__ C of(C x, unsigned word) const {
    const bool keeps = word <= last;
    const C scaled = product(x, keeps ? scale : C(0));
    return shifts ? scaled + (keeps ? kept : dropped) : scaled;
  }
};

// See Note [Four in a row].
template <class T>
__global__ void __launch_bounds__(kThreads) drop(const __grid_constant__ DropoutParams params) {
  using C = compute_t<T>;
  const int64_t thread = int64_t{blockIdx.x} * kThreads + threadIdx.x, first = thread * kItems;
  if (first >= params.count) return;
  const T* const in = reinterpret_cast<const T*>(params.in) + first;
  T* const out = reinterpret_cast<T*>(params.out) + first;
  const bool whole = params.aligned && first + kItems <= params.count;
  C values[kItems];
  if (whole) {
    load_pack<T>(reinterpret_cast<const char*>(in), values);
  } else {
#pragma unroll
    for (int i = 0; i < kItems; ++i)
      values[i] = first + i < params.count ? load_value<C>(in[i]) : C(0);
  }
  const Mask<C> mask(params.attrs);
#pragma unroll
  for (int half = 0; half < kItems / 4; ++half) {
    const PhiloxWords words = words_of(params.attrs, params.replay, thread * (kItems / 4) + half);
#pragma unroll
    for (int k = 0; k < 4; ++k) values[4 * half + k] = mask.of(values[4 * half + k], words.word[k]);
  }
  if (whole) {
    store_pack<T>(reinterpret_cast<char*>(out), values);
  } else {
#pragma unroll
    for (int i = 0; i < kItems; ++i)
      if (first + i < params.count) out[i] = store_value<T>(values[i]);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) slopes(const __grid_constant__ SlopeParams params) {
  using C = compute_t<T>;
  const int64_t thread = int64_t{blockIdx.x} * kThreads + threadIdx.x, first = thread * 4;
  if (first >= params.count) return;
  const PhiloxWords words = words_of(params.attrs, params.replay, thread);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int64_t i = first + k;
    if (i >= params.count) continue;
    const C x = load_value<C>(reinterpret_cast<const T*>(params.in)[i]);
    const C condition = load_value<C>(reinterpret_cast<const T*>(params.condition)[i]);
    const C y = condition <= C(0) ? x * C(params.attrs.slope(words.word[k])) : x;
    reinterpret_cast<T*>(params.out)[i] = store_value<T>(y);
  }
}

bool aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

dim3 blocks_for(int64_t count, int per_thread) {
  const int64_t per_block = int64_t{kThreads} * per_thread;
  return dim3(static_cast<unsigned>((count + per_block - 1) / per_block));
}

void dropout_kernel(const KernelContext& context, const DropoutAttrs& attrs) {
  generate(context, [&](const View& out) {
    const Packed in(context.op, context.device.index, context.input(0));
    DropoutParams params{};
    params.attrs = attrs;
    params.replay = replay_of(context, params.attrs);
    params.in = in.view().as<const char>();
    params.out = out.as<char>();
    params.count = out.numel;
    params.aligned = aligned(params.in) && aligned(params.out);
    visit_floating(out.dtype, context.op, [&]<class T>() {
      Launch{context.op, context.device.index}(drop<T>, blocks_for(out.numel, kItems),
                                               dim3(kThreads), params);
    });
  });
}

void slope_kernel(const KernelContext& context, const RandomSlopeAttrs& attrs) {
  generate(context, [&](const View& out) {
    const int device = context.device.index;
    const Packed in(context.op, device, context.input(0));
    const Packed condition(context.op, device, context.input(1));
    SlopeParams params{};
    params.attrs = attrs;
    params.replay = replay_of(context, params.attrs);
    params.in = in.view().as<const char>();
    params.condition = condition.view().as<const char>();
    params.out = out.as<char>();
    params.count = out.numel;
    visit_floating(out.dtype, context.op, [&]<class T>() {
      Launch{context.op, context.device.index}(slopes<T>, blocks_for(out.numel, 4), dim3(kThreads),
                                               params);
    });
  });
}

}  // namespace

void register_dropout_cuda() {
  dropout_op.set_kernel(DeviceType::cuda, dropout_kernel);
  random_slope_op.set_kernel(DeviceType::cuda, slope_kernel);
}

}  // namespace tensora::cuda
