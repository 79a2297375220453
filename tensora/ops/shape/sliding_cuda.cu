#include "tensora/ops/shape/sliding.h"

#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/loops/launch_walk.cuh"
#include "tensora/backend/cuda/loops/parts.h"
#include "tensora/backend/cuda/runtime/runtime.h"

namespace tensora::cuda {
namespace {

struct SlidingParams {
  Walk<3> walk;  // out, grad (window 0, element 0), position along the dim
  char *out, *grad;
  int64_t position;                     // of the part's beginning
  int64_t windows, size, step;          // as in the attributes
  int64_t window_bytes, element_bytes;  // strides in the gradient
  unsigned count;
};

// A thread adds up, in order, what all windows hold of its element.
template <class T>
__global__ void __launch_bounds__(kThreads)
    add_windows(const __grid_constant__ SlidingParams params) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= params.count) return;
  int at[3];
  params.walk.offsets(i, at);
  const int64_t p = params.position + at[2];
  const int64_t first = p < params.size ? 0 : (p - params.size) / params.step + 1;
  const int64_t last = min(params.windows - 1, p / params.step);
  accumulate_t<T> sum(0);
  for (int64_t w = first; w <= last; ++w)
    sum += static_cast<accumulate_t<T>>(
        *reinterpret_cast<const T*>(params.grad + at[1] + w * params.window_bytes +
                                    (p - w * params.step) * params.element_bytes));
  *reinterpret_cast<T*>(params.out + at[0]) = T(sum);
}

void sliding_backward_kernel(const KernelContext& context, const SlidingBackwardAttrs& attrs) {
  const View &grad = context.input(0) /* outer.. windows inner.. size */, &out = context.output();
  if (out.numel == 0) return;
  if (grad.numel == 0) return fill_elements(context.op, out, 0);
  const auto bytes = static_cast<int64_t>(element_size(out.dtype));
  View lines = grad;
  lines.sizes = out.sizes;
  lines.strides.resize(out.dim());
  lines.update();
  if (out.dim() == 0) return copy_elements(context.op, lines, out);  // one window of one element
  const int dim = wrap_dim(attrs.dimension, out.dim(), context.op);
  lines.strides[dim] = 0;
  lines.update();
  const View positions = positions_along(out, dim);
  SlidingParams params{};
  params.windows = grad.sizes[dim];
  params.size = attrs.size;
  params.step = attrs.step;
  params.window_bytes = grad.strides[dim] * bytes;
  params.element_bytes = grad.strides.back() * bytes;
  const View* const views[] = {&out, &lines, &positions};
  each_part(make_walk(views), [&](const HostWalk& part, bool) {
    fill_walk(params.walk, part);
    params.out = part.data[0];
    params.grad = part.data[1];
    params.position = part.data[2] - positions.as<char>();
    params.count = static_cast<unsigned>(part.count());
    visit_floating(out.dtype, context.op, [&]<class T>() {
      Launch{context.op, context.device.index}(
          add_windows<T>, dim3((params.count + kThreads - 1) / kThreads), dim3(kThreads), params);
    });
  });
}

}  // namespace

void register_sliding_cuda() {
  sliding_backward_op.set_kernel(DeviceType::cuda, sliding_backward_kernel);
}

}  // namespace tensora::cuda
