#include "tensora/backend/cuda/loops/extremum.cuh"
#include "tensora/backend/cuda/loops/reduce.cuh"
#include "tensora/ops/reduce/amax.h"
#include "tensora/ops/reduce/reduce_common.h"

namespace tensora::cuda {
namespace {

template <class C, bool largest>
struct Extremum {
  using Value = C;
  using Acc = C;
  static constexpr bool kIndexed = false;
  static constexpr int kOutputs = 1;
  __device__ Acc init() const { return worst<largest, C>(); }
  __device__ Acc step(Acc acc, C x, unsigned) const { return combine(acc, x); }
  __device__ Acc combine(Acc a, Acc b) const { return replaces<largest>(b, a) ? b : a; }
  __device__ C first(Acc acc) const { return acc; }
};

template <class C>
struct MinMax {
  using Value = C;
  struct Acc {
    C low, high;
  };
  static constexpr bool kIndexed = false;
  static constexpr int kOutputs = 2;
  __device__ Acc init() const { return {worst<false, C>(), worst<true, C>()}; }
  __device__ Acc step(Acc acc, C x, unsigned) const { return combine(acc, {x, x}); }
  __device__ Acc combine(Acc a, Acc b) const {
    return {replaces<false>(b.low, a.low) ? b.low : a.low,
            replaces<true>(b.high, a.high) ? b.high : a.high};
  }
  __device__ C first(Acc acc) const { return acc.low; }
  __device__ C second(Acc acc) const { return acc.high; }
};

template <bool largest>
void extremum_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const View& in = context.input(0);
  const uint32_t mask = reduced_mask(attrs.dim, in.dim(), context.op);
  visit_compute(in.dtype, [&]<class C>() { reduce(context, mask, Extremum<C, largest>{}); });
}

void aminmax_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const View& in = context.input(0);
  const uint32_t mask = reduced_mask(attrs.dim, in.dim(), context.op);
  visit_compute(in.dtype, [&]<class C>() { reduce(context, mask, MinMax<C>{}); });
}

}  // namespace

void register_amax_cuda() {
  amax_op.set_kernel(DeviceType::cuda, extremum_kernel<true>);
  amin_op.set_kernel(DeviceType::cuda, extremum_kernel<false>);
  max_op.set_kernel(DeviceType::cuda, extremum_kernel<true>);
  min_op.set_kernel(DeviceType::cuda, extremum_kernel<false>);
  aminmax_op.set_kernel(DeviceType::cuda, aminmax_kernel);
}

}  // namespace tensora::cuda
