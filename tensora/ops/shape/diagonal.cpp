#include "tensora/ops/shape/diagonal.h"

#include <algorithm>

#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {

constexpr auto describe(std::type_identity<DiagEmbedAttrs>) {
  using A = DiagEmbedAttrs;
  return fields(field("sizes", &A::sizes), field("offset", &A::offset), field("dim1", &A::dim1),
                field("dim2", &A::dim2));
}
constexpr auto describe(std::type_identity<DiagonalAttrs>) {
  using A = DiagonalAttrs;
  return fields(field("offset", &A::offset), field("dim1", &A::dim1), field("dim2", &A::dim2));
}

DiagonalGeometry diagonal_geometry(const Shape& sizes, const Strides& strides,
                                   const DiagonalAttrs& attrs, std::string_view op) {
  check(sizes.size() >= 2, op, ": expected a tensor with at least 2 dimensions, got ",
        sizes.size());
  const int dim1 = wrap_dim(attrs.dim1, sizes.size(), op);
  const int dim2 = wrap_dim(attrs.dim2, sizes.size(), op);
  check(dim1 != dim2, op, ": dim1 and dim2 must differ, got ", attrs.dim1, " and ", attrs.dim2);
  // Beyond the matrix every diagonal is empty.
  const int64_t offset = std::clamp(attrs.offset, -sizes[dim1], sizes[dim2]);
  const int64_t below = std::max<int64_t>(-offset, 0);
  const int64_t above = std::max<int64_t>(offset, 0);
  const int64_t length = std::max<int64_t>(std::min(sizes[dim1] - below, sizes[dim2] - above), 0);
  DiagonalGeometry result;
  for (int d = 0; d < sizes.size(); ++d) {
    if (d == dim1 || d == dim2) continue;
    result.sizes.push_back(sizes[d]);
    result.strides.push_back(strides[d]);
  }
  result.sizes.push_back(length);
  result.strides.push_back(strides[dim1] + strides[dim2]);
  if (length > 0) result.start = below * strides[dim1] + above * strides[dim2];
  return result;
}

constinit OpDef<DiagonalAttrs> diagonal_op = define(Op<DiagonalAttrs>{
    .name = "diagonal",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const DiagonalAttrs& attrs) {
          const Tensor& x = infer[0];
          const DiagonalGeometry at = diagonal_geometry(x.sizes(), x.strides(), attrs, infer.op);
          infer.view(at.sizes, at.strides, x.storage_offset() + at.start);
        },
    .vjp =
        [](Vjp& vjp, const DiagonalAttrs& attrs) {
          vjp.set(0, apply(diag_embed_op, {vjp.grad()},
                           {vjp.input_sizes(0), attrs.offset, attrs.dim1, attrs.dim2}));
        },
    .view = true,
});

constinit OpDef<DiagEmbedAttrs> diag_embed_op = define(Op<DiagEmbedAttrs>{
    .name = "diag_embed",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const DiagEmbedAttrs& attrs) {
          for (const int64_t size : attrs.sizes)
            infer.check(size >= 0, "sizes must not be negative, got ", attrs.sizes);
          const DiagonalGeometry at =
              diagonal_geometry(attrs.sizes, contiguous_strides(attrs.sizes),
                                {attrs.offset, attrs.dim1, attrs.dim2}, infer.op);
          infer.check(infer[0].sizes() == at.sizes, "a diagonal of shape ", infer[0].sizes(),
                      " does not fit into shape ", attrs.sizes, ", which needs ", at.sizes);
          infer.output(attrs.sizes, infer[0].dtype());
        },
    .reference =
        [](Args in, const DiagEmbedAttrs& attrs) {
          const Tensor& part = *in[0];
          Tensors result;
          result.push_back(zeros(attrs.sizes, {.dtype = part.dtype(), .device = part.device()}));
          copy_(diagonal(result[0], attrs.offset, attrs.dim1, attrs.dim2), part);
          return result;
        },
    .vjp =
        [](Vjp& vjp, const DiagEmbedAttrs& attrs) {
          vjp.set(0, diagonal(vjp.grad(), attrs.offset, attrs.dim1, attrs.dim2));
        },
    .accepts = kElementDTypes,
});

void register_diagonal(OpRegistry& registry) {
  registry.add(diagonal_op);
  registry.add(diag_embed_op);
}

Tensor diagonal(const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2) {
  return apply(diagonal_op, {self}, {offset, dim1, dim2});
}

Tensor diag_embed(const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2) {
  check(self.dim() > 0, "diag_embed: expected a tensor with at least one dimension");
  const int first = wrap_dim(dim1, self.dim() + 1, "diag_embed");
  const int second = wrap_dim(dim2, self.dim() + 1, "diag_embed");
  check(first != second, "diag_embed: dim1 and dim2 must differ, got ", dim1, " and ", dim2);
  const int64_t shift = offset < 0 ? multiply_sizes(offset, -1, "diag_embed") : offset;
  const int64_t side = add_sizes(self.sizes().back(), shift, "diag_embed");
  Shape sizes = self.sizes();
  sizes.resize(sizes.size() - 1);
  sizes.insert(std::min(first, second), side);
  sizes.insert(std::max(first, second), side);
  return apply(diag_embed_op, {self}, {sizes, offset, first, second});
}

Tensor diag(const Tensor& self, int64_t diagonal) {
  check(self.dim() == 1 || self.dim() == 2, "diag: expected a 1-D or 2-D tensor, got ", self.dim(),
        " dimensions");
  if (self.dim() == 1) return diag_embed(self, diagonal);
  return clone(tensora::diagonal(self, diagonal));
}

Tensor diagflat(const Tensor& self, int64_t offset) { return diag_embed(ravel(self), offset); }

}  // namespace tensora
