#include "tensora/ops/scan/cumulative.h"

#include "tensora/backend/cuda/loops/scan_lines.cuh"

namespace tensora::cuda {
namespace {

template <class C>
struct RunningSum {
  using Value = C;
  using Acc = C;
  static constexpr int kInputs = 1;
  __device__ Acc init() const { return 0; }
  __device__ Acc combine(Acc a, Acc b) const { return a + b; }
  __device__ Acc from(const C (&in)[1]) const { return in[0]; }
  __device__ C result(Acc acc) const { return acc; }
};

template <class C>
struct RunningProduct : RunningSum<C> {
  __device__ C init() const { return 1; }
  __device__ C combine(C a, C b) const { return a * b; }
};

// A step is the map x -> factor * x + term; maps are composed, and the result is what they make of
// 0.
template <class C>
struct RunningLinear {
  using Value = C;
  struct Acc {
    C factor, term;
  };
  static constexpr int kInputs = 2;
  __device__ Acc init() const { return {1, 0}; }
  __device__ Acc combine(Acc a, Acc b) const {
    return {a.factor * b.factor, b.factor * a.term + b.term};
  }
  __device__ Acc from(const C (&in)[2]) const { return {in[0], in[1]}; }
  __device__ C result(Acc acc) const { return acc.term; }
};

template <template <class> class F>
void cumulative_kernel(const KernelContext& context, const CumulativeAttrs& attrs) {
  const View& out = context.output();
  const int dim = wrap_dim(attrs.dim, out.dim(), context.op);
  if (out.dtype == DType::float64)
    scan_lines(context, dim, attrs.reverse, F<double>{});
  else if (is_floating_point(out.dtype))
    scan_lines(context, dim, attrs.reverse, F<float>{});
  else
    scan_lines(context, dim, attrs.reverse, F<int64_t>{});
}

void linear_scan_kernel(const KernelContext& context, const LinearScanAttrs& attrs) {
  const int dim = wrap_dim(attrs.dim, context.output().dim(), context.op);
  if (context.output().dtype == DType::float64)
    scan_lines(context, dim, attrs.reverse, RunningLinear<double>{});
  else
    scan_lines(context, dim, attrs.reverse, RunningLinear<float>{});
}

}  // namespace

void register_cumulative_cuda() {
  cumsum_op.set_kernel(DeviceType::cuda, cumulative_kernel<RunningSum>);
  cumprod_op.set_kernel(DeviceType::cuda, cumulative_kernel<RunningProduct>);
  linear_scan_op.set_kernel(DeviceType::cuda, linear_scan_kernel);
}

}  // namespace tensora::cuda
