#include <algorithm>
#include <numeric>

#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/shape/as_strided.h"

namespace tensora::cuda {
namespace {

// The geometry of a view, dims in order of descending stride.
struct Geometry {
  int64_t sizes[kMaxDims], strides[kMaxDims], grad_strides[kMaxDims];
  int64_t reach[kMaxDims + 1];  // the largest offset that the dims from d on can add
  int dims;
};

// One thread per element of the input finds every index of the view that had read it: dim by dim,
// only indices whose remaining dims can still bridge the remaining distance are tried. Each sum has
// one fixed order, so the result is deterministic.
template <class T>
__global__ void gather_overlaps(const T* grad, T* out, int64_t count, int64_t offset,
                                const __grid_constant__ Geometry view) {
  const int64_t target = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (target >= count) return;
  accumulate_t<T> sum(0);
  int64_t index[kMaxDims], last[kMaxDims], distance[kMaxDims + 1], from[kMaxDims + 1];
  distance[0] = target - offset;
  from[0] = 0;
  const auto enter = [&](int d) {
    const int64_t stride = view.strides[d], left = distance[d], beyond = left - view.reach[d + 1];
    index[d] = stride == 0 || beyond <= 0 ? 0 : (beyond + stride - 1) / stride;
    last[d] = left < 0      ? -1
              : stride == 0 ? view.sizes[d] - 1
                            : min(view.sizes[d] - 1, left / stride);
  };
  int d = 0;
  enter(0);
  while (d >= 0) {
    if (index[d] > last[d]) {
      if (--d >= 0) ++index[d];
      continue;
    }
    distance[d + 1] = distance[d] - index[d] * view.strides[d];
    from[d + 1] = from[d] + index[d] * view.grad_strides[d];
    if (d + 1 < view.dims) {
      enter(++d);
      continue;
    }
    if (distance[d + 1] == 0) sum += static_cast<accumulate_t<T>>(grad[from[d + 1]]);
    ++index[d];
  }
  out[target] = T(sum);
}

Geometry geometry_of(const View& grad, const AsStridedBackwardAttrs& attrs) {
  Geometry view{};
  view.dims = grad.dim();
  int order[kMaxDims];
  std::iota(order, order + view.dims, 0);
  std::stable_sort(order, order + view.dims,
                   [&](int a, int b) { return attrs.strides[a] > attrs.strides[b]; });
  for (int d = view.dims - 1; d >= 0; --d) {
    view.sizes[d] = attrs.sizes[order[d]];
    view.strides[d] = attrs.strides[order[d]];
    view.grad_strides[d] = grad.strides[order[d]];
    view.reach[d] = view.reach[d + 1] + (view.sizes[d] - 1) * view.strides[d];
  }
  return view;
}

View strided_part(View view, const AsStridedBackwardAttrs& attrs) {
  view.data = view.as<char>() + attrs.offset * static_cast<int64_t>(element_size(view.dtype));
  view.sizes = attrs.sizes;
  view.strides = attrs.strides;
  view.update();
  return view;
}

void as_strided_backward_kernel(const KernelContext& context, const AsStridedBackwardAttrs& attrs) {
  const View &grad = context.input(0), &out = context.output();
  if (out.numel == 0) return;
  if (grad.numel == 0 || !may_overlap_itself(attrs.sizes, attrs.strides)) {
    fill_elements(context.op, out, 0);
    copy_elements(context.op, grad, strided_part(out, attrs));
    return;
  }
  const Geometry view = geometry_of(grad, attrs);
  visit_computing(out.dtype, [&]<class T>() {
    const dim3 blocks(static_cast<unsigned>((out.numel + 255) / 256));
    Launch{context.op, context.device.index}(gather_overlaps<T>, blocks, dim3(256),
                                             grad.as<const T>(), out.as<T>(), out.numel,
                                             attrs.offset, view);
  });
}

}  // namespace

void register_as_strided_cuda() {
  as_strided_backward_op.set_kernel(DeviceType::cuda, as_strided_backward_kernel);
}

}  // namespace tensora::cuda
