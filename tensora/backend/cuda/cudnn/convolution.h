#pragma once

#include <cstdint>
#include <string_view>

#include "tensora/core/view.h"

namespace tensora::cuda::cudnn {

/// Which of the three arrays of a convolution is computed from the two others.
enum class ConvolutionPass : uint8_t { forward, backward_data, backward_filter };

/// y = x * w, or the gradient of x or w. float16, bfloat16, float32 or float64; one spatial dim to
/// three. The number of groups follows from the channels of x and w.
struct Convolution {
  std::string_view op;
  int device = 0;
  ConvolutionPass pass = ConvolutionPass::forward;
  View x;                           // N C L…
  View w;                           // M C/groups K…
  View y;                           // N M O…
  Shape stride, padding, dilation;  // one number per spatial dim
  bool channels_last = false;       // the layout that all three get; others are copied
};

/// Queues the convolution; no array may be empty. float32 uses the tensor cores only if
/// tf32_allowed() (backend/cuda/matmul/matmul.h). Throws an Error that says so where cuDNN is
/// missing or has no engine for these arrays.
void convolve(const Convolution& args);

/// The first convolution of each shape is computed by several engines, which are timed, and the
/// fastest is used from then on; by default the one that cuDNN recommends is. On at start where the
/// environment says TENSORA_CUDA_TUNE_CONV=1. Engines may differ in the last bits, so nothing is
/// timed while is_deterministic(), nor while a graph is captured: run a step first.
void set_convolution_tuning(bool on);
bool convolution_tuning();

/// What happened to plans so far, in all threads. A thread keeps a bounded number of plans.
struct ConvolutionPlanCounts {
  int64_t made = 0, reused = 0, timed = 0, dropped = 0;
};
ConvolutionPlanCounts convolution_plan_counts();

}  // namespace tensora::cuda::cudnn
