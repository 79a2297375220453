#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/loops/launch_walk.cuh"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/reduce/pick.h"

namespace tensora::cuda {
namespace {

struct PickParams {
  Walk<3> walk;  // indices, picked, whole (at position 0 of the picked dim)
  const char* indices;
  char *picked, *whole;
  int64_t step;  // stride in bytes along the picked dim
  unsigned count;
};

// Elements are moved by their bits: only the size of the dtype matters.
template <class T, bool put>
__global__ void __launch_bounds__(kThreads)
    pick_elements(const __grid_constant__ PickParams params) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= params.count) return;
  int at[3];
  params.walk.offsets(i, at);
  const int64_t index = *reinterpret_cast<const int64_t*>(params.indices + at[0]);
  T* const whole = reinterpret_cast<T*>(params.whole + at[2] + index * params.step);
  T* const picked = reinterpret_cast<T*>(params.picked + at[1]);
  if constexpr (put)
    *whole = *picked;
  else
    *picked = *whole;
}

// `whole` without the picked dim, or with size 1 there, in the shape of `indices`.
View lines_of(View whole, const View& indices, const PickAttrs& attrs) {
  const int dim = static_cast<int>(attrs.dim);
  if (whole.dim() == 0) return whole;
  if (attrs.keepdim)
    whole.sizes[dim] = 1;
  else {
    whole.sizes.erase(dim);
    whole.strides.erase(dim);
  }
  ensure(whole.sizes == indices.sizes, "pick: shapes differ");
  whole.update();
  return whole;
}

template <bool put>
void run(const KernelContext& context, const View& whole, const View& indices, const View& picked,
         const PickAttrs& attrs) {
  if (indices.numel == 0) return;
  const View lines = lines_of(whole, indices, attrs);
  const View* const views[] = {&indices, &picked, &lines};
  const auto bytes = static_cast<int64_t>(element_size(whole.dtype));
  PickParams params;
  params.step = whole.dim() == 0 ? 0 : whole.strides[static_cast<int>(attrs.dim)] * bytes;
  each_part(make_walk(views), [&](const HostWalk& part, bool) {
    fill_walk(params.walk, part);
    params.indices = part.data[0];
    params.picked = part.data[1];
    params.whole = part.data[2];
    params.count = static_cast<unsigned>(part.count());
    const Launch launch{context.op, context.device.index};
    const dim3 blocks((params.count + kThreads - 1) / kThreads);
    visit_element_size(whole.dtype, [&]<class T>() {
      launch(pick_elements<T, put>, blocks, dim3(kThreads), params);
    });
  });
}

void pick_kernel(const KernelContext& context, const PickAttrs& attrs) {
  run<false>(context, context.input(0), context.input(1), context.output(), attrs);
}

void put_picked_kernel(const KernelContext& context, const PickAttrs& attrs) {
  fill_elements(context.op, context.output(), 0);
  run<true>(context, context.output(), context.input(1), context.input(0), attrs);
}

}  // namespace

void register_pick_cuda() {
  pick_op.set_kernel(DeviceType::cuda, pick_kernel);
  put_picked_op.set_kernel(DeviceType::cuda, put_picked_kernel);
}

}  // namespace tensora::cuda
