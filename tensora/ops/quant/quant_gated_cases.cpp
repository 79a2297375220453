#include "tensora/ops/quant/quant_gated.h"

#include "tests/suite/sample_weights.h"

namespace tensora::suite {
namespace {

double activated(Activation activation, double x) {
  if (activation == Activation::silu) return x / (1 + std::exp(-x));
  return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

void add(Cases& cases, DType gate_dtype, DType up_dtype, int64_t rows, Activation activation) {
  const auto gate = std::make_shared<const SampleWeight>(gate_dtype, 35, 512, 1);
  const auto up = std::make_shared<const SampleWeight>(up_dtype, 35, 512, 2);
  cases.add({.op = "quant_gated",
             .name = concat(gate_dtype, " and ", up_dtype, ", ", rows, " rows, ",
                            names_of(std::type_identity<Activation>())[size_t(activation)]),
             .inputs = {exact_activations({rows, 512})},
             .run =
                 [=](In x) {
                   return one(quant_gated(x[0], gate->placed(), up->placed(),
                                          {.activation = activation,
                                           .gate_scale = gate->placed_scale(),
                                           .up_scale = up->placed_scale()}));
                 },
             .reference =
                 [=](Arrays x) {
                   Array out = times_transposed(x[0], gate->numbers);
                   const Array other = times_transposed(x[0], up->numbers);
                   for (int64_t i = 0; i < out.numel(); ++i)
                     out[i] = activated(activation, out[i]) * other[i];
                   return one(out);
                 },
             .dtypes = activation_dtypes(),
             .tolerance = 24,  // two rounded sums are multiplied
             .opt_out = kNoGradient});
}

}  // namespace

void quant_gated_cases(Cases& cases) {
  for (int64_t rows : {1, 4, 11}) {
    add(cases, kQ4_K, kQ4_K, rows, Activation::silu);
    add(cases, kQ8_0, kQ8_0, rows, Activation::gelu_tanh);
  }
  add(cases, kQ6_K, kQ4_0, 2, Activation::silu);
  add(cases, kInt8, kFloat8E4M3, 2, Activation::silu);
  add(cases, kBFloat16, kFloat32, 3, Activation::gelu_tanh);
  const auto make = [](const Shape& sizes) { return zeros(sizes, {.device = device()}); };
  cases.error("quant_gated", "rows", "gate and up must have as many rows, got 3 and 5", [=] {
    quant_gated(make({2, 4}), make({3, 4}), make({5, 4}));
  });
  cases.error("quant_gated", "width", "up of shape [3, 5] does not fit activations of shape [2, 4]",
              [=] {
                quant_gated(make({2, 4}), make({3, 4}), make({3, 5}));
              });
  cases.error("quant_gated", "activation", "the activation can be silu or gelu_tanh", [=] {
    quant_gated(make({2, 4}), make({3, 4}), make({3, 4}), {.activation = Activation::relu});
  });
}

}  // namespace tensora::suite
