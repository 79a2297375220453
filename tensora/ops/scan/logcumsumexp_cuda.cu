#include "tensora/backend/cuda/loops/scan_lines.cuh"
#include "tensora/ops/scan/logcumsumexp.h"

namespace tensora::cuda {
namespace {

// The sum of exponentials relative to the largest exponent.
template <class C>
struct RunningLogSum {
  using Value = C;
  struct Acc {
    C largest, sum;
  };
  static constexpr int kInputs = 1;
  __device__ Acc init() const { return {-static_cast<C>(INFINITY), C(0)}; }
  __device__ Acc combine(Acc a, Acc b) const {
    const C largest = a.largest > b.largest || a.largest != a.largest ? a.largest : b.largest;
    // Equal infinities have the difference 0.
    const C to_a = a.largest == largest ? C(0) : a.largest - largest;
    const C to_b = b.largest == largest ? C(0) : b.largest - largest;
    return {largest, a.sum * exp(to_a) + b.sum * exp(to_b)};
  }
  __device__ Acc from(const C (&in)[1]) const { return {in[0], C(1)}; }
  __device__ C result(Acc acc) const { return acc.largest + log(acc.sum); }
};

void logcumsumexp_kernel(const KernelContext& context, const LogcumsumexpAttrs& attrs) {
  const View& out = context.output();
  if (out.numel == 0) return;
  View in = context.input(0), line = out;
  for (View* view : {&in, &line})
    if (view->dim() == 0) view->sizes = {1}, view->strides = {1};
  const View *const ins[] = {&in}, *const outs[] = {&line};
  const KernelContext lines{context.op, ins, outs, context.device, context.compute_dtype};
  const int dim = wrap_dim(attrs.dim, line.dim(), context.op);
  if (out.dtype == DType::float64)
    scan_lines(lines, dim, attrs.reverse, RunningLogSum<double>{});
  else
    scan_lines(lines, dim, attrs.reverse, RunningLogSum<float>{});
}

}  // namespace

void register_logcumsumexp_cuda() {
  logcumsumexp_op.set_kernel(DeviceType::cuda, logcumsumexp_kernel);
}

}  // namespace tensora::cuda
