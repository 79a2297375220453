#include <algorithm>

#include "tensora/backend/cuda/reduce.cuh"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/reduce/variance.h"

namespace tensora::cuda {
namespace {

// Welford's running mean and squared distance; runs are combined by the pairwise formula of Chan,
// Golub and LeVeque. Memory is read once. The mean is kept as a distance from the first element, so
// that it has all its digits where the elements lie far from zero, and the variance of equal
// elements is exactly 0.
template <class C>
struct Variance {
  using Value = C;
  struct Acc {
    C count, first, mean, distance;  // mean: from the first; distance: sum of squares
  };
  static constexpr bool kIndexed = false;
  static constexpr int kOutputs = 2;
  double divisor;  // n - correction
  bool root;

  __device__ Acc init() const { return {0, 0, 0, 0}; }
  __device__ Acc step(Acc acc, C x, unsigned) const {
    const C first = acc.count == 0 ? x : acc.first, y = x - first;
    const C count = acc.count + 1, delta = y - acc.mean, mean = acc.mean + delta / count;
    return {count, first, mean, acc.distance + delta * (y - mean)};
  }
  __device__ Acc combine(Acc a, Acc b) const {
    if (b.count == 0) return a;
    if (a.count == 0) return b;
    const C total = a.count + b.count, share = b.count / total;
    const C delta = (b.first - a.first) + (b.mean - a.mean);
    return {total, a.first, a.mean + delta * share,
            a.distance + b.distance + delta * delta * a.count * share};
  }
  __device__ double first(Acc acc) const {
    const double variance = static_cast<double>(acc.distance) / divisor;
    return root ? sqrt(variance) : variance;
  }
  __device__ double second(Acc acc) const {
    if (acc.count == 0) return static_cast<double>(NAN);
    return static_cast<double>(acc.first) + static_cast<double>(acc.mean);
  }
};

template <bool root>
void variance_kernel(const KernelContext& context, const VarianceAttrs& attrs) {
  const View& in = context.input(0);
  const uint32_t mask = reduced_mask(attrs.dim, in.dim(), context.op);
  const auto count = static_cast<double>(reduced_count(in.sizes, mask));
  visit_compute_floating(in.dtype, [&]<class C>() {
    reduce(context, mask, Variance<C>{std::max(0.0, count - attrs.correction), root});
  });
}

}  // namespace

void register_variance_cuda() {
  var_op.set_kernel(DeviceType::cuda, variance_kernel<false>);
  var_mean_op.set_kernel(DeviceType::cuda, variance_kernel<false>);
  std_op.set_kernel(DeviceType::cuda, variance_kernel<true>);
  std_mean_op.set_kernel(DeviceType::cuda, variance_kernel<true>);
}

}  // namespace tensora::cuda
