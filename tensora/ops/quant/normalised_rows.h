#pragma once

// Internal header: the activations of a call on the CPU.

#include <optional>

#include "tensora/backend/cpu/scratch.h"
#include "tensora/dispatch/op_def.h"
#include "tensora/ops/norm/rms_row.h"

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
    for (int64_t first = 0; first < view_.numel; first += width)
      rms_row(from + first, weight, width, eps, rows_->data() + first);
    view_.data = rows_->data();
  }
  const View& view() const { return view_; }

 private:
  View view_;
  std::optional<HostScratch<float>> rows_;
};

}  // namespace tensora::cpu::TENSORA_ISA
