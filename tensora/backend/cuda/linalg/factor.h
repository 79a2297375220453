#pragma once

// Factorisations and triangular solves by the CUDA libraries, of float32 and float64, in place and
// queued on the current stream. Status numbers are written to the device's memory. QR, SVD and
// eigenvalues are also those of complex matrices.

#include "tensora/backend/cuda/linalg/columns.h"

namespace tensora::cuda {

/// Which matrices: `count` of m rows and n columns.
struct Matrices {
  const KernelContext& context;
  DType dtype;
  int64_t count = 1;
  int64_t m = 0;
  int64_t n = 0;
};

/// The Cholesky factor in one triangle of A; the other one is not touched.
void factorise_cholesky(const Matrices& sizes, const ColumnBatch& A, bool upper, int32_t* infos);

/// Both factors in place of A; `pivots` (count min(m, n), row-major) counts from 1.
void factorise_lu(const Matrices& sizes, const ColumnBatch& A, bool pivot, const View& pivots,
                  int32_t* infos);
/// X (n m) = A^-1 X from the factors of A (n n), or A^-T X. `pivots` is count n, row-major.
void solve_lu(const Matrices& x_sizes, const ColumnBatch& LU, const View& pivots,
              const ColumnBatch& X, bool adjoint);

struct TriangularSides {
  bool upper = false;
  bool left = true;
  bool unit = false;
};
/// X (m n) = A^-1 X, or X A^-1 if not `left`.
void solve_triangular(const Matrices& x_sizes, const ColumnBatch& A, const ColumnBatch& X,
                      const TriangularSides& sides);

/// R in the upper triangle of A and the reflectors of Q below it; `tau` holds count min(m, n).
void factorise_qr(const Matrices& sizes, const ColumnBatch& A, void* tau);
/// The first `columns` columns of Q, from `reflectors` of them below the diagonal of Q.
void form_q(const Matrices& q_sizes, const ColumnBatch& Q, int64_t reflectors, const void* tau);

/// A (m n, m >= n; destroyed) = U S V^H. U and Vh may have no data, then only S is computed, which
/// is real; `full` asks for all m columns of U.
void decompose_svd(const Matrices& sizes, const ColumnBatch& A, void* S, const ColumnBatch& U,
                   const ColumnBatch& Vh, bool full, int32_t* infos);
/// Eigenvalues, real and ascending, of Hermitian matrices of which one triangle is read; with
/// `vectors` A becomes the eigenvectors, otherwise it is destroyed.
void decompose_symmetric(const Matrices& sizes, const ColumnBatch& A, void* values, bool vectors,
                         bool upper, int32_t* infos);

}  // namespace tensora::cuda
