// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include <algorithm>

#include "tensora/backend/cpu/convert.h"
#include "tensora/backend/cpu/scratch.h"
#include "tensora/base/thread_pool.h"
#include "tensora/core/kernel.h"
#include "tensora/ops/sort/count_bins.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

// Every part of the elements has counts of its own, which are added up in order: the parts, and
// with them the rounding of weights, do not depend on the number of threads.
int64_t parts_of(int64_t elements, int64_t bins) {
  constexpr int64_t kLeast = 64 * 1024, kMost = 16;
  return std::clamp<int64_t>(elements / std::max(kLeast, 4 * bins), 1, kMost);
}

/// Calls add(sums, bin number, element number) for elements that have a bin.
template <class C, class Sum, class BinOf, class Add>
void count_parts(const View& in, int64_t bins, Sum* out, const BinOf& bin_of, const Add& add) {
  constexpr int64_t kTile = 512;
  const LoadFn load = load_fn<C>(in.dtype);
  const auto bytes = static_cast<int64_t>(element_size(in.dtype));
  const int64_t parts = parts_of(in.numel, bins);
  const HostScratch<Sum> memory(std::max<int64_t>(1, (parts - 1) * bins));
  parallel_for(parts, 1, [&](int64_t first, int64_t last) {
    C values[kTile];
    for (int64_t part = first; part < last; ++part) {
      Sum* const sums = part == 0 ? out : memory.data() + (part - 1) * bins;
      std::fill_n(sums, bins, Sum(0));
      const int64_t end = in.numel * (part + 1) / parts;
      for (int64_t i = in.numel * part / parts; i < end; i += kTile) {
        const int64_t n = std::min(kTile, end - i);
        load(in.as<const char>() + i * bytes, 1, n, values);
        for (int64_t j = 0; j < n; ++j) {
          const int64_t bin = bin_of(values[j]);
          if (bin >= 0) add(sums[bin], i + j);
        }
      }
    }
  });
  parallel_for(bins, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t part = 1; part < parts; ++part) {
      const Sum* const sums = memory.data() + (part - 1) * bins;
      for (int64_t b = begin; b < end; ++b) out[b] += sums[b];
    }
  });
}

void count_integers_kernel(const KernelContext& context, const CountIntegersAttrs& attrs) {
  const View &in = context.input(0), &out = context.output();
  const auto bin_of = [&](int64_t x) { return x < attrs.bins ? x : -1; };
  const auto weighted = [&]<class W>() {
    const W* const weights = context.input(1).as<const W>();
    count_parts<int64_t>(in, attrs.bins, out.as<W>(), bin_of,
                         [&](W& sum, int64_t i) { sum += weights[i]; });
  };
  if (out.dtype == DType::float32)
    weighted.template operator()<float>();
  else if (out.dtype == DType::float64)
    weighted.template operator()<double>();
  else
    count_parts<int64_t>(in, attrs.bins, out.as<int64_t>(), bin_of,
                         [](int64_t& sum, int64_t) { ++sum; });
}

void count_intervals_kernel(const KernelContext& context, const CountIntervalsAttrs& attrs) {
  const View &in = context.input(0), &out = context.output();
  const auto run = [&]<class C>() {
    const EqualIntervals<C> bin_of{static_cast<C>(attrs.low), static_cast<C>(attrs.high),
                                   attrs.bins};
    count_parts<C>(in, attrs.bins, out.as<int64_t>(), bin_of, [](int64_t& sum, int64_t) { ++sum; });
  };
  if (in.dtype == DType::float64)
    run.template operator()<double>();
  else
    run.template operator()<float>();
}

}  // namespace

void register_bincount_cpu() {
  count_integers_op.set_kernel(DeviceType::cpu, count_integers_kernel);
  count_intervals_op.set_kernel(DeviceType::cpu, count_intervals_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
