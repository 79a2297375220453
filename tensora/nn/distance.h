#pragma once

#include "tensora/nn/layer.h"

namespace tensora::nn {

struct CosineSimilarityOptions {
  int64_t dim = 1;
  double eps = 1e-8;
};

/// The cosine of the angle between vectors along a dim.
class CosineSimilarity : public Layer<CosineSimilarity> {
 public:
  explicit CosineSimilarity(CosineSimilarityOptions options = {}) : options(options) {}
  Tensor forward(const Tensor& x1, const Tensor& x2) const;

  CosineSimilarityOptions options;
};

struct PairwiseDistanceOptions {
  double p = 2;
  double eps = 1e-6;
  bool keepdim = false;
};

/// The p-norm of x1 - x2 along the last dim.
class PairwiseDistance : public Layer<PairwiseDistance> {
 public:
  explicit PairwiseDistance(PairwiseDistanceOptions options = {}) : options(options) {}
  Tensor forward(const Tensor& x1, const Tensor& x2) const;

  PairwiseDistanceOptions options;
};

}  // namespace tensora::nn
