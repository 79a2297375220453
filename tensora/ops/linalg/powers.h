#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// The product of square matrices with themselves, `n` times; of their inverses if `n` is negative.
Tensor matrix_power(const Tensor& self, int64_t n);
/// The exponential of square matrices, the sum of A^k / k!. Reads how large they are.
Tensor matrix_exp(const Tensor& self);

namespace linalg {

Tensor matrix_power(const Tensor& A, int64_t n);
Tensor matrix_exp(const Tensor& A);
/// The sums of products of vectors along `dim`; other dims broadcast.
Tensor vecdot(const Tensor& x, const Tensor& y, int64_t dim = -1);
/// The tensor whose `tensordot` over `ind` dims with A is the identity: the first `ind` dims of A
/// hold as many elements as the others.
Tensor tensorinv(const Tensor& A, int64_t ind = 2);
/// X with tensordot(A, X, X.dim()) = B.
Tensor tensorsolve(const Tensor& A, const Tensor& B);
/// The product of all matrices, in the order that needs the fewest multiplications. The first and
/// the last may be vectors.
Tensor multi_dot(const std::vector<Tensor>& tensors);
/// Columns of powers of the elements, x^0 to x^(N-1); N is the length of x if it is 0.
Tensor vander(const Tensor& x, int64_t N = 0);

}  // namespace linalg

}  // namespace tensora
