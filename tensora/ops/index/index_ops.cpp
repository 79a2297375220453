// The ops behind indexing with integer tensors: reading, adding back, writing.
#include "tensora/ops/index/index_ops.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/shape/expand.h"

namespace tensora {
namespace {

bool are_neighbours(const Dims& dims) {
  for (int i = 1; i < dims.size(); ++i)
    if (dims[i] != dims[i - 1] + 1) return false;
  return true;
}

// The shape of the places that inputs [first, …) select in a tensor of shape `sizes`.
IndexedShape infer_places(const Infer& infer, const Shape& sizes, const Dims& dims, size_t first) {
  infer.check(infer.inputs.size() - first == static_cast<size_t>(dims.size()) && !dims.empty(),
              "expected one index tensor per dim of ", dims, ", got ", infer.inputs.size() - first);
  SmallVector<const Shape*, kMaxDims> index_sizes;
  for (size_t i = first; i < infer.inputs.size(); ++i) {
    const DType dtype = infer[i].dtype();
    infer.check(dtype == kInt64 || dtype == kInt32,
                "expected an index of dtype int64 or int32, "
                "got ",
                dtype);
    index_sizes.push_back(&infer[i].sizes());
  }
  for (int i = 0; i < dims.size(); ++i)
    infer.check(dims[i] >= (i == 0 ? 0 : dims[i - 1] + 1) && dims[i] < sizes.size(),
                "the indexed dims must be ascending and less than ", sizes.size(), ", got ", dims);
  return indexed_shape(sizes, dims, {index_sizes.data(), index_sizes.size()}, infer.op);
}

// The gradient's tensor followed by the saved index tensors.
template <size_t First>
SmallVector<Tensor, 4> with_indices(const Vjp& vjp, std::initializer_list<Tensor> front) {
  SmallVector<Tensor, 4> result(front);
  for (size_t i = First; i < vjp.input_count(); ++i) result.push_back(vjp.input(i));
  return result;
}
SmallVector<Arg, 8> args(const SmallVector<Tensor, 4>& tensors) {
  return args_of({tensors.data(), tensors.size()});
}

void infer_index(Infer& infer, const IndexAttrs& attrs) {
  infer.output(infer_places(infer, infer[0].sizes(), attrs.dims, 1).sizes, infer[0].dtype());
}

void index_vjp(Vjp& vjp, const IndexAttrs& attrs) {
  const auto inputs = with_indices<1>(vjp, {vjp.grad()});
  vjp.set(0,
          apply(index_backward_op, args(inputs), {vjp.input_sizes(0), attrs.dims, attrs.negative}));
}

void infer_index_put(Infer& infer, const IndexPutAttrs& attrs) {
  const Tensor &self = infer[0], &values = infer[1];
  const IndexedShape places = infer_places(infer, self.sizes(), attrs.dims, 2);
  infer.check(values.sizes() == places.sizes, "expected values of shape ", places.sizes, ", got ",
              values.sizes());
  infer.check(values.dtype() == self.dtype(), "expected values of dtype ", self.dtype(), ", got ",
              values.dtype());
  infer.output(self.sizes(), self.dtype());
}

void index_put_vjp(Vjp& vjp, const IndexPutAttrs& attrs) {
  const Tensor& grad = vjp.grad();
  if (vjp.needs(0)) {
    if (attrs.accumulate) {
      vjp.set(0, grad);
    } else {
      const Tensor zero = zeros({}, {.dtype = grad.dtype(), .device = grad.device()});
      const auto inputs = with_indices<2>(vjp, {grad, expand(zero, vjp.input_sizes(1))});
      vjp.set(0, apply(index_put_op, args(inputs), attrs));
    }
  }
  if (vjp.needs(1))
    vjp.set(1, apply(index_op, args(with_indices<2>(vjp, {grad})), {attrs.dims, attrs.negative}));
}

constexpr Saves kIndexInputs = {in_from(1)};
constexpr Saves kPutInputs = {in_from(2), in_from(2)};

// The first op of a family is primitive; the others are defined by it.
consteval OpDef<IndexAttrs> define_index(std::string_view name, bool primitive = false) {
  Op<IndexAttrs> op{.name = name,
                    .inputs = {"self", "indices..."},
                    .primitive = primitive,
                    .infer = infer_index,
                    .vjp = index_vjp,
                    .saves = kIndexInputs,
                    .accepts = kElementDTypes};
  if (!primitive)
    op.reference = [](Args in, const IndexAttrs& attrs) {
      return Tensors{apply(index_op, in, attrs)};
    };
  return define(op);
}
consteval OpDef<IndexPutAttrs> define_index_put(std::string_view name, bool primitive = false) {
  Op<IndexPutAttrs> op{.name = name,
                       .inputs = {"self", "values", "indices..."},
                       .primitive = primitive,
                       .infer = infer_index_put,
                       .vjp = index_put_vjp,
                       .saves = kPutInputs,
                       .accepts = kElementDTypes};
  if (!primitive)
    op.reference = [](Args in, const IndexPutAttrs& attrs) {
      return Tensors{apply(index_put_op, in, attrs)};
    };
  return define(op);
}

}  // namespace

IndexedShape indexed_shape(const Shape& sizes, const Dims& dims,
                           std::span<const Shape* const> index_sizes, std::string_view op) {
  Shape common;
  for (const Shape* index : index_sizes) common = broadcast_shapes(common, *index, op);
  IndexedShape result;
  result.index_start = are_neighbours(dims) ? static_cast<int>(dims[0]) : 0;
  result.index_dims = common.size();
  for (int d = 0; d < sizes.size(); ++d)
    if (!dims.contains(d)) result.kept.push_back(d);
  for (int i = 0; i <= result.kept.size(); ++i) {
    if (i == result.index_start)
      for (int64_t size : common) result.sizes.push_back(size);
    if (i < result.kept.size()) result.sizes.push_back(sizes[static_cast<int>(result.kept[i])]);
  }
  return result;
}

// The same op under several names: errors and profiles show the function that the user called.
constinit OpDef<IndexAttrs> index_op = define_index("index", true);
constinit OpDef<IndexAttrs> index_select_op = define_index("index_select");
constinit OpDef<IndexAttrs> take_op = define_index("take");
constinit OpDef<IndexPutAttrs> index_put_op = define_index_put("index_put", true);
constinit OpDef<IndexPutAttrs> index_add_op = define_index_put("index_add");
constinit OpDef<IndexPutAttrs> index_copy_op = define_index_put("index_copy");
constinit OpDef<IndexPutAttrs> index_fill_op = define_index_put("index_fill");

constinit OpDef<IndexBackwardAttrs> index_backward_op = define(Op<IndexBackwardAttrs>{
    .name = "index_backward",
    .inputs = {"grad", "indices..."},
    .internal = true,
    .infer =
        [](Infer& infer, const IndexBackwardAttrs& attrs) {
          const IndexedShape places = infer_places(infer, attrs.sizes, attrs.dims, 1);
          infer.check(infer[0].sizes() == places.sizes, "expected values of shape ", places.sizes,
                      ", got ", infer[0].sizes());
          infer.output(attrs.sizes, infer[0].dtype());
        },
    .reference =
        [](Args in, const IndexBackwardAttrs& attrs) {
          const Tensor zero =
              zeros(attrs.sizes, {.dtype = in[0]->dtype(), .device = in[0]->device()});
          SmallVector<Arg, 8> inputs{zero};
          inputs.append_range(in.begin(), in.end());
          return Tensors{apply(index_put_op, Args(inputs.data(), inputs.size()),
                               {attrs.dims, /*accumulate=*/true, attrs.negative})};
        },
    .vjp =
        [](Vjp& vjp, const IndexBackwardAttrs& attrs) {
          vjp.set(0, apply(index_op, args(with_indices<1>(vjp, {vjp.grad()})),
                           {attrs.dims, attrs.negative}));
        },
    .saves = kIndexInputs,
    .accepts = kComputingDTypes,
});

void register_index_ops(OpRegistry& registry) {
  for (const auto* op : {&index_op, &index_select_op, &take_op}) registry.add(*op);
  for (const auto* op : {&index_put_op, &index_add_op, &index_copy_op, &index_fill_op})
    registry.add(*op);
  registry.add(index_backward_op);
}

}  // namespace tensora
