#pragma once

#include "tensora/nn/layer.h"

namespace tensora::nn {

/// Returns its input: a place where a layer may stand.
class Identity : public Layer<Identity> {
 public:
  Tensor forward(const Tensor& input) const { return input; }
};

/// A function as a module, for Sequential: `nn::Functional([](const Tensor& x) { return x * 2; })`.
class Functional : public Layer<Functional> {
 public:
  explicit Functional(std::function<Tensor(const Tensor&)> function);
  Tensor forward(const Tensor& input) const { return function_(input); }

 private:
  std::function<Tensor(const Tensor&)> function_;
};

}  // namespace tensora::nn
