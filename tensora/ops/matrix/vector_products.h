#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// The sums of products over the last dim of both: … n and … n become … …; a number scales.
Tensor inner(const Tensor& self, const Tensor& other);
/// The sum of products of two vectors, the first one conjugated.
Tensor vdot(const Tensor& self, const Tensor& other);
/// Kronecker's product: each element of `self` times all of `other`, as one tensor.
Tensor kron(const Tensor& self, const Tensor& other);
/// The vector product of 3-vectors along `dim`; without it along the first dim of size 3. Other
/// dims broadcast.
Tensor cross(const Tensor& self, const Tensor& other, std::optional<int64_t> dim = {});
namespace linalg {
Tensor cross(const Tensor& input, const Tensor& other, int64_t dim = -1);
}

/// The covariances of the variables, one per row, estimated from observations, one per column.
/// `fweights` counts how often each observation occurs, `aweights` how much it matters; the sums
/// are divided by the weights' total less `correction`.
Tensor cov(const Tensor& self, int64_t correction = 1);
/// Either may be undefined.
Tensor cov(const Tensor& self, int64_t correction, const Tensor& fweights, const Tensor& aweights);
/// The correlations of the same variables.
Tensor corrcoef(const Tensor& self);

}  // namespace tensora
