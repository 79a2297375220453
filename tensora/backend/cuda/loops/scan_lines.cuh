#pragma once

// Scans along one dim of arrays of any strides and dtypes.
//
// The operation is a functor over a compute type C:
//   using Value = C;
//   using Acc;
//   static constexpr int kInputs;
//   Acc init() const;  Acc combine(Acc, Acc) const;    as in scan.cuh
//   Acc from(const C (&in)[kInputs]) const;            an element of each input
//   C result(Acc) const;

#include <cstdlib>

#include "tensora/backend/cuda/loops/host_walk.h"
#include "tensora/backend/cuda/loops/reduce_params.cuh"
#include "tensora/backend/cuda/loops/scan.cuh"
#include "tensora/core/kernel.h"

namespace tensora::cuda {

template <class F>
struct LineScan {
  static constexpr int kInputs = F::kInputs;
  using C = typename F::Value;
  using Acc = typename F::Acc;
  struct Line {
    long long at[kInputs + 1];  // where the line begins in each array
  };
  F functor;
  WideWalk<kInputs + 1> lines;  // array 0 is the output
  char* data[kInputs + 1];
  long long step[kInputs + 1];  // stride in bytes along a line
  DType dtype[kInputs + 1];

  __device__ Line line(unsigned number) const {
    Line result;
    lines.offsets(number, result.at);
    return result;
  }
  __device__ Acc init() const { return functor.init(); }
  __device__ Acc combine(Acc a, Acc b) const { return functor.combine(a, b); }

  __device__ void load(const Line& line, long long first, int count,
                       Acc (&values)[kScanItems]) const {
    C in[kInputs][kScanItems];
#pragma unroll
    for (int n = 0; n < kInputs; ++n) {
      const char* const from = data[n + 1] + line.at[n + 1] + first * step[n + 1];
      visit_any(dtype[n + 1], [&]<class T>() {
        if (count == kScanItems && is_gapless<T>(from, step[n + 1])) {
          load_pack<T>(from, in[n]);
          return;
        }
#pragma unroll
        for (int k = 0; k < kScanItems; ++k)
          if (k < count)
            in[n][k] = load_value<C>(*reinterpret_cast<const T*>(from + k * step[n + 1]));
      });
    }
#pragma unroll
    for (int k = 0; k < kScanItems; ++k) {
      C element[kInputs];
#pragma unroll
      for (int n = 0; n < kInputs; ++n) element[n] = in[n][k];
      values[k] = k < count ? functor.from(element) : functor.init();
    }
  }
  __device__ void store(const Line& line, long long first, int count, Acc,
                        const Acc (&through)[kScanItems]) const {
    char* const to = data[0] + line.at[0] + first * step[0];
    visit_any(dtype[0], [&]<class T>() {
      if (count == kScanItems && is_gapless<T>(to, step[0])) {
        C results[kScanItems];
#pragma unroll
        for (int k = 0; k < kScanItems; ++k) results[k] = functor.result(through[k]);
        store_pack<T>(to, results);
        return;
      }
#pragma unroll
      for (int k = 0; k < kScanItems; ++k)
        if (k < count)
          *reinterpret_cast<T*>(to + k * step[0]) = store_value<T>(functor.result(through[k]));
    });
  }

 private:
  // Whether kScanItems elements can be accessed as one.
  template <class T>
  __device__ static bool is_gapless(const char* address, long long step) {
    return step == sizeof(T) &&
           reinterpret_cast<size_t>(address) % alignof(Pack<T, kScanItems>) == 0;
  }
};

/// Output 0 becomes the scan of the inputs, which have its shape, along `dim`; in `reverse` from
/// the end.
template <class F>
void scan_lines(const KernelContext& context, int dim, bool reverse, const F& functor) {
  constexpr int kArrays = F::kInputs + 1;
  const View& out = context.output();
  if (out.numel == 0) return;
  LineScan<F> scan{};
  scan.functor = functor;
  const View* views[kArrays] = {&out};
  for (int n = 0; n < F::kInputs; ++n) views[n + 1] = &context.input(static_cast<size_t>(n));
  int64_t across = INT64_MAX;  // the smallest step of the output from one line to another
  for (int d = out.dim() - 1; d >= 0; --d) {
    if (d == dim) continue;
    if (out.sizes[d] > 1) across = std::min(across, std::abs(out.strides[d]));
    const DivisorNumbers numbers = divisor_numbers(out.sizes[d]);
    scan.lines.sizes[scan.lines.dims] = {numbers.divisor, numbers.multiplier, numbers.shift};
    for (int n = 0; n < kArrays; ++n)
      scan.lines.strides[n][scan.lines.dims] =
          views[n]->strides[d] * static_cast<int64_t>(element_size(views[n]->dtype));
    ++scan.lines.dims;
  }
  if (scan.lines.dims == 0) scan.lines.dims = 1;  // one line: number 0, offset 0
  const int64_t length = out.sizes[dim];
  for (int n = 0; n < kArrays; ++n) {
    const auto bytes = static_cast<int64_t>(element_size(views[n]->dtype));
    scan.data[n] = views[n]->template as<char>();
    scan.step[n] = views[n]->strides[dim] * bytes;
    scan.dtype[n] = views[n]->dtype;
    if (!reverse) continue;
    scan.data[n] += (length - 1) * scan.step[n];
    scan.step[n] = -scan.step[n];
  }
  const ScanLayout layout =
      across < std::abs(out.strides[dim]) ? ScanLayout::columns : ScanLayout::rows;
  run_scan(context.op, context.device.index, scan, out.numel / length, length, layout);
}

}  // namespace tensora::cuda
