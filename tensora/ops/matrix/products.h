#pragma once

#include "tensora/dispatch/op_def.h"

// Products that other products are composed to.

namespace tensora {

/// beta * self + alpha * the sum of the products of a batch of matrices, as one product.
Tensor addbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2, Scalar beta = 1,
              Scalar alpha = 1);
const Tensor& addbmm_(const Tensor& self, const Tensor& batch1, const Tensor& batch2,
                      Scalar beta = 1, Scalar alpha = 1);
const Tensor& addmv_(const Tensor& self, const Tensor& mat, const Tensor& vec, Scalar beta = 1,
                     Scalar alpha = 1);
const Tensor& addr_(const Tensor& self, const Tensor& vec1, const Tensor& vec2, Scalar beta = 1,
                    Scalar alpha = 1);

/// Element k of the last dim is x1ᵀ weight[k] x2, plus bias[k]; weight: out in1 in2,
/// bias: out or undefined.
Tensor bilinear(const Tensor& input1, const Tensor& input2, const Tensor& weight);
Tensor bilinear(const Tensor& input1, const Tensor& input2, const Tensor& weight,
                const Tensor& bias);

/// The product of matrices, in the order that takes the fewest multiplications.
Tensor chain_matmul(const std::vector<Tensor>& matrices);

}  // namespace tensora
