#include "tensora/ops/index/gather.h"

#include <algorithm>

#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/index/index_ops.h"
#include "tensora/ops/index/scatter_operands.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {

constexpr auto describe(std::type_identity<GatherBackwardAttrs>) {
  return fields(field("sizes", &GatherBackwardAttrs::sizes),
                field("dim", &GatherBackwardAttrs::dim));
}
constexpr auto describe(std::type_identity<GatherAttrs>) {
  return fields(field("dim", &GatherAttrs::dim));
}

namespace {

// A 0-dim tensor counts as a 1-D tensor of one element.
Shape widened(const Shape& sizes) { return sizes.empty() ? Shape{1} : sizes; }

void check_index(const Infer& infer, const Shape& self, const Tensor& index, int64_t dim) {
  infer.check(index.dtype() == kInt64 || index.dtype() == kInt32,
              "expected an index of dtype int64 or int32, got ", index.dtype());
  const int at = wrap_dim(dim, self.size(), infer.op);
  const Shape data = widened(self), places = widened(index.sizes());
  infer.check(places.size() == data.size(),
              "index and self must have the same number of "
              "dimensions, got ",
              index.sizes(), " and ", self);
  if (index.numel() == 0) return;
  for (int d = 0; d < data.size(); ++d)
    infer.check(d == at || places[d] <= data[d], "index of shape ", index.sizes(),
                " must not be larger than self of shape ", self, " apart from dimension ", at);
}

void infer_scatter(Infer& infer, const GatherAttrs& attrs) {
  const Tensor &self = infer[0], &index = infer[1], &src = infer[2];
  check_index(infer, self.sizes(), index, attrs.dim);
  infer.check(src.sizes() == index.sizes(), "expected a src of the index's shape ", index.sizes(),
              ", got ", src.sizes());
  infer.check(src.dtype() == self.dtype(), "expected a src of dtype ", self.dtype(), ", got ",
              src.dtype());
  infer.output(self.sizes(), self.dtype());
}

Tensor repeated(Scalar value, const Tensor& self, const Shape& sizes) {
  return expand(full({}, value, {.dtype = self.dtype(), .device = self.device()}), sizes);
}

constexpr Saves kIndex = {in(1), {}, in(1)};

}  // namespace

Tensor scattering::index_for(const Tensor& into, const Tensor& index) {
  if (index.numel() > 0 || index.dim() == into.dim()) return index;
  return view(index, Shape::filled(std::max(into.dim(), 1), 0));
}

Tensor scattering::covered(const Tensor& src, const Tensor& index, std::string_view op) {
  if (src.sizes() == index.sizes()) return src;
  if (index.numel() == 0) return view(slice(ravel(src), 0, 0, 0), index.sizes());
  const Shape places = widened(index.sizes());
  Tensor part = src.dim() == 0 ? ravel(src) : src;
  check(part.dim() == places.size(), op,
        ": index and src must have the same number of dimensions, got ", index.sizes(), " and ",
        src.sizes());
  for (int d = 0; d < places.size(); ++d) {
    check(places[d] <= part.size(d), op, ": index of shape ", index.sizes(),
          " must not be larger than src of shape ", src.sizes());
    if (places[d] < part.size(d)) part = narrow(part, d, 0, places[d]);
  }
  return index.dim() == 0 ? reshape(part, {}) : part;
}

constinit OpDef<GatherAttrs> gather_op = define(Op<GatherAttrs>{
    .name = "gather",
    .inputs = {"self", "index"},
    .primitive = true,
    .infer =
        [](Infer& infer, const GatherAttrs& attrs) {
          check_index(infer, infer[0].sizes(), infer[1], attrs.dim);
          infer.output(infer[1].sizes(), infer[0].dtype());
        },
    .vjp =
        [](Vjp& vjp, const GatherAttrs& attrs) {
          vjp.set(0, apply(gather_backward_op, {vjp.grad(), vjp.input(1)},
                           {vjp.input_sizes(0), attrs.dim}));
        },
    .saves = kIndex,
    .accepts = kElementDTypes,
});

constinit OpDef<GatherBackwardAttrs> gather_backward_op = define(Op<GatherBackwardAttrs>{
    .name = "gather_backward",
    .inputs = {"grad", "index"},
    .internal = true,
    .infer =
        [](Infer& infer, const GatherBackwardAttrs& attrs) {
          check_index(infer, attrs.sizes, infer[1], attrs.dim);
          infer.check(infer[0].sizes() == infer[1].sizes(), "expected a gradient of shape ",
                      infer[1].sizes(), ", got ", infer[0].sizes());
          infer.output(attrs.sizes, infer[0].dtype());
        },
    .reference =
        [](Args in, const GatherBackwardAttrs& attrs) {
          const Tensor zero =
              zeros(attrs.sizes, {.dtype = in[0]->dtype(), .device = in[0]->device()});
          return Tensors{scatter_add(zero, attrs.dim, *in[1], *in[0])};
        },
    .vjp =
        [](Vjp& vjp, const GatherBackwardAttrs& attrs) {
          vjp.set(0, gather(vjp.grad(), attrs.dim, vjp.input(1)));
        },
    .saves = kIndex,
    .accepts = kComputingDTypes,
});

