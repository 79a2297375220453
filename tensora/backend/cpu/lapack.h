#pragma once

// LAPACK's decompositions, from the installed OpenBLAS. Matrices are stored by columns, one after
// the other.

#include <string_view>

#include "tensora/core/dtype.h"

namespace tensora::cpu {

/// Its functions for float32, float64, complex64 or complex128; see Note [Libraries on request] in
/// gemm_installed.cpp. Calls belong into a scope of OpenBlasOnThisThread; several threads may call
/// at once. Each returns LAPACK's status number: 0, or what failed.
class Lapack {
 public:
  /// Throws an Error that names `op` and says what to install where there is none.
  Lapack(DType dtype, std::string_view op);

  /// R in the upper triangle of A (m n) and the reflectors of Q below it; `tau` has min(m, n).
  int factorise_qr(int m, int n, void* A, void* tau) const;
  /// The first n columns of Q (m n), from `reflectors` of them below its diagonal.
  int form_q(int m, int n, int reflectors, void* Q, const void* tau) const;
  /// A (m n; destroyed) = U S Vh, with all vectors (job 'A'), min(m, n) of them ('S') or none
  /// ('N'). S is real.
  int decompose_svd(char job, int m, int n, void* A, void* S, void* U, void* Vh) const;
  /// Eigenvalues, real and ascending, of symmetric or Hermitian matrices (n n) of which the upper
  /// ('U') or the lower triangle ('L') is read; A becomes the eigenvectors (job 'V') or is
  /// destroyed.
  int decompose_symmetric(char job, char triangle, int n, void* A, void* values) const;
  /// Eigenvalues of a matrix (n n; destroyed) and, unless V is null, its eigenvectors; both are
  /// complex.
  int decompose_general(int n, void* A, void* values, void* V) const;
  /// The Bunch-Kaufman factors of a symmetric or `hermitian` matrix (n n), of which the lower
  /// triangle is read, in its place.
  int factorise_ldl(bool hermitian, int n, void* A, int* pivots) const;
  /// B (n columns) becomes X with A X = B, from those factors.
  int solve_ldl(bool hermitian, int n, int columns, void* LD, const int* pivots, void* B) const;

 private:
  struct Functions;
  static const Functions& functions_of(DType dtype);

  const Functions& functions_;
  DType dtype_;
};

}  // namespace tensora::cpu
