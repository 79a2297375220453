#include "tensora/ops/norm/residual_norm.h"

#include <cmath>

#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/norm/layer_norm.h"
#include "tensora/ops/norm/residual_norm_op.h"
#include "tensora/ops/operators.h"

namespace tensora {

constexpr auto describe(std::type_identity<ResidualNormAttrs>) {
  using A = ResidualNormAttrs;
  return fields(field("eps", &A::eps), field("dtype", &A::dtype),
                field("unit_offset", &A::unit_offset));
}

namespace {

constexpr DTypeSet kStreamDTypes = set_of(kFloat32) | set_of(kFloat16) | set_of(kBFloat16);

void infer_residual_norm(Infer& infer, const ResidualNormAttrs& attrs) {
  const Tensor &x = infer[0], &weight = infer[1];
  infer.check(x.dim() >= 1, "input must have at least 1 dimension");
  infer.check(weight.sizes() == Shape{x.size(-1)}, "weight must have shape [", x.size(-1),
              "], got ", weight.sizes());
  infer.check(std::isfinite(attrs.eps) && attrs.eps >= 0, "eps must not be negative, got ",
              attrs.eps);
  const DType dtype = attrs.dtype.value_or(x.dtype());
  infer.check(contains(kStreamDTypes, dtype),
              "the result can be float32, float16 or bfloat16, not ", dtype);
  infer.check(x.is_contiguous() && weight.is_contiguous(), "expected contiguous tensors");
  infer.output(x.sizes(), dtype);
  if (!infer.has(2)) return;
  infer.check(infer[2].sizes() == x.sizes(), "residual must have shape ", x.sizes(), ", got ",
              infer[2].sizes());
  infer.check(infer[2].is_contiguous(), "expected contiguous tensors");
  infer.output(x.sizes(), kFloat32);
}

Tensors residual_norm_definition(Args in, const ResidualNormAttrs& attrs) {
  const bool adds = in.size() > 2 && in[2]->defined();
  Tensor sum = to(*in[0], kFloat32);
  if (adds) sum = sum + to(*in[2], kFloat32);
  const Tensor weight = to(*in[1], kFloat32);
  const Tensor rows =
      rms_norm(sum, {sum.size(-1)}, attrs.unit_offset ? weight + 1 : weight, attrs.eps);
  Tensors result{to(rows, attrs.dtype.value_or(in[0]->dtype()))};
  if (adds) result.push_back(sum);
  return result;
}

}  // namespace

constinit OpDef<ResidualNormAttrs> residual_norm_op = define(Op<ResidualNormAttrs>{
    .name = "residual_norm",
    .inputs = {"input", "weight", "residual?"},
    .infer = infer_residual_norm,
    .reference = residual_norm_definition,
    .gradient = Gradient::not_differentiable,
    .accepts = kStreamDTypes,
});

void register_residual_norm(OpRegistry& registry) { registry.add(residual_norm_op); }

std::tuple<Tensor, Tensor> residual_rms_norm(const Tensor& input, const Tensor& weight,
                                             const ResidualNormOptions& options) {
  const Tensor residual = options.residual.defined() ? contiguous(options.residual) : Tensor();
  Tensors both = apply_all(residual_norm_op, {contiguous(input), contiguous(weight), residual},
                           {options.eps, options.dtype, options.unit_offset});
  return {std::move(both[0]), both.size() > 1 ? std::move(both[1]) : input};
}

}  // namespace tensora
