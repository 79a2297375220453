#pragma once

#include <string>

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct SolveAttrs {
  bool left = true;
  std::string check_errors_as;  // the function whose error is thrown; empty: none
};
/// A, B -> (X, LU, pivots, info)
extern OpDef<SolveAttrs> solve_op;

struct InverseAttrs {
  std::string check_errors_as;
};
/// A -> (inverse, info)
extern OpDef<InverseAttrs> inverse_op;
/// A -> (det, LU, pivots), and (sign, logabsdet, LU, pivots).
extern OpDef<NoAttrs> det_op, slogdet_op;

/// linalg::inv, linalg::det and linalg::slogdet under their older names.
Tensor inverse(const Tensor& self);
Tensor det(const Tensor& self);
std::tuple<Tensor, Tensor> slogdet(const Tensor& self);
/// The logarithm of the determinant: NaN if that is negative, -inf if it is zero.
Tensor logdet(const Tensor& self);

namespace linalg {

/// X with A X = B, or X A = B if not `left`. B holds matrices, or vectors if it has one dim or the
/// shape of A without its last dim; batch dims broadcast. Throws if a matrix is singular.
Tensor solve(const Tensor& A, const Tensor& B, bool left = true);
/// (X, info): as above, but `info` says which matrices are singular, unless `check_errors`.
std::tuple<Tensor, Tensor> solve_ex(const Tensor& A, const Tensor& B, bool left = true,
                                    bool check_errors = false);
/// The inverse; throws if a matrix is singular.
Tensor inv(const Tensor& A);
/// (inverse, info): as above, but `info` says which matrices are singular, unless `check_errors`.
std::tuple<Tensor, Tensor> inv_ex(const Tensor& A, bool check_errors = false);
Tensor det(const Tensor& A);
/// (sign, logarithm of the absolute value) of the determinant: 0 and -inf for a singular matrix.
std::tuple<Tensor, Tensor> slogdet(const Tensor& A);

}  // namespace linalg
}  // namespace tensora
