#include "tensora/nn/distance.h"

#include "tensora/ops/norm/distance.h"

namespace tensora::nn {

Tensor CosineSimilarity::forward(const Tensor& x1, const Tensor& x2) const {
  return cosine_similarity(x1, x2, options.dim, options.eps);
}

Tensor PairwiseDistance::forward(const Tensor& x1, const Tensor& x2) const {
  return pairwise_distance(x1, x2, options.p, options.eps, options.keepdim);
}

}  // namespace tensora::nn
