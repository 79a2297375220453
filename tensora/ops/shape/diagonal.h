#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct DiagonalAttrs {
  int64_t offset = 0;
  int64_t dim1 = 0;
  int64_t dim2 = 1;
};
extern OpDef<DiagonalAttrs> diagonal_op;

/// Zeros of shape `sizes` with the input on a diagonal; also the gradient of `diagonal`.
struct DiagEmbedAttrs {
  Shape sizes;
  int64_t offset = 0;
  int64_t dim1 = 0;
  int64_t dim2 = 1;
};
extern OpDef<DiagEmbedAttrs> diag_embed_op;

/// Where a diagonal lies in a tensor; the offset and stride in elements.
struct DiagonalGeometry {
  Shape sizes;
  Strides strides;
  int64_t start = 0;
};
/// The two dims leave, the diagonal becomes the last one. Throws, naming `op`, if the dims are
/// wrong.
DiagonalGeometry diagonal_geometry(const Shape& sizes, const Strides& strides,
                                   const DiagonalAttrs& attrs, std::string_view op);

/// The diagonal of two dims as the last dim of a view; `offset` > 0 lies above the main one.
Tensor diagonal(const Tensor& self, int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1);
/// The last dim laid out on the diagonal of two new dims.
Tensor diag_embed(const Tensor& self, int64_t offset = 0, int64_t dim1 = -2, int64_t dim2 = -1);
/// A matrix from its diagonal, or a copy of the diagonal of a matrix.
Tensor diag(const Tensor& self, int64_t diagonal = 0);
/// A matrix with all elements of `self` on a diagonal.
Tensor diagflat(const Tensor& self, int64_t offset = 0);

}  // namespace tensora
