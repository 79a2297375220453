#include "tensora/ops/reduce/p_norm.h"

#include <cmath>

#include "tensora/backend/cpu/reduce_functors.h"
#include "tensora/base/math.h"
#include "tensora/ops/reduce/reduce_common.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

template <class C>
struct Norm0 : Sum<C> {
  C step(C lane, C x) const { return lane + (x == 0 ? C(0) : C(1)); }
};

template <class C>
struct Norm1 : Sum<C> {
  C step(C lane, C x) const { return lane + math::abs(x); }
};

template <class C>
struct Norm2 : Sum<C> {
  C step(C lane, C x) const { return lane + x * x; }
  double finish(double acc) const { return std::sqrt(acc); }
};

template <class C>
struct NormP : Sum<C> {
  C p;
  double inverse;
  explicit NormP(double power) : p(static_cast<C>(power)), inverse(1 / power) {}
  C step(C lane, C x) const { return lane + math::pow(math::abs(x), p); }
  void finish_all(double* sums, int64_t n) const {
    map_in_full_vectors(sums, n, [this](double sum) { return math::pow(sum, inverse); });
  }
};

template <class C, bool largest>
struct NormInf : Extremum<C, largest> {
  using Base = Extremum<C, largest>;
  C lane() const { return largest ? C(0) : Base::lane(); }
  C step(C lane, C x) const { return Base::step(lane, math::abs(x)); }
};

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
