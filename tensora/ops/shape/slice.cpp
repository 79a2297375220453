#include "tensora/ops/shape/slice.h"

#include <algorithm>
#include <limits>

#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {

constexpr auto describe(std::type_identity<SliceBackwardAttrs>) {
  using A = SliceBackwardAttrs;
  return fields(field("sizes", &A::sizes), field("dim", &A::dim), field("start", &A::start),
                field("step", &A::step));
}
constexpr auto describe(std::type_identity<SelectAttrs>) {
  return fields(field("dim", &SelectAttrs::dim), field("index", &SelectAttrs::index));
}
constexpr auto describe(std::type_identity<SliceAttrs>) {
  using A = SliceAttrs;
  return fields(field("dim", &A::dim), field("start", &A::start), field("end", &A::end),
                field("step", &A::step));
}

namespace {

int64_t clamp_bound(int64_t bound, int64_t size) {
  return std::clamp<int64_t>(bound < 0 ? bound + size : bound, 0, size);
}

// The slice with its bounds inside the dim.
SliceAttrs resolve(const SliceAttrs& attrs, const Shape& sizes, std::string_view op) {
  const int dim = wrap_dim(attrs.dim, sizes.size(), op);
  check(!sizes.empty(), op, ": a 0-dim tensor cannot be sliced");
  check(attrs.step > 0, op, ": step must be positive, got ", attrs.step);
  const int64_t start = clamp_bound(attrs.start, sizes[dim]);
  return {dim, start, std::max(start, clamp_bound(attrs.end, sizes[dim])), attrs.step};
}

}  // namespace

constinit OpDef<SliceAttrs> slice_op = define(Op<SliceAttrs>{
    .name = "slice",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const SliceAttrs& attrs) {
          const Tensor& x = infer[0];
          const SliceAttrs at = resolve(attrs, x.sizes(), infer.op);
          const int dim = static_cast<int>(at.dim);
          Shape sizes = x.sizes();
          Strides strides = x.strides();
          const int64_t span = at.end - at.start;
          sizes[dim] = span / at.step + (span % at.step != 0);
          // A step so large that this overflows leaves one element, whose stride has no effect.
          if (__builtin_mul_overflow(strides[dim], at.step, &strides[dim]))
            strides[dim] = x.strides()[dim];
          // An empty slice at the very end must not point beyond the storage.
          const int64_t skipped = sizes[dim] == 0 ? 0 : at.start * x.strides()[dim];
          infer.view(sizes, strides, x.storage_offset() + skipped);
        },
    .vjp =
        [](Vjp& vjp, const SliceAttrs& attrs) {
          const Shape& sizes = vjp.input_sizes(0);
          const SliceAttrs at = resolve(attrs, sizes, "slice");
          vjp.set(0, apply(slice_backward_op, {vjp.grad()}, {sizes, at.dim, at.start, at.step}));
        },
    .view = true,
});

constinit OpDef<SelectAttrs> select_op = define(Op<SelectAttrs>{
    .name = "select",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const SelectAttrs& attrs) {
          const Tensor& x = infer[0];
          infer.check(x.dim() > 0, "a 0-dim tensor cannot be indexed");
          const int dim = wrap_dim(attrs.dim, x.dim(), infer.op);
          const int64_t size = x.sizes()[dim];
          infer.check(attrs.index >= -size && attrs.index < size, "index ", attrs.index,
                      " is out of bounds for dimension ", dim, " with size ", size);
          const int64_t index = attrs.index < 0 ? attrs.index + size : attrs.index;
          const int64_t offset = x.storage_offset() + index * x.strides()[dim];
          Shape sizes = x.sizes();
          Strides strides = x.strides();
          sizes.erase(dim);
          strides.erase(dim);
          infer.view(sizes, strides, offset);
        },
    .vjp =
        [](Vjp& vjp, const SelectAttrs& attrs) {
          const Shape& sizes = vjp.input_sizes(0);
          const int dim = wrap_dim(attrs.dim, sizes.size(), "select");
          const int64_t index = attrs.index < 0 ? attrs.index + sizes[dim] : attrs.index;
          vjp.set(0,
                  apply(slice_backward_op, {unsqueeze(vjp.grad(), dim)}, {sizes, dim, index, 1}));
        },
    .view = true,
});

