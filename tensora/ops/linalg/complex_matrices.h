#pragma once

// Internal header: linear algebra of complex matrices by that of real ones.

#include "tensora/dispatch/op.h"

namespace tensora::linalg {

// Note [Complex matrices as real ones]
// The number a + ib acts on pairs of real numbers as [[a, -b], [b, a]]. With such blocks in place
// of its elements a complex matrix is a real one of twice the size, and sums, products, inverses
// and adjoints of the one are those of the other. Triangular matrices with a real diagonal stay
// triangular, so that Cholesky factors carry over too. It costs four times the work of kernels for
// complex numbers, and no room in the library. Decompositions into unitary factors are computed by
// the libraries' complex functions: their vectors occur twice, in any mixture.

/// A complex matrix [m, n] as a real one [2 m, 2 n].
Tensor as_real_matrix(const Tensor& A);
Tensor from_real_matrix(const Tensor& M);
/// The same for a Hermitian matrix, of which one triangle and the diagonal's real part are read.
Tensor as_symmetric_matrix(const Tensor& A);
/// Complex columns [m, k] as real ones [2 m, k].
Tensor as_real_columns(const Tensor& B);
Tensor from_real_columns(const Tensor& X);
/// A count of rows of the real matrix, of which the last may be incomplete, in complex rows.
Tensor halved_count(const Tensor& count);

/// X with A X = B, where A is triangular.
Tensor solve_complex_triangular(const Tensor& A, const Tensor& B, bool upper, bool unitriangular);
/// LU, the pivots as LAPACK counts them, and the number of the first pivot that is zero, or 0.
Tensors factorise_complex(const Tensor& A, bool pivot);

}  // namespace tensora::linalg
