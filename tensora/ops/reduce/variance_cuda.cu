#include <algorithm>

#include "tensora/backend/cuda/loops/reduce.cuh"
#include "tensora/backend/cuda/loops/rows.cuh"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/reduce/variance.h"
#include "tensora/ops/reduce/variance_functors.h"

namespace tensora::cuda {
namespace {

using namespace reductions;

/// The variance with elements taken in runs that are looked at twice, in registers: their mean
/// first, then their distances from it. No digits are lost, however far they lie from the elements
/// before, and one division serves a run. See Note [Variance in one pass] and Note [Runs].
template <class C>
struct VarianceOfRuns : Variance<C> {
  struct Lane {
    int count;
    C first, mean, distance;  // mean: from the first
  };

  __device__ Lane lane() const { return {0, 0, 0, 0}; }
  template <int N, int W>
  __device__ void take(Lane (&lanes)[W], const C (&x)[N][W]) const {
    const C before = static_cast<C>(lanes[0].count), share = C(N) / (before + C(N));
#pragma unroll
    for (int w = 0; w < W; ++w) {
      Lane& lane = lanes[w];
      if (lane.count == 0) lane.first = x[0][w];
      C sums[4] = {}, squares[4] = {};  // that do not wait for one another
#pragma unroll
      for (int n = 0; n < N; ++n) sums[n % 4] += x[n][w] - lane.first;
      const C offset = ((sums[0] + sums[1]) + (sums[2] + sums[3])) / C(N);
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const C y = (x[n][w] - lane.first) - offset;
        squares[n % 4] += y * y;
      }
      const C delta = offset - lane.mean;
      lane.mean += delta * share;
      lane.distance +=
          (squares[0] + squares[1]) + (squares[2] + squares[3]) + delta * delta * (before * share);
      lane.count += N;
    }
  }
  __device__ Lane step(Lane lane, C x) const {
    Lane lanes[1] = {lane};
    const C elements[1][1] = {{x}};
    take(lanes, elements);
    return lanes[0];
  }
  /// Of one lane: a run is taken at once.
  __device__ Moments widen(Lane lane) const {
    return {static_cast<double>(lane.count), static_cast<double>(lane.first) + lane.mean,
            static_cast<double>(lane.distance)};
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
    const Variance<C> functor{{}, divisor, root};
    if (rows)
      run_rows(context, *rows, functor);
    else
      reduce(context, mask, VarianceOfRuns<C>{functor});
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
