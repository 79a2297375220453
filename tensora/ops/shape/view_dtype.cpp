#include "tensora/ops/shape/view_dtype.h"

#include "tensora/autograd/grad_mode.h"
#include "tensora/dispatch/op.h"

namespace tensora {

constexpr auto describe(std::type_identity<ViewDtypeAttrs>) {
  return fields(field("dtype", &ViewDtypeAttrs::dtype));
}

namespace {

// The geometry, in elements that are `ratio` times as many.
void view_smaller(Infer& infer, DType dtype, int64_t ratio) {
  const Tensor& x = infer[0];
  Shape sizes = x.sizes();
  Strides strides = x.strides();
  const int last = x.dim() - 1;
  for (int i = 0; i < last; ++i) strides[i] *= ratio;
  sizes[last] = multiply_sizes(sizes[last], ratio, infer.op);
  infer.outputs.emplace_back(sizes, strides, x.storage_offset() * ratio, dtype);
}

// The geometry, in elements each of which is made of `ratio` of the old ones.
void view_larger(Infer& infer, DType dtype, int64_t ratio) {
  const Tensor& x = infer[0];
  Shape sizes = x.sizes();
  Strides strides = x.strides();
  const int last = x.dim() - 1;
  infer.check(sizes[last] % ratio == 0, "the last size must be divisible by ", ratio, " to view ",
              x.dtype(), " as ", dtype, ", got shape ", sizes);
  infer.check(x.storage_offset() % ratio == 0, "the storage offset must be divisible by ", ratio,
              " to view ", x.dtype(), " as ", dtype, ", got ", x.storage_offset());
  for (int i = 0; i < last; ++i) {
    infer.check(strides[i] % ratio == 0, "the stride of dimension ", i, " must be divisible by ",
                ratio, " to view ", x.dtype(), " as ", dtype, ", got ", strides[i]);
    strides[i] /= ratio;
  }
  sizes[last] /= ratio;
  infer.outputs.emplace_back(sizes, strides, x.storage_offset() / ratio, dtype);
}

void infer_view_dtype(Infer& infer, const ViewDtypeAttrs& attrs) {
  const Tensor& x = infer[0];
  infer.check(!is_quantized(x.dtype()) && !is_quantized(attrs.dtype),
              "quantized tensors have no elements to view as others");
  const auto from = static_cast<int64_t>(element_size(x.dtype()));
  const auto to = static_cast<int64_t>(element_size(attrs.dtype));
  if (from == to) {
    infer.outputs.emplace_back(x.sizes(), x.strides(), x.storage_offset(), attrs.dtype);
    return;
  }
  infer.check(x.dim() > 0, "a 0-dim ", x.dtype(), " tensor cannot be viewed as ", attrs.dtype,
              ", whose elements have another size");
  infer.check(x.stride(-1) == 1, "the last stride must be 1 to view ", x.dtype(), " as ",
              attrs.dtype, ", got ", x.stride(-1));
  from > to ? view_smaller(infer, attrs.dtype, from / to)
            : view_larger(infer, attrs.dtype, to / from);
}

}  // namespace

constinit OpDef<ViewDtypeAttrs> view_dtype_op = define(Op<ViewDtypeAttrs>{
    .name = "view_dtype",
    .inputs = {"self"},
    .internal = true,
    .infer = infer_view_dtype,
    .vjp = [](Vjp&, const ViewDtypeAttrs&) {},  // bits have no gradient
    .view = true,
});

void register_view_dtype(OpRegistry& registry) { registry.add(view_dtype_op); }

Tensor view_dtype(const Tensor& self, DType dtype) {
  const no_grad silent;
  Tensor alias = apply(view_dtype_op, {self}, {dtype});
  // As with detach(): it takes no part in the base's history.
  delete std::exchange(alias.impl().autograd, nullptr);
  alias.impl().inference = self.is_inference();
  return alias;
}

}  // namespace tensora
