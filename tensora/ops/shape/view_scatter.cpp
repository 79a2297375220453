// Registers nothing: functions of other ops.
#include "tensora/ops/shape/view_scatter.h"

#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/copy/fill.h"
#include "tensora/ops/shape/as_strided.h"
#include "tensora/ops/shape/diagonal.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {
namespace {

template <class PartOf>
Tensor with_part(const Tensor& self, const Tensor& src, std::string_view op,
                 const PartOf& part_of) {
  Tensor result = clone(self);
  const Tensor part = part_of(result);
  check(part.sizes() == src.sizes(), op, ": src must have the shape of the part it replaces, ",
        part.sizes(), ", got ", src.sizes());
  copy_(part, src);
  return result;
}

}  // namespace

Tensor select_scatter(const Tensor& self, const Tensor& src, int64_t dim, int64_t index) {
  return with_part(self, src, "select_scatter",
                   [&](const Tensor& x) { return select(x, dim, index); });
}

Tensor slice_scatter(const Tensor& self, const Tensor& src, int64_t dim,
                     std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) {
  return with_part(self, src, "slice_scatter",
                   [&](const Tensor& x) { return slice(x, dim, start, end, step); });
}

Tensor diagonal_scatter(const Tensor& self, const Tensor& src, int64_t offset, int64_t dim1,
                        int64_t dim2) {
  return with_part(self, src, "diagonal_scatter",
                   [&](const Tensor& x) { return diagonal(x, offset, dim1, dim2); });
}

Tensor as_strided_scatter(const Tensor& self, const Tensor& src, const Shape& size,
                          const Strides& stride, std::optional<int64_t> storage_offset) {
  return with_part(self, src, "as_strided_scatter",
                   [&](const Tensor& x) { return as_strided(x, size, stride, storage_offset); });
}

const Tensor& fill_diagonal_(const Tensor& self, Scalar fill_value, bool wrap) {
  check(self.dim() >= 2, "fill_diagonal_: expected a tensor of at least 2 dims, got ", self.dim());
  const Shape& sizes = self.sizes();
  for (int64_t size : sizes)
    check(self.dim() == 2 || size == sizes[0],
          "fill_diagonal_: expected all sizes to be equal in a tensor of more than 2 dims, got ",
          sizes);
  Tensor main = diagonal(self);
  while (main.dim() > 1) main = diagonal(main);
  fill_(main, fill_value);
  // The diagonals below lie `columns + 1` rows apart.
  const int64_t rows = sizes[0], columns = sizes[1];
  if (!wrap || self.dim() != 2 || columns == 0) return self;
  for (int64_t row = columns + 1; row < rows; row += columns + 1)
    fill_(diagonal(self, -row), fill_value);
  return self;
}

}  // namespace tensora