constinit OpDef<GatherAttrs> scatter_op = define(Op<GatherAttrs>{
    .name = "scatter",
    .inputs = {"self", "index", "src"},
    .primitive = true,
    .infer = infer_scatter,
    .vjp =
        [](Vjp& vjp, const GatherAttrs& attrs) {
          const Tensor index = vjp.input(1);
          if (vjp.needs(0)) vjp.set(0, scatter(vjp.grad(), attrs.dim, index, 0));
          if (vjp.needs(2)) vjp.set(2, gather(vjp.grad(), attrs.dim, index));
        },
    .saves = kIndex,
    .accepts = kElementDTypes,
});

constinit OpDef<GatherAttrs> scatter_add_op = define(Op<GatherAttrs>{
    .name = "scatter_add",
    .inputs = {"self", "index", "src"},
    .primitive = true,
    .infer = infer_scatter,
    .vjp =
        [](Vjp& vjp, const GatherAttrs& attrs) {
          if (vjp.needs(0)) vjp.set(0, vjp.grad());
          if (vjp.needs(2)) vjp.set(2, gather(vjp.grad(), attrs.dim, vjp.input(1)));
        },
    .saves = {{}, {}, in(1)},
    .autocast = {Autocast::as_is, Autocast::widest},
    .accepts = kComputingDTypes,
});

void register_gather(OpRegistry& registry) {
  for (const auto* op : {&gather_op, &scatter_op, &scatter_add_op}) registry.add(*op);
  registry.add(gather_backward_op);
  shard_by(gather_op, "along dim");
  shard_by(scatter_op, "along dim");
  shard_by(scatter_add_op, "along dim");
}

Tensor gather(const Tensor& self, int64_t dim, const Tensor& index) {
  // As in PyTorch an index without elements is not looked at: it may have any dtype and shape.
  if (index.defined() && index.numel() == 0) {
    wrap_dim(dim, self.dim(), "gather");
    return view(slice(ravel(self), 0, 0, 0), index.sizes());
  }
  return apply(gather_op, {self, index}, {dim});
}

Tensor scatter(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  const Tensor at = scattering::index_for(self, index);
  return apply(scatter_op, {self, at, scattering::covered(src, at, "scatter")}, {dim});
}
Tensor scatter(const Tensor& self, int64_t dim, const Tensor& index, Scalar value) {
  const Tensor at = scattering::index_for(self, index);
  return apply(scatter_op, {self, at, repeated(value, self, at.sizes())}, {dim});
}
const Tensor& scatter_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  const Tensor at = scattering::index_for(self, index);
  return apply_inplace(scatter_op, {self, at, scattering::covered(src, at, "scatter")}, {dim});
}
const Tensor& scatter_(const Tensor& self, int64_t dim, const Tensor& index, Scalar value) {
  const Tensor at = scattering::index_for(self, index);
  return apply_inplace(scatter_op, {self, at, repeated(value, self, at.sizes())}, {dim});
}

Tensor scatter_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  const Tensor at = scattering::index_for(self, index);
  return apply(scatter_add_op, {self, at, scattering::covered(src, at, "scatter_add")}, {dim});
}
const Tensor& scatter_add_(const Tensor& self, int64_t dim, const Tensor& index,
                           const Tensor& src) {
  const Tensor at = scattering::index_for(self, index);
  return apply_inplace(scatter_add_op, {self, at, scattering::covered(src, at, "scatter_add")},
                       {dim});
}

Tensor take_along_dim(const Tensor& self, const Tensor& indices, std::optional<int64_t> dim) {
  if (!dim) return gather(ravel(self), 0, ravel(indices));
  check(self.dim() == indices.dim(),
        "take_along_dim: self and indices must have the same number "
        "of dimensions, got ",
        self.sizes(), " and ", indices.sizes());
  const int at = wrap_dim(*dim, self.dim(), "take_along_dim");
  if (self.dim() == 0) return gather(self, 0, indices);
  Shape data = self.sizes(), places = indices.sizes();
  data[at] = places[at] = 1;
  const Shape common = broadcast_shapes(data, places, "take_along_dim");
  data = places = common;
  data[at] = self.sizes()[at];
  places[at] = indices.sizes()[at];
  // Unlike gather, and unlike the form without a dim, this one counts from the end too.
  const int64_t size = data[at];
  const Tensor wrapped = indices + to(lt(indices, 0), indices.dtype()) * size;
  return gather(expand(self, data), at, expand(wrapped, places));
}

Tensor take(const Tensor& self, const Tensor& index) {
  check(index.dtype() == kInt64 || index.dtype() == kInt32,
        "take: expected an index of dtype int64 or int32, got ", index.dtype());
  return apply(take_op, {ravel(self), index}, {{0}});
}

}  // namespace tensora
