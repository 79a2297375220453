#include "tensora/ops/reduce/p_norm.h"

#include <cmath>

#include "tensora/backend/cuda/loops/reduce.cuh"
#include "tensora/ops/reduce/extremum_functors.h"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/reduce/sum_functors.h"

namespace tensora::cuda {
namespace {

using namespace reductions;

// One functor for all p but 2, to compile one set of kernels; the branch is the same for every
// thread.
template <class C>
struct AnyNorm : Reduction {
  enum class Kind { count, sum, powers, largest, smallest };
  using Value = C;
  using Lane = C;
  using Acc = double;
  using Out = double;
  Kind kind;
  NormP<C> powers;

  explicit AnyNorm(double p) : kind(kind_of(p)), powers(p) {}

  // body(functor) with the norm's own functor.
  template <class Body>
  __device__ auto visit(Body&& body) const {
    switch (kind) {
      case Kind::count:
        return body(Norm0<C>{});
      case Kind::sum:
        return body(Norm1<C>{});
      case Kind::powers:
        return body(powers);
      case Kind::largest:
        return body(NormInf<C, true>{});
      default:
        return body(NormInf<C, false>{});
    }
  }
  __device__ Lane lane() const {
    return visit([](const auto& norm) { return norm.lane(); });
  }
  __device__ Lane step(Lane lane, C x) const {
    return visit([&](const auto& norm) { return norm.step(lane, x); });
  }
  __device__ Lane merge(Lane a, Lane b) const {
    return visit([&](const auto& norm) { return norm.merge(a, b); });
  }
  __device__ Acc widen(Lane lane) const { return lane; }
  __device__ Acc combine(Acc a, Acc b) const {
    return visit([&](const auto& norm) -> double {
      using N = typename std::remove_cvref_t<decltype(norm)>::Acc;
      return norm.combine(static_cast<N>(a), static_cast<N>(b));
    });
  }
  __device__ Out finish(Acc acc) const {
    return visit([&](const auto& norm) -> double {
      return norm.finish(static_cast<typename std::remove_cvref_t<decltype(norm)>::Acc>(acc));
    });
  }

  static Kind kind_of(double p) {
    if (p == 0) return Kind::count;
    if (p == 1) return Kind::sum;
    if (!std::isinf(p)) return Kind::powers;
    return p > 0 ? Kind::largest : Kind::smallest;
  }
};

void norm_kernel(const KernelContext& context, const NormAttrs& attrs) {
  const uint32_t mask = reduced_mask(attrs.dim, context.input(0).dim(), context.op);
  visit_compute_floating(context.output().dtype, [&]<class C>() {
    if (attrs.p == 2) return reduce(context, mask, Norm2<C>{});
    reduce(context, mask, AnyNorm<C>(attrs.p));
  });
}

}  // namespace

void register_p_norm_cuda() { norm_op.set_kernel(DeviceType::cuda, norm_kernel); }

}  // namespace tensora::cuda
