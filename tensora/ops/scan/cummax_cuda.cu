#include "tensora/ops/scan/cummax.h"

#include "tensora/backend/cuda/loops/scan_lines.cuh"

namespace tensora::cuda {
namespace {

// A scan (scan.cuh) with a second output. The outputs are row-major, and so have the same strides.
template <class C, bool largest>
struct RunningExtremum {
  struct Acc {
    C value;
    int64_t index;  // below 0: nothing yet
  };
  struct Line {
    long long in, out;  // where it begins; bytes, elements
  };
  WideWalk<2> lines;  // in, out
  const char* in;
  char* values;
  int64_t* indices;
  long long in_step, out_step;  // bytes, elements
  DType dtype;

  __device__ Line line(unsigned number) const {
    long long at[2];
    lines.offsets(number, at);
    return {at[0], at[1]};
  }
  __device__ Acc init() const { return {C(0), -1}; }
  __device__ Acc combine(Acc a, Acc b) const {
    if (b.index < 0) return a;
    const bool beats = largest ? b.value >= a.value : b.value <= a.value;
    return b.value != b.value || a.index < 0 || beats ? b : a;
  }
  __device__ void load(const Line& line, long long first, int count, Acc (&acc)[kScanItems]) const {
    const char* const from = in + line.in + first * in_step;
    visit_any(dtype, [&]<class T>() {
#pragma unroll
      for (int k = 0; k < kScanItems; ++k) {
        acc[k] = init();
        if (k < count)
          acc[k] = {load_value<C>(*reinterpret_cast<const T*>(from + k * in_step)), first + k};
      }
    });
  }
  __device__ void store(const Line& line, long long first, int count, Acc,
                        const Acc (&through)[kScanItems]) const {
    const long long to = line.out + first * out_step;
    visit_any(dtype, [&]<class T>() {
#pragma unroll
      for (int k = 0; k < kScanItems; ++k) {
        if (k >= count) continue;
        reinterpret_cast<T*>(values)[to + k * out_step] = store_value<T>(through[k].value);
        indices[to + k * out_step] = through[k].index;
      }
    });
  }
};

template <bool largest>
void cummax_kernel(const KernelContext& context, const CummaxAttrs& attrs) {
  View in = context.input(0), out = context.output();
  if (in.numel == 0) return;
  for (View* view : {&in, &out})
    if (view->dim() == 0) view->sizes = {1}, view->strides = {1};
  const int dim = wrap_dim(attrs.dim, in.dim(), context.op);
  const auto run = [&]<class C>() {
    RunningExtremum<C, largest> scan{};
    scan.in = in.as<const char>();
    scan.values = out.as<char>();
    scan.indices = context.output(1).as<int64_t>();
    const auto bytes = static_cast<int64_t>(element_size(in.dtype));
    scan.in_step = in.strides[dim] * bytes;
    scan.out_step = out.strides[dim];
    scan.dtype = in.dtype;
    for (int d = in.dim() - 1; d >= 0; --d) {
      if (d == dim) continue;
      const DivisorNumbers numbers = divisor_numbers(in.sizes[d]);
      scan.lines.sizes[scan.lines.dims] = {numbers.divisor, numbers.multiplier, numbers.shift};
      scan.lines.strides[0][scan.lines.dims] = in.strides[d] * bytes;
      scan.lines.strides[1][scan.lines.dims++] = out.strides[d];
    }
    if (scan.lines.dims == 0) scan.lines.dims = 1;  // one line: number 0, offset 0
    const int64_t length = in.sizes[dim];
    run_scan(context.op, context.device.index, scan, in.numel / length, length,
             dim == in.dim() - 1 ? ScanLayout::rows : ScanLayout::columns);
  };
  if (in.dtype == DType::float64)
    run.template operator()<double>();
  else if (is_floating_point(in.dtype))
    run.template operator()<float>();
  else
    run.template operator()<int64_t>();
}

}  // namespace

void register_cummax_cuda() {
  cummax_op.set_kernel(DeviceType::cuda, cummax_kernel<true>);
  cummin_op.set_kernel(DeviceType::cuda, cummax_kernel<false>);
}

}  // namespace tensora::cuda
