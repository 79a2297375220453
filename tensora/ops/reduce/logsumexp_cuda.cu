#include "tensora/ops/reduce/logsumexp.h"

#include "tensora/backend/cuda/loops/extremum.cuh"
#include "tensora/backend/cuda/loops/reduce.cuh"
#include "tensora/backend/cuda/loops/rows.cuh"
#include "tensora/ops/reduce/reduce_common.h"

namespace tensora::cuda {
namespace {

// The maximum so far, and the sum of the exponentials relative to it; memory is read once.
template <class C>
struct LogSumExp {
  using Value = C;
  struct Acc {
    C maximum, sum;
  };
  static constexpr bool kIndexed = false;
  static constexpr int kOutputs = 1;

  // What is subtracted before exp: the maximum, but an infinite one would make NaN of itself.
  __device__ static C shift_for(C maximum) { return isinf(maximum) ? C(0) : maximum; }
  __device__ static C power(C x) { return math::exp(x); }
  // Nothing stays nothing, however far the shift moves.
  __device__ static C rescaled(Acc acc, C shift) {
    return acc.sum == 0 ? C(0) : acc.sum * power(shift_for(acc.maximum) - shift);
  }

  __device__ Acc init() const { return {worst<true, C>(), 0}; }
  __device__ Acc step(Acc acc, C x, unsigned) const {
    if (!replaces<true>(x, acc.maximum)) {
      acc.sum += power(x - shift_for(acc.maximum));
      return acc;
    }
    const C shift = shift_for(x);
    return {x, rescaled(acc, shift) + power(x - shift)};
  }
  __device__ Acc combine(Acc a, Acc b) const {
    const C maximum = replaces<true>(b.maximum, a.maximum) ? b.maximum : a.maximum;
    const C shift = shift_for(maximum);
    return {maximum, rescaled(a, shift) + rescaled(b, shift)};
  }
  __device__ C first(Acc acc) const { return math::log(acc.sum) + shift_for(acc.maximum); }
};

// The same of a row on the chip: the maximum is known before the first exponential.
template <class C>
struct LogSumExpOfRow {
  using Value = C;
  template <class Row>
  __device__ RowResults<C> operator()(const Row& row) const {
    const auto larger = [](C a, C b) { return replaces<true>(b, a) ? b : a; };
    const C shift = LogSumExp<C>::shift_for(row.fold(worst<true, C>(), larger, larger));
    return {math::log(row.sum([&](C x) { return math::exp(x - shift); })) + shift};
  }
};

void logsumexp_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const uint32_t mask = reduced_mask(attrs.dim, context.input(0).dim(), context.op);
  const std::optional<RowsParams> rows = rows_of(context, mask);
  visit_compute_floating(context.output().dtype, [&]<class C>() {
    if (rows)
      run_rows(context, *rows, LogSumExpOfRow<C>{});
    else
      reduce(context, mask, LogSumExp<C>{});
  });
}

}  // namespace

void register_logsumexp_cuda() { logsumexp_op.set_kernel(DeviceType::cuda, logsumexp_kernel); }

}  // namespace tensora::cuda
