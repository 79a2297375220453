#include "tensora/ops/quant/quant_experts.h"

#include "tensora/ops.h"
#include "tensora/ops/quant/quant_experts_op.h"
#include "tensora/ops/quant/quant_weights.h"

namespace tensora {

constexpr auto describe(std::type_identity<QuantExpertsAttrs>) {
  return fields(field("experts", &QuantExpertsAttrs::experts),
                field("activation", &QuantExpertsAttrs::activation),
                field("dtype", &QuantExpertsAttrs::dtype));
}

namespace {

using A = QuantExpertsAttrs;

void check_stack(const Infer& infer, const A& attrs, size_t at, size_t scale_at, int64_t columns,
                 std::string_view what) {
  check_weight(infer, at, scale_at, what);
  infer.check(infer[at].size(0) % attrs.experts == 0, what, " of shape ", infer[at].sizes(),
              " cannot be divided among ", attrs.experts, " experts");
  infer.check(infer[at].size(1) == columns, what, " must have ", columns, " columns, got shape ",
              infer[at].sizes());
}

void infer_quant_experts(Infer& infer, const A& attrs) {
  infer.check(attrs.experts >= 1, "there must be at least 1 expert, got ", attrs.experts);
  infer.check(attrs.activation == Activation::silu || attrs.activation == Activation::gelu_tanh,
              "the activation can be silu or gelu_tanh");
  check_activations(infer);
  const Tensor &x = infer[0], &chosen = infer[A::kChosen], &weights = infer[A::kWeights];
  infer.check(x.dim() == 2, "x must be a matrix, got shape ", x.sizes());
  infer.check(chosen.dtype() == kInt64, "chosen must be int64, got ", chosen.dtype());
  infer.check(chosen.dim() == 2 && chosen.size(0) == x.size(0), "chosen must have shape [",
              x.size(0), ", used], got ", chosen.sizes());
  infer.check(chosen.size(1) <= attrs.experts, "each token can have ", attrs.experts,
              " experts, got ", chosen.size(1));
  infer.check(weights.dtype() == kFloat32 && weights.sizes() == chosen.sizes(),
              "weights must be float32 of shape ", chosen.sizes(), ", got ", weights.dtype(), " ",
              weights.sizes());
  infer.check(chosen.is_contiguous() && weights.is_contiguous(),
              "chosen and weights must be contiguous");
  check_stack(infer, attrs, A::kGate, A::kGateScale, x.size(1), "gate");
  check_stack(infer, attrs, A::kUp, A::kUpScale, x.size(1), "up");
  infer.check(infer[A::kGate].size(0) == infer[A::kUp].size(0),
              "gate and up must have as many rows, got ", infer[A::kGate].size(0), " and ",
              infer[A::kUp].size(0));
  check_stack(infer, attrs, A::kDown, A::kDownScale, infer[A::kGate].size(0) / attrs.experts,
              "down");
  const Shape sizes{x.size(0), infer[A::kDown].size(0) / attrs.experts};
  if (infer.has(A::kResidual)) {
    const Tensor& residual = infer[A::kResidual];
    infer.check(contains(kActivationDTypes, residual.dtype()),
                "residual must be float32, float16 or bfloat16, got ", residual.dtype());
    infer.check(residual.sizes() == sizes, "residual must have shape ", sizes, ", got ",
                residual.sizes());
    infer.check(residual.is_contiguous(), "residual must be contiguous");
  }
  infer.output(sizes, result_dtype(infer, attrs.dtype));
}

// Every expert computes every token; those that did not choose it take nothing of it.
Tensors quant_experts_definition(Args in, const A& attrs) {
  const Tensor x = to(*in[0], kFloat32), &chosen = *in[A::kChosen], &weights = *in[A::kWeights];
  const Tensor residual = optional_tensor(in, A::kResidual);
  const int64_t columns = in[A::kDown]->size(0) / attrs.experts;
  Tensor sum = residual.defined()
                   ? to(residual, kFloat32)
                   : zeros({x.size(0), columns}, {.dtype = kFloat32, .device = x.device()});
  const auto product = [&](const Tensor& rows, size_t at, size_t scale_at, int64_t expert) {
    const int64_t count = in[at]->size(0) / attrs.experts;
    const Tensor scale = optional_tensor(in, scale_at);
    const Tensor own = scale.defined() ? narrow(scale, 0, expert * count, count) : scale;
    return matmul(rows, transpose(widened(narrow(*in[at], 0, expert * count, count), own), 0, 1));
  };
  const Tensor none = zeros_like(weights);
  for (int64_t e = 0; e < attrs.experts; ++e) {
    const Tensor gate = product(x, A::kGate, A::kGateScale, e);
    const Tensor active = attrs.activation == Activation::silu ? silu(gate) : gelu(gate, "tanh");
    const Tensor inner = active * product(x, A::kUp, A::kUpScale, e);
    const Tensor share = tensora::sum(where(eq(chosen, e), weights, none), {1}, true);
    const Tensor result = product(inner, A::kDown, A::kDownScale, e) * share;
    sum = sum + where(ne(share, 0), result, zeros_like(result));
  }
  return Tensors{to(sum, attrs.dtype.value_or(in[0]->dtype()))};
}

}  // namespace

constinit OpDef<QuantExpertsAttrs> quant_experts_op = define(Op<QuantExpertsAttrs>{
    .name = "quant_experts",
    .inputs = {"x", "chosen", "weights", "gate", "up", "down", "gate_scale?", "up_scale?",
               "down_scale?", "residual?"},
    .infer = infer_quant_experts,
    .reference = quant_experts_definition,
    .gradient = Gradient::not_differentiable,
    .accepts = kWeightDTypes | set_of(kInt64),
});

void register_quant_experts(OpRegistry& registry) { registry.add(quant_experts_op); }

Tensor quant_experts(const Tensor& x, const Tensor& chosen, const Tensor& weights,
                     const Tensor& gate, const Tensor& up, const Tensor& down, int64_t experts,
                     const QuantExpertsOptions& options) {
  return apply(quant_experts_op,
               {contiguous(x), contiguous(chosen), contiguous(weights), contiguous(gate),
                contiguous(up), contiguous(down), contiguous_or_none(options.gate_scale),
                contiguous_or_none(options.up_scale), contiguous_or_none(options.down_scale),
                contiguous_or_none(options.residual)},
               {experts, options.activation, options.dtype});
}

}  // namespace tensora
