// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/reduce/p_norm.h"

#include <cmath>

#include "tensora/backend/cpu/reduce.h"
#include "tensora/ops/reduce/extremum_functors.h"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/reduce/sum_functors.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

using namespace reductions;

void norm_kernel(const KernelContext& context, const NormAttrs& attrs) {
  const uint32_t mask = reduced_mask(attrs.dim, context.input(0).dim(), context.op);
  visit_compute_floating(context.output().dtype, [&]<class C>() {
    if (attrs.p == 2)
      reduce(context, mask, Norm2<C>{});
    else if (attrs.p == 1)
      reduce(context, mask, Norm1<C>{});
    else if (attrs.p == 0)
      reduce(context, mask, Norm0<C>{});
    else if (!std::isinf(attrs.p))
      reduce(context, mask, NormP<C>(attrs.p));
    else if (attrs.p > 0)
      reduce(context, mask, NormInf<C, true>{});
    else
      reduce(context, mask, NormInf<C, false>{});
  });
}

}  // namespace

void register_p_norm_cpu() { norm_op.set_kernel(DeviceType::cpu, norm_kernel); }

}  // namespace tensora::cpu::TENSORA_ISA
