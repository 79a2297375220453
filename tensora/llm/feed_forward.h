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

/// The same as a mixture: each token goes through the experts that the router prefers for it.
struct Experts {
  Activation activation = Activation::silu;
  int64_t count = 0, used = 0;
  bool normalize = true;
  double scale = 1;
  Weight router;          // [experts, hidden]
  Weight gate, up, down;  // the matrices of all experts, one below the other

  /// x: T hidden; the result is float32, with `residual` added where there is one.
  Tensor operator()(const Tensor& x, const Tensor& residual) const;
};

}  // namespace tensora::llm
