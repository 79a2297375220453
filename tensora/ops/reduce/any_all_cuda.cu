#include "tensora/backend/cuda/loops/reduce.cuh"
#include "tensora/ops/reduce/any_all.h"
#include "tensora/ops/reduce/reduce_common.h"

namespace tensora::cuda {
namespace {

template <class C, bool every>
struct Truth {
  using Value = C;
  using Acc = int;
  static constexpr bool kIndexed = false;
  static constexpr int kOutputs = 1;
  __device__ Acc init() const { return every; }
  __device__ Acc step(Acc acc, C x, unsigned) const { return combine(acc, x != C(0)); }
  __device__ Acc combine(Acc a, Acc b) const { return every ? a & b : a | b; }
  __device__ int first(Acc acc) const { return acc; }
};

template <bool every>
void truth_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const View& in = context.input(0);
  const uint32_t mask = reduced_mask(attrs.dim, in.dim(), context.op);
  visit_compute(in.dtype, [&]<class C>() { reduce(context, mask, Truth<C, every>{}); });
}

}  // namespace

void register_any_all_cuda() {
  any_op.set_kernel(DeviceType::cuda, truth_kernel<false>);
  all_op.set_kernel(DeviceType::cuda, truth_kernel<true>);
}

}  // namespace tensora::cuda
