#include "tensora/ops/quant/quant_linear.h"

#include "tensora/ops.h"
#include "tensora/ops/quant/quant_linear_op.h"
#include "tensora/ops/quant/quant_weights.h"

namespace tensora {

constexpr auto describe(std::type_identity<QuantLinearAttrs>) {
  return fields(field("dtype", &QuantLinearAttrs::dtype), field("eps", &QuantLinearAttrs::eps));
}

namespace {

using A = QuantLinearAttrs;
constexpr std::string_view kNames[] = {"weight 0", "weight 1", "weight 2"};

void check_added(const Infer& infer, size_t at, std::string_view what, const Shape& sizes) {
  if (!infer.has(at)) return;
  infer.check(contains(kActivationDTypes, infer[at].dtype()), what,
              " must be float32, float16 or bfloat16, got ", infer[at].dtype());
  infer.check(infer[at].sizes() == sizes, what, " must have shape ", sizes, ", got ",
              infer[at].sizes());
  infer.check(infer[at].is_contiguous(), what, " must be contiguous");
}

void infer_quant_linear(Infer& infer, const A& attrs) {
  check_activations(infer);
  check_norm(infer, A::kNorm);
  Shape sizes = infer[0].sizes();
  int64_t columns = 0;
  for (size_t i = 0; i < A::kMostWeights; ++i) {
    if (!infer.has(A::kWeight + i)) {
      infer.check(!infer.has(A::kScale + i), "there are scales of ", kNames[i], " but no weight");
      continue;
    }
    check_factor(infer, A::kWeight + i, A::kScale + i, kNames[i]);
    columns = add_sizes(columns, infer[A::kWeight + i].size(0), infer.op);
  }
  sizes[sizes.size() - 1] = columns;
  check_added(infer, A::kBias, "bias", {columns});
  check_added(infer, A::kResidual, "residual", sizes);
  infer.output(sizes, result_dtype(infer, attrs.dtype));
}

Tensors quant_linear_definition(Args in, const A& attrs) {
  const Tensor x = normalised_input(in, A::kNorm, attrs.eps);
  std::vector<Tensor> parts;
  for (size_t i = 0; i < A::kMostWeights; ++i)
    if (const Tensor weight = optional_tensor(in, A::kWeight + i); weight.defined())
      parts.push_back(
          matmul(x, transpose(widened(weight, optional_tensor(in, A::kScale + i)), 0, 1)));
  Tensor result = cat(parts, -1);
  for (size_t added : {A::kBias, A::kResidual})
    if (const Tensor more = optional_tensor(in, added); more.defined())
      result = result + to(more, kFloat32);
  return Tensors{to(result, attrs.dtype.value_or(in[0]->dtype()))};
}

}  // namespace

constinit OpDef<QuantLinearAttrs> quant_linear_op = define(Op<QuantLinearAttrs>{
    .name = "quant_linear",
    .inputs = {"x", "weight", "weight1?", "weight2?", "scale?", "scale1?", "scale2?", "bias?",
               "residual?", "norm?"},
    .infer = infer_quant_linear,
    .reference = quant_linear_definition,
    .gradient = Gradient::not_differentiable,
    .accepts = kWeightDTypes,
});

void register_quant_linear(OpRegistry& registry) { registry.add(quant_linear_op); }

Tensor quant_linear(const Tensor& x, std::span<const Tensor> weights,
                    const QuantLinearOptions& options) {
  check(!weights.empty() && weights.size() <= A::kMostWeights,
        "quant_linear: expected 1 to 3 weights, got ", weights.size());
  check(options.scales.empty() || options.scales.size() == weights.size(),
        "quant_linear: expected as many scales as weights, ", weights.size(), ", got ",
        options.scales.size());
  Tensor all[A::kMostWeights], scales[A::kMostWeights];
  for (size_t i = 0; i < weights.size(); ++i) {
    all[i] = contiguous_or_none(weights[i]);
    if (!options.scales.empty()) scales[i] = contiguous_or_none(options.scales[i]);
  }
  return apply(quant_linear_op,
               {contiguous(x), all[0], all[1], all[2], scales[0], scales[1], scales[2],
                contiguous_or_none(options.bias), contiguous_or_none(options.residual),
                contiguous_or_none(options.norm)},
               {options.dtype, options.eps});
}

}  // namespace tensora
