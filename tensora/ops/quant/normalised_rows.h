#pragma once

// Internal header: the activations of a call on the CPU.

#include <cmath>
#include <optional>

#include "tensora/backend/cpu/scratch.h"
#include "tensora/dispatch/op_def.h"

namespace tensora::cpu::TENSORA_ISA {

/// Input 0 of a call, or, if it has a norm's weight as input `norm`, what that makes of it.
class NormalisedRows {
 public:
  NormalisedRows(const KernelContext& context, size_t norm, double eps) : view_(context.input(0)) {
    if (norm >= context.in.size() || !context.in[norm] || view_.numel == 0) return;
    const float* const from = view_.as<const float>();
    const float* const weight = context.input(norm).as<const float>();
    const int64_t width = view_.sizes.back();
    rows_.emplace(view_.numel);
    for (int64_t first = 0; first < view_.numel; first += width) {
      float squares = 0;
#pragma omp simd reduction(+ : squares)
      for (int64_t i = 0; i < width; ++i) squares += from[first + i] * from[first + i];
      const auto factor = static_cast<float>(
          1 / std::sqrt(static_cast<double>(squares) / static_cast<double>(width) + eps));
      for (int64_t i = 0; i < width; ++i)
        rows_->data()[first + i] = from[first + i] * factor * weight[i];
    }
    view_.data = rows_->data();
  }
  const View& view() const { return view_; }

 private:
  View view_;
  std::optional<HostScratch<float>> rows_;
};

}  // namespace tensora::cpu::TENSORA_ISA