constinit OpDef<SliceBackwardAttrs> slice_backward_op = define(Op<SliceBackwardAttrs>{
    .name = "slice_backward",
    .inputs = {"grad"},
    .internal = true,
    .infer =
        [](Infer& infer, const SliceBackwardAttrs& attrs) {
          const int dim = wrap_dim(attrs.dim, attrs.sizes.size(), infer.op);
          const Shape& part = infer[0].sizes();
          bool fits = part.size() == attrs.sizes.size() && attrs.step > 0 && attrs.start >= 0;
          for (int d = 0; fits && d < part.size(); ++d) {
            if (d != dim)
              fits = part[d] == attrs.sizes[d];
            else
              fits =
                  part[d] == 0 || (attrs.start < attrs.sizes[d] &&
                                   part[d] - 1 <= (attrs.sizes[d] - 1 - attrs.start) / attrs.step);
          }
          infer.check(fits, "a slice of shape ", part, " does not fit into shape ", attrs.sizes,
                      " from ", attrs.start, " by ", attrs.step);
          infer.output(attrs.sizes, infer[0].dtype());
        },
    .reference =
        [](Args in, const SliceBackwardAttrs& attrs) {
          const Tensor& part = *in[0];
          Tensors result;
          result.push_back(zeros(attrs.sizes, {.dtype = part.dtype(), .device = part.device()}));
          const int64_t count = part.size(attrs.dim);
          const int64_t end = count == 0 ? attrs.start : attrs.start + (count - 1) * attrs.step + 1;
          copy_(slice(result[0], attrs.dim, attrs.start, end, attrs.step), part);
          return result;
        },
    .vjp =
        [](Vjp& vjp, const SliceBackwardAttrs& attrs) {
          const int dim = wrap_dim(attrs.dim, attrs.sizes.size(), "slice_backward");
          const int64_t count = vjp.input_sizes(0)[dim];
          const int64_t end = count == 0 ? attrs.start : attrs.start + (count - 1) * attrs.step + 1;
          vjp.set(0, slice(vjp.grad(), dim, attrs.start, end, attrs.step));
        },
    .accepts = kElementDTypes,
});

void register_slice(OpRegistry& registry) {
  registry.add(slice_op);
  registry.add(select_op);
  registry.add(slice_backward_op);
}

Tensor narrow(const Tensor& self, int64_t dim, int64_t start, int64_t length) {
  check(self.dim() > 0, "narrow: a 0-dim tensor cannot be narrowed");
  const int at = wrap_dim(dim, self.dim(), "narrow");
  const int64_t size = self.sizes()[at];
  check(length >= 0, "narrow: length must not be negative, got ", length);
  check(start >= -size && start <= size, "narrow: start ", start, " is out of range for dimension ",
        at, " with size ", size);
  const int64_t first = start < 0 ? start + size : start;
  check(length <= size - first, "narrow: start ", start, " + length ", length, " exceeds the size ",
        size, " of dimension ", at);
  return apply(slice_op, {self}, {at, first, first + length, 1});
}

Tensor select(const Tensor& self, int64_t dim, int64_t index) {
  return apply(select_op, {self}, {dim, index});
}

Tensor slice(const Tensor& self, int64_t dim, std::optional<int64_t> start,
             std::optional<int64_t> end, int64_t step) {
  return apply(slice_op, {self},
               {dim, start.value_or(0), end.value_or(std::numeric_limits<int64_t>::max()), step});
}

Tensor Tensor::operator[](int64_t index) const { return tensora::select(*this, 0, index); }

}  // namespace tensora
