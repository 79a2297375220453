#include "tensora/ops/reduce/p_norm.h"

#include <cmath>

#include "tensora/backend/cuda/loops/extremum.cuh"
#include "tensora/backend/cuda/loops/reduce.cuh"
#include "tensora/ops/reduce/reduce_common.h"

namespace tensora::cuda {
namespace {

// One functor for all p: the branch is the same for every thread, and memory is what takes time.
template <class C>
struct Norm {
  enum class Kind { count, sum, squares, powers, largest, smallest };
  using Value = C;
  using Acc = C;
  static constexpr bool kIndexed = false;
  static constexpr int kOutputs = 1;
  Kind kind;
  C p;

  __device__ Acc init() const { return kind == Kind::smallest ? worst<false, C>() : C(0); }
  __device__ Acc step(Acc acc, C x, unsigned) const {
    const C magnitude = fabs(x);
    switch (kind) {
      case Kind::count:
        return acc + C(x != C(0));
      case Kind::sum:
        return acc + magnitude;
      case Kind::squares:
        return acc + x * x;
      case Kind::powers:
        return acc + pow(magnitude, p);
      default:
        return combine(acc, magnitude);
    }
  }
  __device__ Acc combine(Acc a, Acc b) const {
    if (kind == Kind::largest) return replaces<true>(b, a) ? b : a;
    if (kind == Kind::smallest) return replaces<false>(b, a) ? b : a;
    return a + b;
  }
  __device__ C first(Acc acc) const {
    if (kind == Kind::squares) return sqrt(acc);
    return kind == Kind::powers ? pow(acc, C(1) / p) : acc;
  }

  static Kind kind_of(double p) {
    if (p == 0) return Kind::count;
    if (p == 1) return Kind::sum;
    if (p == 2) return Kind::squares;
    if (!std::isinf(p)) return Kind::powers;
    return p > 0 ? Kind::largest : Kind::smallest;
  }
};

void norm_kernel(const KernelContext& context, const NormAttrs& attrs) {
  const uint32_t mask = reduced_mask(attrs.dim, context.input(0).dim(), context.op);
  visit_compute_floating(context.output().dtype, [&]<class C>() {
    reduce(context, mask, Norm<C>{Norm<C>::kind_of(attrs.p), static_cast<C>(attrs.p)});
  });
}

}  // namespace

void register_p_norm_cuda() { norm_op.set_kernel(DeviceType::cuda, norm_kernel); }

}  // namespace tensora::cuda
