#include "tensora/models/mlp.h"

#include "tensora/base/check.h"
#include "tensora/ops.h"

namespace tensora::models {

MLP::MLP(const std::vector<int64_t>& sizes, MLPOptions given) : options(std::move(given)) {
  check(sizes.size() >= 2, "MLP: expected at least the sizes of input and output, got ",
        sizes.size(), " sizes");
  const size_t step = options.dropout > 0 ? 3 : 2;
  for (size_t i = 0; i + 1 < sizes.size(); ++i)
    layers.push_back(register_module(std::to_string(i * step), nn::Linear(sizes[i], sizes[i + 1])));
}

Tensor MLP::forward(const Tensor& input) const {
  const int64_t features = layers[0].in_features;
  Tensor x = input;
  if (x.dim() > 2 && x.size(-1) != features) x = x.flatten(1);
  check(x.dim() >= 1 && x.size(-1) == features, "MLP: expected an input with ", features,
        " features, got shape ", input.sizes());
  for (size_t i = 0; i + 1 < layers.size(); ++i) {
    x = linear_activation(x, layers[i].weight, layers[i].bias, options.activation);
    x = dropout(x, options.dropout, is_training());
  }
  return layers.back()(x);
}

}  // namespace tensora::models
