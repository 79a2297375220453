#include "tensora/ops/quant/quantize.h"

#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"

namespace tensora {

constexpr auto describe(std::type_identity<DequantizeAttrs>) {
  return fields(field("dtype", &DequantizeAttrs::dtype));
}
constexpr auto describe(std::type_identity<QuantizeAttrs>) {
  return fields(field("dtype", &QuantizeAttrs::dtype));
}

namespace {

constexpr DTypeSet kAccepted = dtypes_where([](const DTypeInfo& info) {
  return info.category == Category::quantized ||
         (info.category == Category::floating && info.computes);
});

}  // namespace

constinit OpDef<QuantizeAttrs> quantize_op = define(Op<QuantizeAttrs>{
    .name = "quantize",
    .inputs = {"self"},
    .primitive = true,
    .infer =
        [](Infer& infer, const QuantizeAttrs& attrs) {
          const Tensor& x = infer[0];
          infer.check(is_floating_point(x.dtype()), "expected a floating-point tensor, got ",
                      x.dtype());
          infer.check(is_quantized(attrs.dtype), "expected a quantized dtype, got ", attrs.dtype);
          const int64_t block = dtype_info(attrs.dtype).block_numbers;
          infer.check(x.dim() >= 1 && x.sizes().back() % block == 0,
                      "the last dim must consist of blocks of ", block, ", got shape ", x.sizes());
          infer.check(x.is_contiguous(), "expected a contiguous tensor");
          infer.output(x.sizes(), attrs.dtype);
        },
    .gradient = Gradient::not_differentiable,
    .accepts = kAccepted,
});

constinit OpDef<DequantizeAttrs> dequantize_op = define(Op<DequantizeAttrs>{
    .name = "dequantize",
    .inputs = {"self"},
    .primitive = true,
    .infer =
        [](Infer& infer, const DequantizeAttrs& attrs) {
          infer.check(infer[0].is_quantized(), "expected a quantized tensor, got ",
                      infer[0].dtype());
          infer.check(is_floating_point(attrs.dtype), "expected a floating-point dtype, got ",
                      attrs.dtype);
          infer.check(infer[0].is_contiguous(), "expected a contiguous tensor");
          infer.output(infer[0].sizes(), attrs.dtype);
        },
    .gradient = Gradient::not_differentiable,
    .accepts = kAccepted,
});

void register_quantize(OpRegistry& registry) {
  registry.add(quantize_op);
  registry.add(dequantize_op);
}

Tensor quantize(const Tensor& self, DType dtype) {
  return apply(quantize_op, {contiguous(self)}, {dtype});
}

Tensor dequantize(const Tensor& self, DType dtype) {
  return apply(dequantize_op, {contiguous(self)}, {dtype});
}

}  // namespace tensora
