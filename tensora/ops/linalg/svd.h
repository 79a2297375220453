#pragma once

#include <string>

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct SvdAttrs {
  bool full_matrices = true;
  bool compute_uv = true;
};
/// A -> (U, S, Vh)
extern OpDef<SvdAttrs> svd_op;

struct EighAttrs {
  bool upper = false;
  bool compute_v = true;
};
/// A -> (L, V)
extern OpDef<EighAttrs> eigh_op;

/// (U, S, V) with self = U diag(S) V^T; without `compute_uv` U and V are zeros.
std::tuple<Tensor, Tensor, Tensor> svd(const Tensor& self, bool some = true,
                                       bool compute_uv = true);

namespace linalg {

/// (U, S, Vh) with A = U diag(S) Vh, S descending. With `full_matrices` U and Vh are square.
/// Singular vectors are determined up to their sign, and their gradient exists only where the
/// singular values differ.
std::tuple<Tensor, Tensor, Tensor> svd(const Tensor& A, bool full_matrices = true);
Tensor svdvals(const Tensor& A);

/// (L, V) with A = V diag(L) V^T for symmetric matrices, L ascending. Only the triangle `UPLO` of
/// A, "L" or "U", is read.
std::tuple<Tensor, Tensor> eigh(const Tensor& A, std::string_view UPLO = "L");
Tensor eigvalsh(const Tensor& A, std::string_view UPLO = "L");

}  // namespace linalg
}  // namespace tensora
