#pragma once

#include "tensora/nn/linear.h"

namespace tensora::models {

struct MLPOptions {
  std::string activation = "relu";  // or "gelu", "silu", "tanh", …: see linear_activation
  double dropout = 0;               // behind each activation, in training
};

/// Linear layers with an activation between them. Its parameters are named as those of PyTorch's
/// Sequential(Linear, ReLU, Linear, …), or with Dropout behind each ReLU.
class MLP : public nn::Layer<MLP> {
 public:
  /// `sizes`: of the input, the hidden layers and the output.
  explicit MLP(const std::vector<int64_t>& sizes, MLPOptions options = {});

  /// input: … features, or images whose dims behind the first are flattened.
  Tensor forward(const Tensor& input) const;

  MLPOptions options;
  std::vector<nn::Linear> layers;
};

}  // namespace tensora::models
