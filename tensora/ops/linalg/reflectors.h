#pragma once

// Householder reflectors: H_i = 1 - tau_i v_i v_i^H, where v_i is 0 above row i, 1 in it, and below
// it the column i of a matrix.

#include "tensora/core/tensor.h"

namespace tensora {

/// (a, tau): R on and above the diagonal of `a`, and the reflectors of Q below it, as LAPACK's
/// geqrf.
std::tuple<Tensor, Tensor> geqrf(const Tensor& self);
/// linalg::householder_product.
Tensor orgqr(const Tensor& self, const Tensor& tau);
/// Q times `other`, or `other` times Q unless `left`, where Q = H_1 H_2 … is given by reflectors;
/// with `transpose` its conjugate transpose.
Tensor ormqr(const Tensor& self, const Tensor& tau, const Tensor& other, bool left = true,
             bool transpose = false);

namespace linalg {

/// The first n columns of H_1 H_2 … H_k, for reflectors below the diagonal of `input` (m n).
Tensor householder_product(const Tensor& input, const Tensor& tau);

}  // namespace linalg
}  // namespace tensora
