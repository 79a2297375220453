#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct AddmmAttrs {
  Scalar beta = 1;
  Scalar alpha = 1;
};
/// beta * input + alpha * mat1 @ mat2 in one pass over the result; input broadcasts.
extern OpDef<AddmmAttrs> addmm_op;

Tensor addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, Scalar beta = 1,
             Scalar alpha = 1);
const Tensor& addmm_(const Tensor& self, const Tensor& mat1, const Tensor& mat2, Scalar beta = 1,
                     Scalar alpha = 1);
/// The same for batches of matrices, for a matrix and a vector, and for two vectors.
Tensor baddbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2, Scalar beta = 1,
               Scalar alpha = 1);
const Tensor& baddbmm_(const Tensor& self, const Tensor& batch1, const Tensor& batch2,
                       Scalar beta = 1, Scalar alpha = 1);
Tensor addmv(const Tensor& self, const Tensor& mat, const Tensor& vec, Scalar beta = 1,
             Scalar alpha = 1);
Tensor addr(const Tensor& self, const Tensor& vec1, const Tensor& vec2, Scalar beta = 1,
            Scalar alpha = 1);

/// input @ weight^T + bias; weight: out in, bias: out or undefined.
Tensor linear(const Tensor& input, const Tensor& weight);
Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias);

}  // namespace tensora
