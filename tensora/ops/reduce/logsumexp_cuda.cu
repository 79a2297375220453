#include "tensora/ops/reduce/logsumexp.h"

#include "tensora/backend/cuda/loops/reduce.cuh"
#include "tensora/backend/cuda/loops/rows.cuh"
#include "tensora/ops/reduce/logsumexp_functors.h"
#include "tensora/ops/reduce/reduce_common.h"

namespace tensora::cuda {
namespace {

using namespace reductions;

void logsumexp_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const uint32_t mask = reduced_mask(attrs.dim, context.input(0).dim(), context.op);
  const std::optional<RowsParams> rows = rows_of(context, mask);
  visit_compute_floating(context.output().dtype, [&]<class C>() {
    if (rows)
      run_rows(context, *rows, LogSumExp<C>{});
    else
      reduce(context, mask, LogSumExp<C>{});
  });
}

}  // namespace

void register_logsumexp_cuda() { logsumexp_op.set_kernel(DeviceType::cuda, logsumexp_kernel); }

}  // namespace tensora::cuda
