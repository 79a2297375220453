#include "tensora/ops/reduce/any_all.h"

#include "tensora/backend/cpu/reduce.h"
#include "tensora/ops/reduce/reduce_common.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

template <class C, bool every>
struct Truth {
  using Value = C;
  using Lane = std::conditional_t<sizeof(C) == 1, uint8_t,
                                  std::conditional_t<sizeof(C) == 4, int32_t, int64_t>>;
  using Acc = Lane;
  using Out = int64_t;
  Lane lane() const { return every; }
  Lane step(Lane lane, C x) const { return merge(lane, x != 0); }
  Lane merge(Lane a, Lane b) const { return static_cast<Lane>(every ? a & b : a | b); }
  Acc widen(Lane lane) const { return lane; }
  Acc combine(Acc a, Acc b) const { return merge(a, b); }
  Out finish(Acc acc) const { return acc; }
};

template <bool every>
void truth_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const View& in = context.input(0);
  const uint32_t mask = reduced_mask(attrs.dim, in.dim(), context.op);
  if (element_size(in.dtype) == 1) return reduce(context, mask, Truth<uint8_t, every>{});
  visit_compute(in.dtype, [&]<class C>() { reduce(context, mask, Truth<C, every>{}); });
}

}  // namespace

void register_any_all_cpu() {
  any_op.set_kernel(DeviceType::cpu, truth_kernel<false>);
  all_op.set_kernel(DeviceType::cpu, truth_kernel<true>);
}

}  // namespace tensora::cpu::TENSORA_ISA
