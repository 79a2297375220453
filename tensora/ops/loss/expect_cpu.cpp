#include "tensora/ops/loss/expect.h"

#include <algorithm>

#include "tensora/backend/cpu/generate.h"
#include "tensora/base/thread_pool.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

template <class C>
void check_elements(const View& in, const Expectation& expected) {
  constexpr int64_t kTile = kGenerateTile;
  const LoadFn load = load_fn<C>(in.dtype);
  const C low = static_cast<C>(expected.low), high = static_cast<C>(expected.high);
  parallel_for(in.numel, 16 * kTile, [&](int64_t begin, int64_t end) {
    C values[kTile];
    for (int64_t at = begin; at < end; at += kTile) {
      const int64_t n = std::min(kTile, end - at);
      gather_rows(in, load, at, n, values, sizeof(C));
      int64_t inside = 0;
#pragma omp simd reduction(+ : inside)
      for (int64_t i = 0; i < n; ++i) inside += (values[i] >= low) & (values[i] <= high);
      if (inside == n) continue;
      for (int64_t i = 0; i < n; ++i)
        if (!(values[i] >= low && values[i] <= high) &&
            !(expected.nan_passes && values[i] != values[i]))
          fail_expectation(expected, concat(", got ", values[i]));
    }
  });
}

void expect_kernel(const KernelContext& context, const ExpectAttrs& attrs) {
  const Expectation& expected = kExpectations[static_cast<int>(attrs.what)];
  if (context.input(0).dtype == kFloat64)
    check_elements<double>(context.input(0), expected);
  else
    check_elements<float>(context.input(0), expected);
}

}  // namespace

void register_expect_cpu() { expect_op.set_kernel(DeviceType::cpu, expect_kernel); }

}  // namespace tensora::cpu::TENSORA_ISA
