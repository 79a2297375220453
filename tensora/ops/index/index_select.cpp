// Registers nothing: functions of other ops.
#include "tensora/ops/index/index_select.h"

#include "tensora/core/fit_scalar.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/index/index_ops.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {
namespace {

// The index as a 1-D tensor.
Tensor positions_of(const Tensor& index, std::string_view op) {
  check(index.dim() <= 1, op, ": expected a 1-D index, got ", index.dim(), " dimensions");
  return atleast_1d(index);
}

// The shape of the slices of `self` that `positions` name.
Shape slices_shape(const Tensor& self, int dim, const Tensor& positions) {
  Shape sizes = self.sizes();
  sizes[dim] = positions.numel();
  return sizes;
}

Tensor checked_source(const Tensor& self, int dim, const Tensor& positions, const Tensor& source,
                      std::string_view op) {
  const Shape expected = slices_shape(self, dim, positions);
  const Tensor widened = atleast_1d(source);
  check(widened.sizes() == expected, op, ": expected a source of shape ", expected,
        " for a tensor of shape ", self.sizes(), " and ", positions.numel(),
        " positions along dimension ", dim, ", got ", source.sizes());
  return widened;
}

void check_fill(const Tensor& self, bool single, bool complex_value) {
  check(single, "index_fill: expected a 0-dim value");
  check(!complex_value || self.is_complex(), "index_fill: a complex number cannot be stored as ",
        self.dtype());
}

// One call of an index_put-like op, on `self` or into it. A 0-dim tensor counts as one of one
// element.
struct Writer {
  const OpDef<IndexPutAttrs>& op;
  const Tensor& self;
  Tensor target;
  int dim;
  Tensor positions;

  Writer(const OpDef<IndexPutAttrs>& which, const Tensor& x, int64_t at, const Tensor& index)
      : op(which),
        self(x),
        target(atleast_1d(x)),
        dim(wrap_dim(at, x.dim(), which.name)),
        positions(positions_of(index, which.name)) {}

  Tensor out_of_place(const Tensor& values, const IndexPutAttrs& attrs) const {
    const Tensor result = apply(op, {target, values, positions}, attrs);
    return self.dim() == 0 ? reshape(result, {}) : result;
  }
  const Tensor& in_place(const Tensor& values, const IndexPutAttrs& attrs) const {
    apply_inplace(op, {target, values, positions}, attrs);
    return self;
  }
  IndexPutAttrs adding() const {
    return {.dims = {dim}, .accumulate = true, .negative = Negative::refused};
  }
  IndexPutAttrs copying() const { return {.dims = {dim}, .negative = Negative::refused}; }
  IndexPutAttrs filling() const { return {.dims = {dim}}; }
  // A 0-dim source counts as a vector where slices are copied, but not where they are added up.
  Tensor source(const Tensor& values) const {
    check(&op != &index_add_op || values.dim() == self.dim(), op.name,
          ": source must have as many dimensions as self, ", self.sizes(), ", got shape ",
          values.sizes());
    return checked_source(target, dim, positions, values, op.name);
  }
  Tensor filled(const Tensor& value) const {
    check_fill(self, value.dim() == 0, value.is_complex());
    return expand(to(value, self.device(), self.dtype()), slices_shape(target, dim, positions));
  }
  Tensor filled(Scalar value) const {
    check_fill(self, true, value.is_complex());
    return filled(full({}, value, {.dtype = self.dtype(), .device = self.device()}));
  }
};

// In the source's dtype: for integers the fraction of `alpha` is truncated, as in PyTorch.
Tensor times(const Tensor& source, Scalar alpha) {
  return alpha == 1 ? source : mul(source, fit_scalar(alpha, source.dtype(), "index_add"));
}

// index_fill with a value that has a gradient: that is the sum over the filled places, each once
// however often the index names it.
Tensor chosen(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value) {
  check_fill(self, value.dim() == 0, value.is_complex());
  const Tensor target = atleast_1d(self);
  const int at = wrap_dim(dim, self.dim(), "index_fill");
  Shape line = Shape::filled(target.dim(), 1);
  line[at] = target.sizes()[at];
  const Tensor mask =
      index_fill(zeros({line[at]}, {.dtype = kBool, .device = self.device()}), 0, index, true);
  const Tensor result = where(view(mask, line), to(value, self.device(), self.dtype()), target);
  return self.dim() == 0 ? reshape(result, {}) : result;
}

}  // namespace

Tensor index_select(const Tensor& self, int64_t dim, const Tensor& index) {
  const int at = wrap_dim(dim, self.dim(), "index_select");
  const Tensor positions = positions_of(index, "index_select");
  check(self.dim() > 0 || positions.numel() == 1,
        "index_select: of a 0-dim tensor, an index selects one element, got ", positions.numel());
  const Tensor result =
      apply(index_select_op, {atleast_1d(self), positions}, {{at}, Negative::refused});
  return self.dim() == 0 ? reshape(result, {}) : result;
}

Tensor index_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                 Scalar alpha) {
  const Writer writer(index_add_op, self, dim, index);
  return writer.out_of_place(times(writer.source(source), alpha), writer.adding());
}
const Tensor& index_add_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                         Scalar alpha) {
  const Writer writer(index_add_op, self, dim, index);
  return writer.in_place(times(writer.source(source), alpha), writer.adding());
}

Tensor index_copy(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  const Writer writer(index_copy_op, self, dim, index);
  return writer.out_of_place(writer.source(source), writer.copying());
}
const Tensor& index_copy_(const Tensor& self, int64_t dim, const Tensor& index,
                          const Tensor& source) {
  const Writer writer(index_copy_op, self, dim, index);
  return writer.in_place(writer.source(source), writer.copying());
}

Tensor index_fill(const Tensor& self, int64_t dim, const Tensor& index, Scalar value) {
  const Writer writer(index_fill_op, self, dim, index);
  return writer.out_of_place(writer.filled(value), writer.filling());
}
const Tensor& index_fill_(const Tensor& self, int64_t dim, const Tensor& index, Scalar value) {
  const Writer writer(index_fill_op, self, dim, index);
  return writer.in_place(writer.filled(value), writer.filling());
}
Tensor index_fill(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value) {
  if (value.requires_grad()) return chosen(self, dim, index, value);
  const Writer writer(index_fill_op, self, dim, index);
  return writer.out_of_place(writer.filled(value), writer.filling());
}
const Tensor& index_fill_(const Tensor& self, int64_t dim, const Tensor& index,
                          const Tensor& value) {
  if (value.requires_grad()) return copy_(self, chosen(self, dim, index, value));
  const Writer writer(index_fill_op, self, dim, index);
  return writer.in_place(writer.filled(value), writer.filling());
}

}  // namespace tensora
