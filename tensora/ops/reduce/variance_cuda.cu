#include <algorithm>

#include "tensora/backend/cuda/loops/reduce.cuh"
#include "tensora/backend/cuda/loops/rows.cuh"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/reduce/variance.h"
#include "tensora/ops/reduce/variance_functors.h"

namespace tensora::cuda {
namespace {

using namespace reductions;

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
      run_rows(context, *rows, LooksAtRow<Variance<C>>{functor});
    else
      reduce(context, mask, functor);
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
