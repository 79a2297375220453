#pragma once

// The network of the training rows: 784-512-512-10 with ReLU, cross entropy and
// Adam.

#include <cmath>
#include <vector>

#include "tensora/ops/optim/adam.h"
#include "tensora/tensora.h"

namespace bench {

class Mlp {
 public:
  /// Adam's steps are counted on the device, so that a step can be recorded in
  /// a graph.
  explicit Mlp(tensora::Device device = tensora::DeviceType::cpu)
      : steps_(tensora::zeros({1}, {.device = device})) {
    using tensora::rand;
    for (const auto& [out, in] : {std::pair{512, 784}, {512, 512}, {10, 512}}) {
      add(((rand({out, in}) * 2 - 1) / std::sqrt(double(in))).to(device));
      add(((rand({out}) * 2 - 1) / std::sqrt(double(in))).to(device));
    }
  }

  tensora::Tensor loss(const tensora::Tensor& x /* B 784 */,
                       const tensora::Tensor& labels /* B */) const {
    using namespace tensora;
    Tensor h = relu(linear(x, at(0), at(1)));
    h = relu(linear(h, at(2), at(3)));
    const Tensor logits = linear(h, at(4), at(5));
    const Tensor log_probabilities = logits - logsumexp(logits, {1}, true);
    return -mean(gather(log_probabilities, 1, unsqueeze(labels, 1)));
  }

  /// One step of training; returns the loss before it, still on the device.
  tensora::Tensor step(const tensora::Tensor& x, const tensora::Tensor& labels) {
    for (Parameter& p : parameters_) p.value.set_grad({});
    const tensora::Tensor value = loss(x, labels);
    value.backward();
    {
      const tensora::no_grad silent;
      steps_.add_(1);
    }
    for (Parameter& p : parameters_)
      tensora::adam_(p.value, p.average, p.square, p.value.grad(), steps_, {});
    return value.detach();
  }

  /// A fresh network guesses (loss ln 10); it must have learnt one batch by
  /// heart after 60 steps.
  bool learns(const tensora::Tensor& x, const tensora::Tensor& labels) {
    const double before = step(x, labels).item<double>();
    for (int i = 0; i < 60; ++i) step(x, labels);
    const double after = step(x, labels).item<double>();
    return std::abs(before - std::log(10.0)) < 0.25 && after < 0.05 * before;
  }

 private:
  struct Parameter {
    tensora::Tensor value, average, square;
  };

  void add(const tensora::Tensor& initial) {
    const tensora::Tensor value = initial.detach().requires_grad_();
    parameters_.push_back({value, zeros_like(value), zeros_like(value)});
  }
  const tensora::Tensor& at(size_t i) const { return parameters_[i].value; }

  std::vector<Parameter> parameters_;
  tensora::Tensor steps_;  // one number, on the network's device
};

}  // namespace bench
