#pragma once

#include <string>

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct CholeskyAttrs {
  bool upper = false;
  std::string check_errors_as;  // the function whose error is thrown; empty: none
};
/// A -> (L, info): the factor, and per matrix 0 or the order of the leading minor that is not
/// positive.
extern OpDef<CholeskyAttrs> cholesky_op;

/// The Cholesky factor of symmetric positive-definite matrices: lower, or upper with `upper`.
Tensor cholesky(const Tensor& self, bool upper = false);
/// X with A X = self, where `input2` is the factor of A.
Tensor cholesky_solve(const Tensor& self, const Tensor& input2, bool upper = false);
/// The inverse of the matrix whose factor is `self`.
Tensor cholesky_inverse(const Tensor& self, bool upper = false);

namespace linalg {

/// L with A = L L^T, or U with A = U^T U if `upper`. Only one triangle of A is read: the lower one,
/// or the upper one if `upper`. Throws if a matrix is not positive-definite.
Tensor cholesky(const Tensor& A, bool upper = false);
/// (L, info): as above, but `info` says which matrices are not positive-definite, unless
/// `check_errors`.
std::tuple<Tensor, Tensor> cholesky_ex(const Tensor& A, bool upper = false,
                                       bool check_errors = false);

}  // namespace linalg
}  // namespace tensora
