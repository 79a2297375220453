#include "tensora/ops/quant/quant_gated.h"

#include "tensora/ops.h"
#include "tensora/ops/quant/quant_gated_op.h"
#include "tensora/ops/quant/quant_weights.h"

namespace tensora {

constexpr auto describe(std::type_identity<QuantGatedAttrs>) {
  return fields(field("activation", &QuantGatedAttrs::activation),
                field("dtype", &QuantGatedAttrs::dtype), field("eps", &QuantGatedAttrs::eps));
}

constinit OpDef<QuantGatedAttrs> quant_gated_op = define(Op<QuantGatedAttrs>{
    .name = "quant_gated",
    .inputs = {"x", "gate", "up", "gate_scale?", "up_scale?", "norm?"},
    .infer =
        [](Infer& infer, const QuantGatedAttrs& attrs) {
          infer.check(
              attrs.activation == Activation::silu || attrs.activation == Activation::gelu_tanh,
              "the activation can be silu or gelu_tanh");
          check_activations(infer);
          check_norm(infer, QuantGatedAttrs::kNorm);
          check_factor(infer, 1, 3, "gate");
          check_factor(infer, 2, 4, "up");
          infer.check(infer[1].size(0) == infer[2].size(0), "gate and up must have as many rows, ",
                      "got ", infer[1].size(0), " and ", infer[2].size(0));
          Shape sizes = infer[0].sizes();
          sizes[sizes.size() - 1] = infer[1].size(0);
          infer.output(sizes, result_dtype(infer, attrs.dtype));
        },
    .reference =
        [](Args in, const QuantGatedAttrs& attrs) {
          const Tensor x = normalised_input(in, QuantGatedAttrs::kNorm, attrs.eps);
          const auto product = [&](size_t i) {
            return matmul(x, transpose(widened(*in[i], optional_tensor(in, i + 2)), 0, 1));
          };
          const Tensor gate = product(1);
          const Tensor active =
              attrs.activation == Activation::silu ? silu(gate) : gelu(gate, "tanh");
          return Tensors{to(active * product(2), attrs.dtype.value_or(in[0]->dtype()))};
        },
    .gradient = Gradient::not_differentiable,
    .accepts = kWeightDTypes,
});

void register_quant_gated(OpRegistry& registry) { registry.add(quant_gated_op); }

Tensor quant_gated(const Tensor& x, const Tensor& gate, const Tensor& up,
                   const QuantGatedOptions& options) {
  return apply(
      quant_gated_op,
      {contiguous(x), contiguous(gate), contiguous(up), contiguous_or_none(options.gate_scale),
       contiguous_or_none(options.up_scale), contiguous_or_none(options.norm)},
      {options.activation, options.dtype, options.eps});
}

}  // namespace tensora
