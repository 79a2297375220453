#pragma once

#include <map>
#include <string>
#include <vector>

#include "tensora/nn/layer.h"
#include "tests/helpers.h"

// PyTorch's answers, as tests/nn/make_goldens.py writes them.

namespace tensora::testing {

struct Golden {
  std::string name, printed;
  bool training = false;
  StateDict state;
  TensorList inputs;  // leaves where PyTorch took gradients
  Tensor output;
  std::map<std::string, Tensor> grads;  // of inputs "0", "1", …, and of parameters
  std::map<std::string, Tensor> after;  // buffers, in training
};
std::vector<Golden> read_goldens(const std::string& file);

/// A layer that is to be compared.
struct Subject {
  nn::ModulePtr module;
  std::function<Tensor(const TensorList&)> run;
};
template <class L>
Subject unary(L layer) {
  return {std::make_shared<L>(layer), [layer](const TensorList& in) { return layer(in.at(0)); }};
}
template <class L>
Subject binary(L layer) {
  return {std::make_shared<L>(layer),
          [layer](const TensorList& in) { return layer(in.at(0), in.at(1)); }};
}
template <class L>
Subject ternary(L layer) {
  return {std::make_shared<L>(layer),
          [layer](const TensorList& in) { return layer(in.at(0), in.at(1), in.at(2)); }};
}
using Subjects = std::map<std::string, std::function<Subject()>>;

Subjects layer_subjects();  // golden_layers_test.cpp
Subjects loss_subjects();   // golden_losses_test.cpp

}  // namespace tensora::testing
