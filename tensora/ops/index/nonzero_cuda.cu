#include "tensora/ops/index/nonzero.h"

#include "tensora/backend/cuda/loops/compact.cuh"
#include "tensora/backend/cuda/loops/host_walk.h"

namespace tensora::cuda {
namespace {

/// The elements that are not zero; NaN is not.
struct NotZero {
  const char* in;
  DType dtype;
  bool aligned;  // 16 bytes can be read at once

  explicit NotZero(const View& view)
      : in(view.as<const char>()),
        dtype(view.dtype),
        aligned(reinterpret_cast<uintptr_t>(view.data) % 16 == 0) {}

  __device__ unsigned flags(long long first, int present) const {
    unsigned result = 0;
    visit_any(dtype, [&]<class T>() {
      const T* const from = reinterpret_cast<const T*>(in) + first;
      T values[kCompactItems];
      if (aligned && present == kCompactItems) {
        uint4 words[sizeof(T)];
#pragma unroll
        for (unsigned w = 0; w < sizeof(T); ++w)
          words[w] = __ldg(reinterpret_cast<const uint4*>(from) + w);
        __builtin_memcpy(values, words, sizeof values);
      } else {
#pragma unroll
        for (int k = 0; k < kCompactItems; ++k) values[k] = k < present ? from[k] : T(0);
      }
#pragma unroll
      for (int k = 0; k < kCompactItems; ++k)
        result |= static_cast<unsigned>(load_value<accumulate_t<T>>(values[k]) != 0) << k;
    });
    return result;
  }
};

/// Their indices, a row of the result each.
struct NonzeroRows : NotZero {
  int64_t* out /* count dims */;
  long long count;
  long long sizes[kMaxDims];
  Divisor divisors[kMaxDims];
  int dims;
  bool narrow;  // positions are below 2^31, which Divisor needs

  __device__ void store(long long row, long long position) const {
    // Rows beyond `count` exist only if the elements changed since they were counted.
    if (row >= count) return;
    int64_t* const to = out + row * dims;
    for (int d = dims - 1; d > 0; --d) {
      const long long rest =
          narrow ? divisors[d].divide(static_cast<unsigned>(position)) : position / sizes[d];
      to[d] = position - rest * sizes[d];
      position = rest;
    }
    if (dims > 0) to[0] = position;
  }
};

void nonzero_count_kernel(const KernelContext& context, const NoAttrs&) {
  const View& in = context.input(0);
  run_count(context.op, context.device.index, NotZero(in), in.numel,
            context.output().as<int64_t>());
}

void nonzero_kernel(const KernelContext& context, const NonzeroAttrs& attrs) {
  const View& in = context.input(0);
  NonzeroRows rows{NotZero(in), context.output().as<int64_t>(), attrs.count, {}, {},
                   in.dim(),    in.numel < int64_t{1} << 31};
  for (int d = 0; d < in.dim(); ++d) {
    rows.sizes[d] = in.sizes[d];
    if (!rows.narrow) continue;
    const DivisorNumbers numbers = divisor_numbers(std::max<int64_t>(in.sizes[d], 1));
    rows.divisors[d] = {numbers.divisor, numbers.multiplier, numbers.shift};
  }
  run_compact(context.op, context.device.index, rows, in.numel);
}

}  // namespace

void register_nonzero_cuda() {
  nonzero_count_op.set_kernel(DeviceType::cuda, nonzero_count_kernel);
  nonzero_op.set_kernel(DeviceType::cuda, nonzero_kernel);
}

}  // namespace tensora::cuda
