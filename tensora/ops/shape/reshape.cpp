#include "tensora/ops/shape/reshape.h"

#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/copy/copy.h"

namespace tensora {

constexpr auto describe(std::type_identity<ViewAttrs>) {
  return fields(field("size", &ViewAttrs::size));
}

namespace {

// The strides under which a tensor shows the same elements in the same order as `to`; none if
// no strides do. Both shapes have the same number of elements.
//
// From the innermost dim outwards the old dims fall into blocks, within which memory is evenly
// spaced; each block must be the product of a run of new dims.
std::optional<Strides> strides_as(const Shape& from, const Strides& strides, const Shape& to) {
  if (from == to) return strides;
  if (from.numel() == 0 || from.empty()) return contiguous_strides(to);
  Strides result;
  result.resize(to.size());
  int next = to.size() - 1;
  int64_t step = strides.back();  // of the current block
  int64_t old_count = 1, new_count = 1;
  for (int d = from.size() - 1; d >= 0; --d) {
    old_count *= from[d];
    const bool block_ends = d == 0 || (from[d - 1] != 1 && strides[d - 1] != old_count * step);
    if (!block_ends) continue;
    while (next >= 0 && (new_count < old_count || to[next] == 1)) {
      result[next] = new_count * step;
      new_count *= to[next--];
    }
    if (new_count != old_count) return {};
    if (d > 0) step = strides[d - 1];
    old_count = new_count = 1;
  }
  if (next >= 0) return {};
  return result;
}

}  // namespace

constinit OpDef<ViewAttrs> view_op = define(Op<ViewAttrs>{
    .name = "view",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const ViewAttrs& attrs) {
          const Tensor& x = infer[0];
          const Shape size = infer_size(attrs.size, x.numel(), infer.op);
          const std::optional<Strides> strides = strides_as(x.sizes(), x.strides(), size);
          infer.check(strides.has_value(), "shape ", size,
                      " cannot be viewed in a tensor of shape ", x.sizes(), " and strides ",
                      x.strides(), " without a copy; use reshape");
          infer.view(size, *strides, x.storage_offset());
        },
    .vjp = [](Vjp& vjp, const ViewAttrs&) { vjp.set(0, reshape(vjp.grad(), vjp.input_sizes(0))); },
    .view = true,
});

void register_reshape(OpRegistry& registry) {
  registry.add(view_op);
  shard_by(view_op, "view size");
}

Tensor view(const Tensor& self, const Shape& size) { return apply(view_op, {self}, {size}); }
Tensor view_as(const Tensor& self, const Tensor& other) {
  return called_as("view_as", [&] { return view(self, other.sizes()); });
}

Tensor reshape(const Tensor& self, const Shape& shape) {
  const Shape size = infer_size(shape, self.numel(), "reshape");
  if (self.is_contiguous() || strides_as(self.sizes(), self.strides(), size))
    return view(self, size);
  return view(contiguous(self), size);
}
Tensor reshape_as(const Tensor& self, const Tensor& other) {
  return called_as("reshape_as", [&] { return reshape(self, other.sizes()); });
}

Tensor flatten(const Tensor& self, int64_t start_dim, int64_t end_dim) {
  const int first = wrap_dim(start_dim, self.dim(), "flatten");
  const int last = wrap_dim(end_dim, self.dim(), "flatten");
  check(first <= last, "flatten: start_dim ", start_dim, " comes after end_dim ", end_dim);
  if (self.dim() == 0) return reshape(self, {1});
  if (first == last) return self;
  Shape sizes;
  for (int d = 0; d <= first; ++d) sizes.push_back(self.sizes()[d]);
  for (int d = first + 1; d <= last; ++d)
    sizes[first] = multiply_sizes(sizes[first], self.sizes()[d], "flatten");
  for (int d = last + 1; d < self.dim(); ++d) sizes.push_back(self.sizes()[d]);
  return reshape(self, sizes);
}

Tensor ravel(const Tensor& self) { return view(contiguous(self), {self.numel()}); }

Tensor unflatten(const Tensor& self, int64_t dim, const Shape& sizes) {
  const int at = wrap_dim(dim, self.dim(), "unflatten");
  check(self.dim() > 0, "unflatten: expected a tensor with at least one dimension");
  check(!sizes.empty(), "unflatten: sizes must not be empty");
  const Shape parts = infer_size(sizes, self.sizes()[at], "unflatten");
  Shape result;
  for (int d = 0; d < at; ++d) result.push_back(self.sizes()[d]);
  for (int64_t part : parts) result.push_back(part);
  for (int d = at + 1; d < self.dim(); ++d) result.push_back(self.sizes()[d]);
  return view(self, result);
}

Tensor squeeze(const Tensor& self) {
  Shape sizes;
  for (int64_t size : self.sizes())
    if (size != 1) sizes.push_back(size);
  return view(self, sizes);
}

Tensor squeeze(const Tensor& self, const Dims& dim) {
  if (dim.empty()) return view(self, self.sizes());
  const Dims dropped = wrap_dims(dim, self.dim(), "squeeze");
  Shape sizes;
  for (int d = 0; d < self.dim(); ++d)
    if (self.sizes()[d] != 1 || !dropped.contains(d)) sizes.push_back(self.sizes()[d]);
  return view(self, sizes);
}

Tensor unsqueeze(const Tensor& self, int64_t dim) {
  Shape sizes = self.sizes();
  sizes.insert(wrap_dim(dim, self.dim() + 1, "unsqueeze"), 1);
  return view(self, sizes);
}

Tensor atleast_1d(const Tensor& self) { return self.dim() >= 1 ? self : view(self, {1}); }

Tensor atleast_2d(const Tensor& self) {
  if (self.dim() >= 2) return self;
  return view(self, {1, self.numel()});
}

Tensor atleast_3d(const Tensor& self) {
  if (self.dim() >= 3) return self;
  return self.dim() == 2 ? unsqueeze(self, -1) : view(self, {1, self.numel(), 1});
}

}  // namespace tensora
