#pragma once

#include "tensora/llm/projection.h"
#include "tensora/ops/matrix/linear_activation.h"

namespace tensora::llm {

/// down(activation(gate(x)) * up(x)).
struct FeedForward {
  Activation activation = Activation::silu;
  Projection gate, up, down;

  /// x: T hidden; between the products numbers have `dtype`; the result is float32, with
  /// `residual` added where there is one.
  Tensor operator()(const Projection::Input& x, const Batch& batch, DType dtype,
                    const Tensor& residual) const;

 private:
  Tensor gated(const Projection::Input& x, const Batch& batch, DType dtype) const;
};

/// The same as a mixture: each token goes through the experts that the router prefers for it. The
/// host asks the device who goes where, so such a layer cannot be part of a CUDA graph.
struct Experts {
  Activation activation = Activation::silu;
  int64_t used = 0;
  bool normalize = true;
  double scale = 1;
  Weight router;                       // [experts, hidden]
  std::vector<Weight> gate, up, down;  // of each expert

  Tensor operator()(const Tensor& x, const Tensor& residual) const;
};

}  // namespace tensora::llm
