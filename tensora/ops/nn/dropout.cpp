#include "tensora/ops/nn/dropout.h"

#include <cmath>

#include "tensora/core/random.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops/complex/complex.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/random/random.h"
#include "tensora/ops/random/random_mt19937.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {

constexpr auto describe(std::type_identity<RandomSlopeAttrs>) {
  using A = RandomSlopeAttrs;
  return fields(field("seed", &A::seed), field("offset", &A::offset), field("lower", &A::lower),
                field("upper", &A::upper));
}
constexpr auto describe(std::type_identity<DropoutAttrs>) {
  using A = DropoutAttrs;
  return fields(field("seed", &A::seed), field("offset", &A::offset), field("p", &A::p),
                field("scale", &A::scale), field("kept", &A::kept), field("dropped", &A::dropped));
}

namespace {

// The first `like.numel()` of numbers that were dealt out by lanes, as Note [Four in a row] deals
// them out, in the shape of `like`.
template <class Distribution>
Tensor dealt(const OpDef<Distribution>& op, const Distribution& distribution, const Tensor& like) {
  const int64_t blocks = (like.numel() + 127) / 128;
  const Tensor all = apply(
      op, {empty({blocks * 128}, {.dtype = kFloat32, .device = like.device()})}, distribution);
  const Tensor rows = reshape(transpose(reshape(all, {blocks, 4, 32}), 1, 2), {blocks * 128});
  return reshape(narrow(rows, 0, 0, like.numel()), like.sizes());
}

// The result is laid out as the input, so that channels stay last where they are.
Strides layout_of(const Tensor& input) { return kept_strides(input.sizes(), input.strides()); }
Tensor laid_out(const Tensor& values, const Tensor& input) {
  const Tensor result = empty_strided(input.sizes(), layout_of(input),
                                      {.dtype = input.dtype(), .device = input.device()});
  return copy_(result, values);
}

Tensors dropout_reference(Args in, const DropoutAttrs& attrs) {
  const Tensor& x = *in[0];
  const Tensor keeps =
      to(dealt(bernoulli_op, {attrs.seed, attrs.offset, 1 - attrs.p}, x), x.dtype());
  const Tensor scaled = x * (keeps * attrs.scale);
  if (!attrs.shifts()) return Tensors{laid_out(scaled, x)};
  const Tensor shifts = where(keeps != 0, attrs.kept, full_like(keeps, attrs.dropped));
  return Tensors{laid_out(scaled + shifts, x)};
}

Tensors random_slope_reference(Args in, const RandomSlopeAttrs& attrs) {
  const Tensor& x = *in[0];
  const Tensor slopes = dealt(uniform_op, {attrs.seed, attrs.offset, attrs.lower, attrs.upper}, x);
  return Tensors{laid_out(where(*in[1] <= 0, x * to(slopes, x.dtype()), x), x)};
}

// One op for all orders: the gradient is the same op without the shifts.
void dropout_vjp(Vjp& vjp, const DropoutAttrs& attrs) {
  DropoutAttrs linear = attrs;
  linear.kept = linear.dropped = 0;
  vjp.set(0, apply(dropout_op, {vjp.grad()}, linear));
}

void check_floating(const Infer& infer) {
  infer.check(infer[0].is_floating_point(), "expected a floating-point input, got ",
              infer[0].dtype());
}

void check_probability(std::string_view op, double p) {
  check(p >= 0 && p <= 1, op, ": the probability p must be between 0 and 1, got ", p);
}

DropoutAttrs drawn(int64_t count, double p) {
  const PhiloxState state = current_generator().reserve(static_cast<uint64_t>((count + 3) / 4));
  return {.seed = state.seed, .offset = state.offset, .p = p, .scale = p < 1 ? 1 / (1 - p) : 0};
}

// selu's limit for large negative numbers, with its sign changed.
constexpr double kSaturation = 1.7580993408473766;

// The factor that restores the variance.
double restoring(double p) {
  return p < 1 ? 1 / std::sqrt((kSaturation * kSaturation * p + 1) * (1 - p)) : 0;
}

DropoutAttrs alpha_attrs(int64_t count, double p) {
  DropoutAttrs attrs = drawn(count, p);
  attrs.scale = restoring(p);
  attrs.kept = kSaturation * attrs.scale * p;
  attrs.dropped = kSaturation * attrs.scale * (p - 1);
  return attrs;
}

// 1 for what is kept, else 0, from PyTorch's numbers.
Tensor kept_by_pytorch(const Tensor& input, double p) {
  return p < 1 ? bernoulli(input.detach(), 1 - p) : zeros_like(input.detach());
}
Tensor pytorch_factors(const Tensor& input, double p) {
  const Tensor kept = kept_by_pytorch(input, p);
  return p < 1 ? kept / (1 - p) : kept;
}
// input * scale + shift, with the two per element.
struct AlphaDropout {
  Tensor scale, shift;
};
AlphaDropout pytorch_alpha(const Tensor& input, double p) {
  const Tensor kept = kept_by_pytorch(input, p);
  const double factor = kSaturation * restoring(p);
  return {kept * restoring(p), (kept - 1) * factor + factor * p};
}

// A tensor with one element per channel.
Tensor per_channel(std::string_view op, const Tensor& input) {
  check(input.dim() >= 2, op, ": expected an input (N, C, ...), got shape ", input.sizes());
  check(is_differentiable(input.dtype()), op, ": expected a floating-point input, got ",
        input.dtype());
  Shape sizes = Shape::filled(input.dim(), 1);
  sizes[0] = input.size(0);
  sizes[1] = input.size(1);
  return ones(sizes, {.dtype = real_dtype(input.dtype()), .device = input.device()});
}

Tensor channel_dropout(std::string_view op, const Tensor& input, double p, bool training) {
  check_probability(op, p);
  const Tensor channels = per_channel(op, input);
  if (!training || p == 0) return input;
  return input * dropout(channels, p, training);
}

// For inputs that may lack the dim N.
Tensor unbatched_dropout(std::string_view op, const Tensor& input, int dims, double p,
                         bool training) {
  check(input.dim() == dims || input.dim() == dims - 1, op, ": expected ", dims - 1, " or ", dims,
        " dims, got shape ", input.sizes());
  if (input.dim() == dims) return channel_dropout(op, input, p, training);
  return squeeze(channel_dropout(op, unsqueeze(input, 0), p, training), {0});
}

void check_slopes(double lower, double upper) {
  check(std::isfinite(lower) && std::isfinite(upper) && lower <= upper,
        "rrelu: expected finite slopes with lower <= upper, got ", lower, " and ", upper);
}

RandomSlopeAttrs drawn_slopes(const Tensor& input, double lower, double upper) {
  const PhiloxState state =
      current_generator().reserve(static_cast<uint64_t>((input.numel() + 3) / 4));
  return {state.seed, state.offset, lower, upper};
}

}  // namespace

