#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tensora/llm/batch.h"
#include "tensora/llm/weight.h"

namespace tensora::llm {

/// One to three matrices that the same activations are multiplied by, as one product, with their
/// biases and the adapters that a batch asks for.
class Projection {
 public:
  struct Part {
    std::string name;  // without ".weight": what adapters call it
    Weight weight = {};
    Tensor bias = {};
  };
  /// Activations, or, with a norm, what they are made from; see quant_linear.
  struct Input {
    Tensor x;
    Tensor norm = {};
    double eps = 0;
  };
  struct Result {
    Tensor residual = {};             // added
    std::optional<DType> dtype = {};  // by default that of the activations
  };

  Projection() = default;
  explicit Projection(std::vector<std::string> names);

  /// What a loader fills in before the first call, followed by `finish`.
  std::vector<Part>& parts() { return parts_; }
  void finish();

  /// x: T K, without a norm if the batch has adapters; the result: T ΣN.
  Tensor operator()(const Input& x, const Batch& batch, const Result& result) const;
  const Weight& weight(size_t i) const { return parts_[i].weight; }
  /// Adds the adapters' share in `y`, the columns from `column` on being those of part `i`.
  void add_adapters(const Tensor& x, const Batch& batch, size_t i, const Tensor& y,
                    int64_t column) const;
  bool has_bias() const { return bias_.defined(); }
  int64_t bytes() const;

 private:
  std::vector<Part> parts_;
  std::vector<Tensor> weights_, scales_;  // as quant_linear takes them
  Tensor bias_;
};

}  // namespace tensora::llm
