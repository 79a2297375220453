#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// a: … m k, b: … k n, out: … m n; the batch dims broadcast.
extern OpDef<NoAttrs> matmul_op;

/// PyTorch's matmul: vectors, matrices and batches of them, batch dims broadcast.
Tensor matmul(const Tensor& self, const Tensor& other);
/// Matrix times matrix.
Tensor mm(const Tensor& self, const Tensor& mat2);
/// Batch of matrices times batch of matrices, without broadcasting.
Tensor bmm(const Tensor& self, const Tensor& mat2);
/// Matrix times vector.
Tensor mv(const Tensor& self, const Tensor& vec);
/// The sum of products of two vectors.
Tensor dot(const Tensor& self, const Tensor& other);
/// All products of two vectors' elements, as a matrix.
Tensor outer(const Tensor& self, const Tensor& vec2);

}  // namespace tensora
