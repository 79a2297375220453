#include "tensora/backend/cuda/loops/reduce.cuh"
#include "tensora/ops/reduce/prod.h"
#include "tensora/ops/reduce/reduce_common.h"

namespace tensora::cuda {
namespace {

template <class C>
struct Product {
  using Value = C;
  using Acc = C;
  static constexpr bool kIndexed = false;
  static constexpr int kOutputs = 1;
  __device__ Acc init() const { return 1; }
  __device__ Acc step(Acc acc, C x, unsigned) const { return acc * x; }
  __device__ Acc combine(Acc a, Acc b) const { return a * b; }
  __device__ C first(Acc acc) const { return acc; }
};

void prod_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const uint32_t mask = reduced_mask(attrs.dim, context.input(0).dim(), context.op);
  visit_compute(context.output().dtype, [&]<class C>() { reduce(context, mask, Product<C>{}); });
}

}  // namespace

void register_prod_cuda() { prod_op.set_kernel(DeviceType::cuda, prod_kernel); }

}  // namespace tensora::cuda
