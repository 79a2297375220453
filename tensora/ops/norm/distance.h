#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

/// `input` over the p-norm of its elements along `dim`, or over eps where that is larger.
Tensor normalize(const Tensor& input, double p = 2, int64_t dim = 1, double eps = 1e-12);

/// The cosine of the angle between the vectors along `dim`, after broadcasting; norms below eps
/// count as eps.
Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, int64_t dim = 1, double eps = 1e-8);

/// The p-norm of x1 - x2 + eps along the last dim, after broadcasting.
Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, double p = 2, double eps = 1e-6,
                         bool keepdim = false);

/// Each element over (k + alpha * mean)^beta, where the mean is that of the squares of `size`
/// neighbouring channels (dim 1), the element's own in their middle; beyond the first and the last
/// channel are zeros.
Tensor local_response_norm(const Tensor& input, int64_t size, double alpha = 1e-4,
                           double beta = 0.75, double k = 1);

}  // namespace tensora
