#pragma once

#include <string>

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct LuAttrs {
  bool pivot = true;
  std::string check_errors_as;  // the function whose error is thrown; empty: none
};
/// A -> (LU, pivots, info): both factors in one matrix, the rows that were exchanged, counted from
/// 1, and per matrix 0 or the first diagonal element of U that is zero, counted from 1.
extern OpDef<LuAttrs> lu_factor_op;

struct LuSolveAttrs {
  bool adjoint = false;
};
/// LU, pivots, B -> X with A X = B, or A^T X = B if `adjoint`.
extern OpDef<LuSolveAttrs> lu_solve_op;

struct PermutationAttrs {
  int64_t rows = 0;
};
/// pivots (… k) -> where each of the `rows` rows of P^T A comes from, as int64.
extern OpDef<PermutationAttrs> pivots_to_permutation_op;

namespace linalg {

/// (LU, pivots) with A = P L U. Throws if U has a zero on its diagonal.
std::tuple<Tensor, Tensor> lu_factor(const Tensor& A, bool pivot = true);
/// (LU, pivots, info): as above, but `info` says where U has a zero, unless `check_errors`.
std::tuple<Tensor, Tensor, Tensor> lu_factor_ex(const Tensor& A, bool pivot = true,
                                                bool check_errors = false);
/// (P, L, U) with A = P L U; without `pivot` P is empty.
std::tuple<Tensor, Tensor, Tensor> lu(const Tensor& A, bool pivot = true);
/// X with A X = B, or X A = B if not `left`, from the factors of A; with those of A^T if `adjoint`.
Tensor lu_solve(const Tensor& LU, const Tensor& pivots, const Tensor& B, bool left = true,
                bool adjoint = false);

}  // namespace linalg

/// (P, L, U) from what `linalg::lu_factor` returns.
std::tuple<Tensor, Tensor, Tensor> lu_unpack(const Tensor& LU_data, const Tensor& LU_pivots,
                                             bool unpack_data = true, bool unpack_pivots = true);
/// linalg::lu_solve with the right-hand side first.
Tensor lu_solve(const Tensor& self, const Tensor& LU_data, const Tensor& LU_pivots);

}  // namespace tensora
