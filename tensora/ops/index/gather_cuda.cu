#include "tensora/ops/index/gather.h"

#include "tensora/backend/cuda/copy.h"
#include "tensora/backend/cuda/indexing.cuh"
#include "tensora/backend/cuda/launch_walk.cuh"
#include "tensora/backend/cuda/runtime.h"

// All four ops pair `plain[i]` with `data[i, its dim-th entry replaced by index[i]]` for every i in
// the index's shape.

namespace tensora::cuda {
namespace {

struct GatherParams {
  Walk<3> walk;  // plain, index, data (at position 0 of `dim`)
  char *plain, *index, *data;
  long long step;  // bytes between neighbours of the data along `dim`
  IndexLimits limits;
  DType index_dtype;
  unsigned count;
  // Sums only: the size of `dim` in the index, and the steps along it, in bytes.
  unsigned along;
  long long plain_step, index_step;
};

enum class Action { read, write };

template <class T, Action kAction>
__global__ void __launch_bounds__(kThreads)
    move_elements(const __grid_constant__ GatherParams params) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= params.count) return;
  int at[3];
  params.walk.offsets(i, at);
  const long long position = checked_index(params.index, at[1], params.index_dtype, params.limits);
  if (position < 0) return;
  T* const plain = reinterpret_cast<T*>(params.plain + at[0]);
  T* const data = reinterpret_cast<T*>(params.data + at[2] + position * params.step);
  if constexpr (kAction == Action::read)
    *plain = *data;
  else
    *data = *plain;
}

// Sums: a thread goes along `dim` in order, so that colliding places have one result.
template <class T>
__global__ void __launch_bounds__(kThreads) add_lines(const __grid_constant__ GatherParams params) {
  using Acc = accumulate_t<T>;
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= params.count) return;
  int at[3];
  params.walk.offsets(i, at);
  for (unsigned k = 0; k < params.along; ++k) {
    const long long position = checked_index(params.index + k * params.index_step, at[1],
                                             params.index_dtype, params.limits);
    if (position < 0) continue;
    const T plain = *reinterpret_cast<const T*>(params.plain + at[0] + k * params.plain_step);
    T* const data = reinterpret_cast<T*>(params.data + at[2] + position * params.step);
    *data = T(static_cast<Acc>(*data) + static_cast<Acc>(plain));
  }
}

View widened(View view) {
  if (view.dim() > 0) return view;
  view.sizes = {1};
  view.strides = {1};
  return view;
}

// Calls launch(params) for each part of the work. `lines` leaves `dim` to the kernel.
template <class Body>
void each_launch(const KernelContext& context, const View& plain0, const View& index0,
                 const View& data0, int64_t wanted, bool lines, Body&& launch) {
  if (index0.numel == 0) return;
  View plain = widened(plain0), index = widened(index0), data = widened(data0);
  const int dim = wrap_dim(wanted, index.dim(), context.op);
  const auto bytes = static_cast<int64_t>(element_size(data.dtype));
  GatherParams params{};
  params.step = data.strides[dim] * bytes;
  params.limits = {context.op.data(), device_fault(context.device.index), 0, data.sizes[dim], dim};
  params.index_dtype = index.dtype;
  params.along = static_cast<unsigned>(index.sizes[dim]);
  params.plain_step = plain.strides[dim] * bytes;
  params.index_step = index.strides[dim] * static_cast<int64_t>(element_size(index.dtype));
  if (lines) index.sizes[dim] = 1;
  data.strides[dim] = 0;
  for (View* view : {&plain, &data, &index}) {
    view->sizes = index.sizes;
    view->update();
  }
  const View* const views[] = {&plain, &index, &data};
  each_part(make_walk(views), [&](const HostWalk& part, bool) {
    fill_walk(params.walk, part);
    params.plain = part.data[0];
    params.index = part.data[1];
    params.data = part.data[2];
    params.count = static_cast<unsigned>(part.count());
    launch(params, dim3((params.count + kThreads - 1) / kThreads));
  });
}

template <Action kAction>
void move(const KernelContext& context, const View& plain, const View& index, const View& data,
          int64_t dim) {
  const Launch run{context.op, context.device.index};
  each_launch(context, plain, index, data, dim, false,
              [&](const GatherParams& params, dim3 blocks) {
                switch (element_size(data.dtype)) {
                  case 1:
                    return run(move_elements<uint8_t, kAction>, blocks, dim3(kThreads), params);
                  case 2:
                    return run(move_elements<uint16_t, kAction>, blocks, dim3(kThreads), params);
                  case 4:
                    return run(move_elements<uint32_t, kAction>, blocks, dim3(kThreads), params);
                  default:
                    return run(move_elements<uint64_t, kAction>, blocks, dim3(kThreads), params);
                }
              });
}

void add(const KernelContext& context, const View& plain, const View& index, const View& data,
         int64_t dim) {
  each_launch(context, plain, index, data, dim, true, [&](const GatherParams& params, dim3 blocks) {
    visit_dtype(data.dtype, [&]<class T>() {
      Launch{context.op, context.device.index}(add_lines<T>, blocks, dim3(kThreads), params);
    });
  });
}

void gather_kernel(const KernelContext& context, const GatherAttrs& attrs) {
  move<Action::read>(context, context.output(), context.input(1), context.input(0), attrs.dim);
}

void gather_backward_kernel(const KernelContext& context, const GatherBackwardAttrs& attrs) {
  fill_elements(context.op, context.output(), 0);
  add(context, context.input(0), context.input(1), context.output(), attrs.dim);
}

void scatter_kernel(const KernelContext& context, const GatherAttrs& attrs) {
  const View& out = context.output();
  if (context.input(0).data != out.data) copy_elements(context.op, context.input(0), out);
  move<Action::write>(context, context.input(2), context.input(1), out, attrs.dim);
}

void scatter_add_kernel(const KernelContext& context, const GatherAttrs& attrs) {
  const View& out = context.output();
  if (context.input(0).data != out.data) copy_elements(context.op, context.input(0), out);
  add(context, context.input(2), context.input(1), out, attrs.dim);
}

}  // namespace

void register_gather_cuda() {
  gather_op.set_kernel(DeviceType::cuda, gather_kernel);
  gather_backward_op.set_kernel(DeviceType::cuda, gather_backward_kernel);
  scatter_op.set_kernel(DeviceType::cuda, scatter_kernel);
  scatter_add_op.set_kernel(DeviceType::cuda, scatter_add_kernel);
}

}  // namespace tensora::cuda