constinit OpDef<DropoutAttrs> dropout_op = define(Op<DropoutAttrs>{
    .name = "dropout",
    .inputs = {"self"},
    .internal = true,
    .infer =
        [](Infer& infer, const DropoutAttrs&) {
          check_floating(infer);
          infer.output(infer[0].sizes(), layout_of(infer[0]), infer[0].dtype());
        },
    .reference = dropout_reference,
    .vjp = dropout_vjp,
});

constinit OpDef<RandomSlopeAttrs> random_slope_op = define(Op<RandomSlopeAttrs>{
    .name = "rrelu",
    .inputs = {"self", "condition"},
    .internal = true,
    .infer =
        [](Infer& infer, const RandomSlopeAttrs&) {
          check_floating(infer);
          infer.output(infer[0].sizes(), layout_of(infer[0]), infer[0].dtype());
        },
    .reference = random_slope_reference,
    .vjp =
        [](Vjp& vjp, const RandomSlopeAttrs& attrs) {
          if (vjp.needs(0)) vjp.set(0, apply(random_slope_op, {vjp.grad(), vjp.input(1)}, attrs));
        },
    .saves = {in(1)},
});

void register_dropout(OpRegistry& registry) {
  registry.add(dropout_op);
  registry.add(random_slope_op);
}

