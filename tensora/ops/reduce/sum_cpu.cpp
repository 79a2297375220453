#include "tensora/ops/reduce/sum.h"

#include "tensora/backend/cpu/reduce.h"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/reduce/sum_functors.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

using namespace reductions;

void sum_along(const KernelContext& context, uint32_t mask) {
  if (is_complex(context.output().dtype))
    return run_on_parts(context, [&](const KernelContext& parts) { sum_along(parts, mask); });
  visit_compute(context.output().dtype, [&]<class C>() { reduce(context, mask, Sum<C>{}); });
}

void sum_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const View& in = context.input(0);
  const uint32_t mask = reduced_mask(attrs.dim, in.dim(), context.op);
  // A mask is counted byte by byte, several times faster than as int64.
  if (in.dtype == kBool) return reduce(context, mask, CountNonzero<uint8_t>{});
  sum_along(context, mask);
}

void mean_along(const KernelContext& context, uint32_t mask, double count) {
  if (is_complex(context.output().dtype))
    return run_on_parts(context,
                        [&](const KernelContext& parts) { mean_along(parts, mask, count); });
  visit_compute_floating(context.output().dtype, [&]<class C>() {
    reduce(context, mask, Mean<C>{{}, count});
  });
}

void mean_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const View& in = context.input(0);
  const uint32_t mask = reduced_mask(attrs.dim, in.dim(), context.op);
  const double count = static_cast<double>(reduced_count(in.sizes, mask));
  mean_along(context, mask, count);
}

void nansum_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const uint32_t mask = reduced_mask(attrs.dim, context.input(0).dim(), context.op);
  visit_compute(context.output().dtype, [&]<class C>() { reduce(context, mask, NanSum<C>{}); });
}

void count_nonzero_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const View& in = context.input(0);
  const uint32_t mask = reduced_mask(attrs.dim, in.dim(), context.op);
  if (element_size(in.dtype) == 1) return reduce(context, mask, CountNonzero<uint8_t>{});
  visit_compute(in.dtype, [&]<class C>() { reduce(context, mask, CountNonzero<C>{}); });
}

void sum_to_kernel(const KernelContext& context, const SumToAttrs& attrs) {
  const View& in = context.input(0);
  uint32_t mask = 0;
  for (int64_t d : broadcast_dims(attrs.size, in.sizes)) mask |= 1u << d;
  sum_along(context, mask);
}

}  // namespace

void register_sum_cpu() {
  sum_op.set_kernel(DeviceType::cpu, sum_kernel);
  mean_op.set_kernel(DeviceType::cpu, mean_kernel);
  nansum_op.set_kernel(DeviceType::cpu, nansum_kernel);
  count_nonzero_op.set_kernel(DeviceType::cpu, count_nonzero_kernel);
  sum_to_op.set_kernel(DeviceType::cpu, sum_to_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
