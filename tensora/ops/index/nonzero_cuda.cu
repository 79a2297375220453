#include "tensora/ops/index/nonzero.h"

#include "tensora/backend/cuda/loops/reduce_count.cuh"
#include "tensora/backend/cuda/loops/scan.cuh"

namespace tensora::cuda {
namespace {

// How many elements before and up to each one are not zero: that is the row of the result which an
// element that is not zero gets.
struct NonzeroRows {
  using Acc = long long;
  struct Line {};
  const char* in;
  int64_t* out /* count dims */;
  long long count;
  long long sizes[kMaxDims];
  int dims;
  DType dtype;

  __device__ Line line(unsigned) const { return {}; }
  __device__ Acc init() const { return 0; }
  __device__ Acc combine(Acc a, Acc b) const { return a + b; }
  __device__ void load(Line, long long first, int present, Acc (&values)[kScanItems]) const {
    visit_any(dtype, [&]<class T>() {
      const T* const from = reinterpret_cast<const T*>(in) + first;
#pragma unroll
      for (int k = 0; k < kScanItems; ++k)
        values[k] = k < present && load_value<accumulate_t<T>>(from[k]) != 0;
    });
  }
  __device__ void store(Line, long long first, int present, Acc before,
                        const Acc (&through)[kScanItems]) const {
#pragma unroll
    for (int k = 0; k < kScanItems; ++k) {
      const Acc row = k == 0 ? before : through[k - 1];
      // Rows beyond `count` exist only if the elements changed since they were counted.
      if (k < present && through[k] != row && row < count) write_row(out + row * dims, first + k);
    }
  }
  __device__ void write_row(int64_t* to, long long position) const {
    for (int d = dims - 1; d > 0; --d) {
      const long long rest = position / sizes[d];
      to[d] = position - rest * sizes[d];
      position = rest;
    }
    if (dims > 0) to[0] = position;
  }
};

void nonzero_count_kernel(const KernelContext& context, const NoAttrs&) {
  const View& in = context.input(0);
  const uint32_t all = (1u << in.dim()) - 1;
  visit_compute(in.dtype, [&]<class C>() { reduce(context, all, CountNonzero<C>{}); });
}

void nonzero_kernel(const KernelContext& context, const NonzeroAttrs& attrs) {
  const View& in = context.input(0);
  NonzeroRows rows{};
  rows.in = in.as<const char>();
  rows.out = context.output().as<int64_t>();
  rows.count = attrs.count;
  rows.dims = in.dim();
  rows.dtype = in.dtype;
  for (int d = 0; d < in.dim(); ++d) rows.sizes[d] = in.sizes[d];
  run_scan(context.op, context.device.index, rows, 1, in.numel, ScanLayout::rows);
}

}  // namespace

void register_nonzero_cuda() {
  nonzero_count_op.set_kernel(DeviceType::cuda, nonzero_count_kernel);
  nonzero_op.set_kernel(DeviceType::cuda, nonzero_kernel);
}

}  // namespace tensora::cuda
