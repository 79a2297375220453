#include "tensora/ops/random/sample.h"

#include "tensora/autograd/grad_mode.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/random/random_mt19937.h"

namespace tensora {

constexpr auto describe(std::type_identity<MultinomialAttrs>) {
  return fields(field("seed", &MultinomialAttrs::seed), field("offset", &MultinomialAttrs::offset),
                field("num_samples", &MultinomialAttrs::num_samples),
                field("replacement", &MultinomialAttrs::replacement));
}

constinit OpDef<RandomAttrs> randperm_op = define(Op<RandomAttrs>{
    .name = "randperm",
    .inputs = {"self"},
    .primitive = true,
    .internal = true,
    .infer =
        [](Infer& infer, const RandomAttrs&) {
          infer.check(infer[0].dim() == 1, "expected a vector, got shape ", infer[0].sizes());
          infer.output(infer[0].sizes(), infer[0].dtype());
        },
    .gradient = Gradient::not_differentiable,
});

constinit OpDef<MultinomialAttrs> multinomial_op = define(Op<MultinomialAttrs>{
    .name = "multinomial",
    .inputs = {"self"},
    .primitive = true,
    .internal = true,
    .infer =
        [](Infer& infer, const MultinomialAttrs& attrs) {
          const Tensor& weights = infer[0];
          infer.check(weights.dim() == 1 || weights.dim() == 2,
                      "expected weights of 1 or 2 dims, got shape ", weights.sizes());
          infer.check(weights.is_floating_point(), "expected floating-point weights, got ",
                      weights.dtype());
          infer.check(attrs.num_samples > 0, "expected num_samples > 0, got ", attrs.num_samples);
          const int64_t categories = weights.sizes().back();
          infer.check(attrs.replacement || attrs.num_samples <= categories, "cannot draw ",
                      attrs.num_samples, " of ", categories, " categories without replacement");
          infer.check(categories > 0, "there are no categories to draw from");
          Shape sizes = weights.sizes();
          sizes[sizes.size() - 1] = attrs.num_samples;
          infer.output(sizes, kInt64);
        },
    .gradient = Gradient::not_differentiable,
});

void register_sample(OpRegistry& registry) {
  registry.add(randperm_op);
  registry.add(multinomial_op);
}

Tensor randperm(int64_t n, const TensorOptions& options) {
  check(n >= 0, "randperm: n must not be negative, got ", n);
  const DType dtype = options.dtype.value_or(kInt64);
  check(contains(kRealDTypes, dtype), "randperm: not supported for ", dtype);
  const auto largest = [](DType type) -> int64_t {
    if (type == kFloat64 || type == kInt64) return int64_t{1} << 53;
    if (type == kBool) return 2;
    if (type == kUInt8) return 256;
    if (type == kBFloat16) return 257;
    if (type == kFloat16) return 2049;
    if (type == kFloat32) return (int64_t{1} << 24) + 1;
    return int64_t{1} << (8 * static_cast<int>(element_size(type)) - 1);
  };
  check(n <= largest(dtype), "randperm: ", dtype, " cannot hold all numbers below ", n);
  const Device device = options.device.value_or(Device());
  Tensor result = empty({n}, {.dtype = dtype, .device = device});
  {
    const no_grad silent;
    if (has_pytorch_numbers(result)) {
      copy_(result, pytorch_permutation(n));
    } else {
      const PhiloxState state = current_generator().reserve(philox_counters(n, 2));
      apply_inplace(randperm_op, {result}, {state.seed, state.offset});
    }
  }
  if (options.requires_grad) result.requires_grad_();
  return result;
}

Tensor multinomial(const Tensor& self, int64_t num_samples, bool replacement) {
  const no_grad silent;
  if (has_pytorch_numbers(self)) {
    apply(multinomial_op, {self}, {0, 0, num_samples, replacement});  // checks the arguments
    return pytorch_multinomial(self, num_samples, replacement);
  }
  const int64_t rows = self.dim() == 2 ? self.sizes()[0] : 1;
  const int64_t per_row = replacement ? num_samples : self.dim() == 0 ? 0 : self.sizes().back();
  const PhiloxState state =
      current_generator().reserve(philox_counters(rows * std::max<int64_t>(per_row, 0), 2));
  return apply(multinomial_op, {self}, {state.seed, state.offset, num_samples, replacement});
}

}  // namespace tensora
