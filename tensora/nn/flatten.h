#pragma once

#include "tensora/nn/layer.h"

namespace tensora::nn {

struct FlattenOptions {
  int64_t start_dim = 1;
  int64_t end_dim = -1;
};

/// Joins the dims from start_dim to end_dim; the first dim is the batch and stays.
class Flatten : public Layer<Flatten> {
 public:
  explicit Flatten(FlattenOptions options = {}) : options(options) {}
  Tensor forward(const Tensor& input) const;
  std::string extra_repr() const override;

  FlattenOptions options;
};

/// Splits a dim into several; one of the sizes may be -1.
class Unflatten : public Layer<Unflatten> {
 public:
  Unflatten(int64_t dim, const Shape& unflattened_size)
      : dim(dim), unflattened_size(unflattened_size) {}
  Tensor forward(const Tensor& input) const;
  std::string extra_repr() const override;

  int64_t dim;
  Shape unflattened_size;
};

}  // namespace tensora::nn
