#include "tensora/ops/creation/one_hot.h"

#include "tensora/backend/cuda/loops/indexing.cuh"
#include "tensora/backend/cuda/loops/launch_walk.cuh"
#include "tensora/backend/cuda/loops/parts.h"
#include "tensora/backend/cuda/runtime/runtime.h"

namespace tensora::cuda {
namespace {

struct OneHotParams {
  Walk<3> walk;  // out, classes, position in the row
  char *out, *classes;
  int64_t position;  // of the part's beginning
  IndexLimits limits;
  unsigned count;
};

__global__ void __launch_bounds__(kThreads)
    compare_classes(const __grid_constant__ OneHotParams params) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= params.count) return;
  int at[3];
  params.walk.offsets(i, at);
  const long long wanted = checked_index(params.classes, at[1], DType::int64, params.limits);
  *reinterpret_cast<int64_t*>(params.out + at[0]) = wanted == params.position + at[2];
}

void one_hot_kernel(const KernelContext& context, const OneHotAttrs& attrs) {
  const View& out = context.output() /* .. num_classes */;
  if (out.numel == 0) return;
  const int last = out.dim() - 1;
  View classes = context.input(0);
  classes.sizes.push_back(attrs.num_classes);
  classes.strides.push_back(0);
  classes.update();
  const View positions = positions_along(out, last);
  const View* const views[] = {&out, &classes, &positions};
  OneHotParams params{};
  params.limits = {context.op.data(), device_fault(context.device.index), 0, attrs.num_classes,
                   last};
  each_part(make_walk(views), [&](const HostWalk& part, bool) {
    fill_walk(params.walk, part);
    params.out = part.data[0];
    params.classes = part.data[1];
    params.position = part.data[2] - positions.as<char>();
    params.count = static_cast<unsigned>(part.count());
    Launch{context.op, context.device.index}(
        compare_classes, dim3((params.count + kThreads - 1) / kThreads), dim3(kThreads), params);
  });
}

}  // namespace

void register_one_hot_cuda() { one_hot_op.set_kernel(DeviceType::cuda, one_hot_kernel); }

}  // namespace tensora::cuda
