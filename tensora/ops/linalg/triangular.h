#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct TriangularAttrs {
  bool upper = false;
  bool left = true;
  bool unitriangular = false;
};
extern OpDef<TriangularAttrs> solve_triangular_op;

/// (X, a copy of A) with A X = b: linalg::solve_triangular under its older name.
std::tuple<Tensor, Tensor> triangular_solve(const Tensor& self, const Tensor& A, bool upper = true,
                                            bool transpose = false, bool unitriangular = false);

namespace linalg {

/// X with A X = B, or X A = B if not `left`. Of A only the triangle is read, and with
/// `unitriangular` its diagonal counts as ones. Batch dims broadcast.
Tensor solve_triangular(const Tensor& A, const Tensor& B, bool upper, bool left = true,
                        bool unitriangular = false);

}  // namespace linalg
}  // namespace tensora
