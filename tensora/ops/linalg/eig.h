#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct EigAttrs {
  bool compute_v = true;
};
/// A -> (L, V), both complex.
extern OpDef<EigAttrs> eig_op;

struct LdlFactorAttrs {
  bool hermitian = false;
  bool check_errors = false;
};
/// A -> (LD, pivots, info)
extern OpDef<LdlFactorAttrs> ldl_factor_op;

struct LdlAttrs {
  bool hermitian = false;
};
/// LD, pivots, B -> X
extern OpDef<LdlAttrs> ldl_solve_op;

namespace linalg {

/// (L, V) with A V = V diag(L) for square matrices; both are complex. Vectors have norm 1 and are
/// determined up to a phase. Devices other than the CPU compute it on the CPU.
std::tuple<Tensor, Tensor> eig(const Tensor& A);
Tensor eigvals(const Tensor& A);

/// (LD, pivots) of the Bunch-Kaufman factorisation of symmetric matrices, or of Hermitian ones,
/// whose lower triangle is read; pivots as LAPACK counts them. No gradient.
std::tuple<Tensor, Tensor> ldl_factor(const Tensor& A, bool hermitian = false);
/// The same and a status per matrix, 0 where D can be inverted. Throws for others if
/// `check_errors`.
std::tuple<Tensor, Tensor, Tensor> ldl_factor_ex(const Tensor& A, bool hermitian = false,
                                                 bool check_errors = false);
/// X with A X = B, from the factorisation of A. The gradient is that of B.
Tensor ldl_solve(const Tensor& LD, const Tensor& pivots, const Tensor& B, bool hermitian = false);

/// The square root of symmetric or Hermitian positive-definite matrices, of which the lower
/// triangle is read.
Tensor matrix_sqrth(const Tensor& A);

}  // namespace linalg
}  // namespace tensora
