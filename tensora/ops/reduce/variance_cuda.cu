#include <algorithm>

#include "tensora/backend/cuda/loops/reduce.cuh"
#include "tensora/backend/cuda/loops/rows.cuh"
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

// The same of a row on the chip: first the mean, as a distance from one of the elements, then the
// squared distances from it, corrected for its rounding.
template <class C>
struct VarianceOfRow {
  using Value = C;
  double divisor;
  bool root;

  template <class Row>
  __device__ RowResults<C> operator()(const Row& row) const {
    const C count = static_cast<C>(row.length);
    const auto larger = [](C a, C b) { return b > a ? b : a; };
    const C any = row.fold(-static_cast<C>(INFINITY), larger, larger);
    const C center = any + row.sum([&](C x) { return x - any; }) / count;
    const C rest = row.sum([&](C x) { return x - center; });
    const C squares = row.sum([&](C x) { return (x - center) * (x - center); });
    const C distance = squares - rest * (rest / count);
    const double variance = static_cast<double>(distance < C(0) ? C(0) : distance) / divisor;
    return {static_cast<C>(root ? sqrt(variance) : variance), center + rest / count};
  }
};

template <bool root>
void variance_kernel(const KernelContext& context, const VarianceAttrs& attrs) {
  const View& in = context.input(0);
  const uint32_t mask = reduced_mask(attrs.dim, in.dim(), context.op);
  const auto count = static_cast<double>(reduced_count(in.sizes, mask));
  const double divisor = std::max(0.0, count - attrs.correction);
  const std::optional<RowsParams> rows = rows_of(context, mask);
  visit_compute_floating(in.dtype, [&]<class C>() {
    if (rows)
      run_rows(context, *rows, VarianceOfRow<C>{divisor, root});
    else
      reduce(context, mask, Variance<C>{divisor, root});
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
