#include "tensora/backend/cuda/loops/reduce_count.cuh"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/reduce/sum.h"

namespace tensora::cuda {
namespace {

// Floats are summed in float: every thread adds a short run, and the runs are added pairwise.
template <class C>
struct Sum {
  using Value = C;
  using Acc = C;
  static constexpr bool kIndexed = false;
  static constexpr int kOutputs = 1;
  __device__ Acc init() const { return 0; }
  __device__ Acc step(Acc acc, C x, unsigned) const { return acc + x; }
  __device__ Acc combine(Acc a, Acc b) const { return a + b; }
  __device__ C first(Acc acc) const { return acc; }
};

template <class C>
struct Mean : Sum<C> {
  C count;
  explicit Mean(double number) : count(static_cast<C>(number)) {}
  __device__ C first(C acc) const { return acc / count; }
};

template <class C>
struct NanSum : Sum<C> {
  __device__ C step(C acc, C x, unsigned) const { return x == x ? acc + x : acc; }
};

void sum_along(const KernelContext& context, uint32_t mask) {
  if (is_complex(context.output().dtype))
    return run_on_parts(context, [&](const KernelContext& parts) { sum_along(parts, mask); });
  visit_compute(context.output().dtype, [&]<class C>() { reduce(context, mask, Sum<C>{}); });
}

void sum_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const uint32_t mask = reduced_mask(attrs.dim, context.input(0).dim(), context.op);
  sum_along(context, mask);
}

void mean_along(const KernelContext& context, uint32_t mask, double count) {
  if (is_complex(context.output().dtype))
    return run_on_parts(context,
                        [&](const KernelContext& parts) { mean_along(parts, mask, count); });
  visit_compute_floating(context.output().dtype,
                         [&]<class C>() { reduce(context, mask, Mean<C>(count)); });
}

void mean_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const View& in = context.input(0);
  const uint32_t mask = reduced_mask(attrs.dim, in.dim(), context.op);
  const auto count = static_cast<double>(reduced_count(in.sizes, mask));
  mean_along(context, mask, count);
}

void nansum_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const uint32_t mask = reduced_mask(attrs.dim, context.input(0).dim(), context.op);
  visit_compute(context.output().dtype, [&]<class C>() { reduce(context, mask, NanSum<C>{}); });
}

void count_nonzero_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const View& in = context.input(0);
  const uint32_t mask = reduced_mask(attrs.dim, in.dim(), context.op);
  visit_compute(in.dtype, [&]<class C>() { reduce(context, mask, CountNonzero<C>{}); });
}

void sum_to_kernel(const KernelContext& context, const SumToAttrs& attrs) {
  uint32_t mask = 0;
  for (int64_t d : broadcast_dims(attrs.size, context.input(0).sizes)) mask |= 1u << d;
  sum_along(context, mask);
}

}  // namespace

void register_sum_cuda() {
  sum_op.set_kernel(DeviceType::cuda, sum_kernel);
  mean_op.set_kernel(DeviceType::cuda, mean_kernel);
  nansum_op.set_kernel(DeviceType::cuda, nansum_kernel);
  count_nonzero_op.set_kernel(DeviceType::cuda, count_nonzero_kernel);
  sum_to_op.set_kernel(DeviceType::cuda, sum_to_kernel);
}

}  // namespace tensora::cuda