Tensor dropout(const Tensor& input, double p, bool training) {
  check_probability("dropout", p);
  if (!training || p == 0) return input;
  if (input.is_complex()) return input * dropout(ones_like(real(input)), p, training);
  if (has_pytorch_numbers(input)) return input * pytorch_factors(input, p);
  return apply(dropout_op, {input}, drawn(input.numel(), p));
}

const Tensor& dropout_(const Tensor& input, double p, bool training) {
  check_probability("dropout_", p);
  if (!training || p == 0) return input;
  if (has_pytorch_numbers(input)) return mul_(input, pytorch_factors(input, p));
  return apply_inplace(dropout_op, {input}, drawn(input.numel(), p));
}

Tensor alpha_dropout(const Tensor& input, double p, bool training) {
  check_probability("alpha_dropout", p);
  if (!training || p == 0) return input;
  if (has_pytorch_numbers(input)) {
    const AlphaDropout map = pytorch_alpha(input, p);
    return addcmul(map.shift, input, map.scale);
  }
  return apply(dropout_op, {input}, alpha_attrs(input.numel(), p));
}

const Tensor& alpha_dropout_(const Tensor& input, double p, bool training) {
  check_probability("alpha_dropout_", p);
  if (!training || p == 0) return input;
  if (has_pytorch_numbers(input)) {
    const AlphaDropout map = pytorch_alpha(input, p);
    return add_(mul_(input, map.scale), map.shift);
  }
  return apply_inplace(dropout_op, {input}, alpha_attrs(input.numel(), p));
}

Tensor dropout1d(const Tensor& input, double p, bool training) {
  return unbatched_dropout("dropout1d", input, 3, p, training);
}

Tensor dropout2d(const Tensor& input, double p, bool training) {
  return channel_dropout("dropout2d", input, p, training);
}

Tensor dropout3d(const Tensor& input, double p, bool training) {
  return unbatched_dropout("dropout3d", input, 5, p, training);
}

Tensor feature_alpha_dropout(const Tensor& input, double p, bool training) {
  constexpr std::string_view op = "feature_alpha_dropout";
  check_probability(op, p);
  const Tensor channels = per_channel(op, input);
  if (!training || p == 0) return input;
  if (has_pytorch_numbers(input)) {
    const AlphaDropout map = pytorch_alpha(channels, p);
    return addcmul(map.shift, input, map.scale);
  }
  // The kept channels as 1; what is added follows from that.
  DropoutAttrs attrs = drawn(channels.numel(), p);
  attrs.scale = 1;
  const Tensor kept = apply(dropout_op, {channels}, attrs);
  const double scale = restoring(p);
  const Tensor shift = kept * (kSaturation * scale) + kSaturation * scale * (p - 1);
  return addcmul(shift, input, kept * scale);
}

// The condition is a constant: what is differentiated is the product.
Tensor rrelu(const Tensor& input, double lower, double upper, bool training) {
  check_slopes(lower, upper);
  if (!training) return leaky_relu(input, (lower + upper) / 2);
  return apply(random_slope_op, {input, input.detach()}, drawn_slopes(input, lower, upper));
}

const Tensor& rrelu_(const Tensor& input, double lower, double upper, bool training) {
  check_slopes(lower, upper);
  if (!training) return leaky_relu_(input, (lower + upper) / 2);
  const Tensor before = input.detach().clone();  // the gradient asks where the input was negative
  return apply_inplace(random_slope_op, {input, before}, drawn_slopes(input, lower, upper));
}

}  // namespace tensora
