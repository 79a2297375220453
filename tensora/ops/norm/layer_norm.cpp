#include "tensora/ops/norm/layer_norm.h"

#include <limits>

#include "tensora/autograd/grad_mode.h"
#include "tensora/core/random.h"
#include "tensora/dispatch/autocast.h"
#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/norm/row_norm.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/random/random.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/reduce/variance.h"
#include "tensora/ops/shape/expand.h"

namespace tensora {
namespace {

DType statistics_dtype(DType dtype) { return dtype == kFloat64 ? kFloat64 : kFloat32; }

// The dims that make up a row, as a list.
Dims row_dims(int rank, const Shape& normalized_shape) {
  Dims dims;
  for (int d = rank - normalized_shape.size(); d < rank; ++d) dims.push_back(d);
  return dims;
}
// The others; empty where there is none, which reductions take for all.
Dims outer_dims(int rank, const Shape& normalized_shape) {
  Dims dims;
  for (int d = 0; d < rank - normalized_shape.size(); ++d) dims.push_back(d);
  return dims;
}

void check_rows(const Infer& infer, const Shape& normalized_shape) {
  const Tensor& x = infer[0];
  infer.check(x.is_floating_point(), "expected a floating-point input, got ", x.dtype());
  infer.check(!normalized_shape.empty(), "normalized_shape must not be empty");
  const int outer = x.dim() - normalized_shape.size();
  bool fits = outer >= 0;
  for (int d = 0; fits && d < normalized_shape.size(); ++d)
    fits = x.sizes()[outer + d] == normalized_shape[d];
  infer.check(fits, "expected an input whose last sizes are ", normalized_shape, ", got shape ",
              x.sizes());
}

void check_parameter(const Infer& infer, size_t i, std::string_view name,
                     const Shape& normalized_shape) {
  if (!infer.has(i)) return;
  infer.check(infer[i].sizes() == normalized_shape, name, " must have shape ", normalized_shape,
              ", got ", infer[i].sizes());
  infer.check(infer[i].is_floating_point(), name, " must be floating-point, got ",
              infer[i].dtype());
}

// Of the rows of input `rows`.
void output_statistics(Infer& infer, size_t rows, const Shape& normalized_shape, int count) {
  Shape sizes = infer[rows].sizes();
  for (int64_t d : row_dims(sizes.size(), normalized_shape)) sizes[static_cast<int>(d)] = 1;
  for (int k = 0; k < count; ++k) infer.output(sizes, statistics_dtype(infer[rows].dtype()));
}

// ---- definitions -------------------------------------------------------------------------------

struct Normalised {
  Tensor mean, rstd;  // mean: undefined for rms_norm
  Tensor values;      // in the dtype of the statistics
};

Tensor centred(const Tensor& x, const Tensor& mean) { return mean.defined() ? x - mean : x; }

Normalised normalise(const Tensor& input, const Shape& normalized_shape, double eps, bool centre) {
  const Tensor x = to(input, statistics_dtype(input.dtype()));
  const Dims dims = row_dims(x.dim(), normalized_shape);
  Normalised result;
  if (centre) result.mean = mean(x, dims, true);
  const Tensor square = centre ? var(x, dims, 0, true) : mean(x * x, dims, true);
  result.rstd = rsqrt(square + eps);
  result.values = centred(x, result.mean) * result.rstd;
  return result;
}

Tensor scaled(Tensor values, const Tensor& weight, const Tensor& bias, DType dtype) {
  if (weight.defined()) values = values * to(weight, values.dtype());
  if (bias.defined()) values = values + to(bias, values.dtype());
  return to(values, dtype);
}

Tensor optional_input(Args in, size_t i) { return i < in.size() ? *in[i] : Tensor(); }

// 1 / (1 - p) where an element is kept, else 0.
Tensor kept(const Tensor& like, DType dtype, double p, uint64_t seed, uint64_t offset) {
  const no_grad silent;
  const Tensor mask = empty(like.sizes(), {.dtype = dtype, .device = like.device()});
  apply_inplace(bernoulli_op, {mask}, Bernoulli{seed, offset, 1 - p});
  return p < 1 ? mask / (1 - p) : mask;
}

Tensor residual_sum(const Tensor& input, const Tensor& residual, const Tensor& input_bias,
                    const AddNormAttrs& attrs) {
  const DType wide = statistics_dtype(residual.dtype());
  Tensor x = to(input, wide);
  if (input_bias.defined()) x = x + to(input_bias, wide);
  if (attrs.p > 0) x = x * kept(input, wide, attrs.p, attrs.seed, attrs.offset);
  return to(x + to(residual, wide), residual.dtype());
}

template <bool centre>
Tensors add_norm_reference(Args in, const AddNormAttrs& attrs) {
  const Tensor total = residual_sum(*in[0], *in[1], optional_input(in, centre ? 4 : 3), attrs);
  const double eps = centre ? attrs.eps.value_or(1e-5) : rms_eps(attrs.eps, total.dtype());
  const Normalised rows = normalise(total, attrs.normalized_shape, eps, centre);
  const Tensor bias = centre ? optional_input(in, 3) : Tensor();
  const DType dtype = attrs.dtype.value_or(total.dtype());
  Tensors result{scaled(rows.values, optional_input(in, 2), bias, dtype), total};
  if (centre) result.push_back(rows.mean);
  result.push_back(rows.rstd);
  return result;
}

Tensors norm_backward_reference(Args in, const NormBackwardAttrs& attrs) {
  const Tensor &mean = *in[2], &rstd = *in[3], weight = optional_input(in, 4),
               grad_of_sum = optional_input(in, 5);
  const Tensor x = to(*in[1], rstd.dtype()), grad = to(*in[0], rstd.dtype());
  const Dims dims = row_dims(x.dim(), attrs.normalized_shape);
  const auto average = [&](const Tensor& rows) { return tensora::mean(rows, dims, true); };
  const Tensor values = centred(x, mean) * rstd;
  const Tensor scaled = weight.defined() ? grad * to(weight, rstd.dtype()) : grad;
  Tensor through = scaled - values * average(scaled * values);
  if (mean.defined()) through = through - average(scaled);
  through = through * rstd;
  if (grad_of_sum.defined()) through = through + to(grad_of_sum, rstd.dtype());
  Tensors result{to(through, in[1]->dtype())};
  if (attrs.p > 0) through = through * kept(x, rstd.dtype(), attrs.p, attrs.seed, attrs.offset);
  if (attrs.apart()) result.push_back(to(through, attrs.input_dtype.value_or(in[1]->dtype())));
  const Dims outer = outer_dims(x.dim(), attrs.normalized_shape);
  const DType dtype = weight.defined() ? weight.dtype() : rstd.dtype();
  const auto over_rows = [&](const Tensor& rows) {
    return to(outer.empty() ? rows : sum(rows, outer), dtype);
  };
  if (attrs.weight) result.push_back(over_rows(grad * values));
  if (attrs.bias) result.push_back(over_rows(grad));
  return result;
}

// ---- gradients ---------------------------------------------------------------------------------

// The gradients that reach x through the statistics: only those of higher order do.
Tensor through_statistics(const Tensor& x, const Tensor& mean, const Tensor& rstd,
                          const Tensor& grad_mean, const Tensor& grad_rstd,
                          const Shape& normalized_shape) {
  const double count = static_cast<double>(normalized_shape.numel());
  Tensor result;
  if (grad_rstd.defined())
    result = centred(to(x, rstd.dtype()), mean) * (grad_rstd * rstd * rstd * rstd / -count);
  if (!grad_mean.defined()) return result;
  const Tensor part = expand(grad_mean / count, x.sizes());
  return result.defined() ? result + part : part;
}

Tensor sum_of(const Tensor& a, const Tensor& b) {
  return !a.defined() ? b : !b.defined() ? a : a + to(b, a.dtype());
}

// Where the gradients of an op's inputs go, and where its statistics are; -1: it has none.
struct NormSlots {
  int weight, bias, input_bias, sum, mean, rstd;
};

bool is_given(const Vjp& vjp, int input) {
  return input >= 0 && static_cast<size_t>(input) < vjp.input_count() &&
         !vjp.input_sizes(static_cast<size_t>(input)).empty();
}
bool wants(const Vjp& vjp, int input) {
  return is_given(vjp, input) && vjp.needs(static_cast<size_t>(input));
}

void norm_vjp(Vjp& vjp, const NormSlots& slots, NormBackwardAttrs attrs) {
  const bool adds = slots.sum >= 0;
  const auto grad_at = [&](int output) {
    return output < 0 ? Tensor() : vjp.grad(static_cast<size_t>(output));
  };
  attrs.weight = wants(vjp, slots.weight);
  attrs.bias = wants(vjp, slots.bias);
  const Tensor x = adds ? vjp.output(static_cast<size_t>(slots.sum)) : vjp.input(0);
  const Tensor rstd = vjp.output(static_cast<size_t>(slots.rstd));
  const Tensor mean = slots.mean < 0 ? Tensor() : vjp.output(static_cast<size_t>(slots.mean));
  const Tensor weight =
      is_given(vjp, slots.weight) ? vjp.input(static_cast<size_t>(slots.weight)) : Tensor();
  const Tensor grad_mean = grad_at(slots.mean), grad_rstd = grad_at(slots.rstd);
  Tensor grad_of_sum = grad_at(slots.sum);
  if (grad_mean.defined() || grad_rstd.defined())
    grad_of_sum =
        sum_of(through_statistics(x, mean, rstd, grad_mean, grad_rstd, attrs.normalized_shape),
               grad_of_sum);
  const Tensor grad = vjp.grad().defined() ? vjp.grad() : zeros_like(x);
  const Tensors grads =
      apply_all(norm_backward_op, {grad, x, mean, rstd, weight, grad_of_sum}, attrs);
  size_t next = 0;
  const Tensor of_x = grads[next++], of_input = attrs.apart() ? grads[next++] : of_x;
  if (vjp.needs(0)) vjp.set(0, of_input);
  if (adds && vjp.needs(1)) vjp.set(1, of_x);
  if (attrs.weight) vjp.set(static_cast<size_t>(slots.weight), grads[next++]);
  if (attrs.bias) vjp.set(static_cast<size_t>(slots.bias), grads[next++]);
  if (wants(vjp, slots.input_bias)) vjp.set(static_cast<size_t>(slots.input_bias), of_input);
}

void add_norm_vjp(Vjp& vjp, const NormSlots& slots, const AddNormAttrs& attrs) {
  NormBackwardAttrs backward{.normalized_shape = attrs.normalized_shape,
                             .p = attrs.p,
                             .seed = attrs.seed,
                             .offset = attrs.offset};
  if (vjp.input_dtype(0) != vjp.input_dtype(1)) backward.input_dtype = vjp.input_dtype(0);
  norm_vjp(vjp, slots, backward);
}

template <bool centre>
void infer_add_norm(Infer& infer, const AddNormAttrs& attrs) {
  check_rows(infer, attrs.normalized_shape);
  const Tensor &x = infer[0], &residual = infer[1];
  infer.check(residual.sizes() == x.sizes(), "input and residual must have one shape, got ",
              x.sizes(), " and ", residual.sizes());
  infer.check(residual.is_floating_point() &&
                  promote_types(x.dtype(), residual.dtype()) == residual.dtype(),
              "the residual must be at least as wide as the input, got ", residual.dtype(), " and ",
              x.dtype());
  infer.check(is_floating_point(attrs.dtype.value_or(kFloat32)),
              "expected a floating-point dtype of the result, got ",
              attrs.dtype.value_or(kFloat32));
  infer.check(attrs.p >= 0 && attrs.p <= 1, "expected p between 0 and 1, got ", attrs.p);
  check_parameter(infer, 2, "weight", attrs.normalized_shape);
  if (centre) check_parameter(infer, 3, "bias", attrs.normalized_shape);
  check_parameter(infer, centre ? 4 : 3, "input_bias", attrs.normalized_shape);
  infer.output(x.sizes(), attrs.dtype.value_or(residual.dtype()));
  infer.output(x.sizes(), residual.dtype());
  output_statistics(infer, 1, attrs.normalized_shape, centre ? 2 : 1);
}

}  // namespace

double rms_eps(std::optional<double> eps, DType dtype) {
  return eps.value_or(dtype == kFloat64
                          ? std::numeric_limits<double>::epsilon()
                          : static_cast<double>(std::numeric_limits<float>::epsilon()));
}

constinit OpDef<NormBackwardAttrs> norm_backward_op = define(Op<NormBackwardAttrs>{
    .name = "norm_backward",
    .inputs = {"grad", "x", "mean?", "rstd", "weight?", "grad_of_sum?"},
    .internal = true,
    .infer =
        [](Infer& infer, const NormBackwardAttrs& attrs) {
          const Tensor& x = infer[1];
          infer.output(x.sizes(), x.dtype());
          if (attrs.apart()) infer.output(x.sizes(), attrs.input_dtype.value_or(x.dtype()));
          const DType dtype = infer.has(4) ? infer[4].dtype() : infer[3].dtype();
          if (attrs.weight) infer.output(attrs.normalized_shape, dtype);
          if (attrs.bias) infer.output(attrs.normalized_shape, dtype);
        },
    .reference = norm_backward_reference,
    .gradient = Gradient::by_reference,
});

constinit OpDef<LayerNormAttrs> layer_norm_op = define(Op<LayerNormAttrs>{
    .name = "layer_norm",
    .inputs = {"input", "weight?", "bias?"},
    .infer =
        [](Infer& infer, const LayerNormAttrs& attrs) {
          check_rows(infer, attrs.normalized_shape);
          check_parameter(infer, 1, "weight", attrs.normalized_shape);
          check_parameter(infer, 2, "bias", attrs.normalized_shape);
          infer.output(infer[0].sizes(), infer[0].dtype());
          output_statistics(infer, 0, attrs.normalized_shape, 2);
        },
    .reference =
        [](Args in, const LayerNormAttrs& attrs) {
          const Normalised rows = normalise(*in[0], attrs.normalized_shape, attrs.eps, true);
          return Tensors{
              scaled(rows.values, optional_input(in, 1), optional_input(in, 2), in[0]->dtype()),
              rows.mean, rows.rstd};
        },
    .vjp =
        [](Vjp& vjp, const LayerNormAttrs& attrs) {
          norm_vjp(vjp, {.weight = 1, .bias = 2, .input_bias = -1, .sum = -1, .mean = 1, .rstd = 2},
                   {.normalized_shape = attrs.normalized_shape});
        },
    .saves = Saves().rest(in(0) | in(1) | out(1) | out(2)),
    .autocast = {Autocast::as_is, Autocast::full},
});

constinit OpDef<RmsNormAttrs> rms_norm_op = define(Op<RmsNormAttrs>{
    .name = "rms_norm",
    .inputs = {"input", "weight?"},
    .infer =
        [](Infer& infer, const RmsNormAttrs& attrs) {
          check_rows(infer, attrs.normalized_shape);
          check_parameter(infer, 1, "weight", attrs.normalized_shape);
          infer.output(infer[0].sizes(), infer[0].dtype());
          output_statistics(infer, 0, attrs.normalized_shape, 1);
        },
    .reference =
        [](Args in, const RmsNormAttrs& attrs) {
          const Normalised rows =
              normalise(*in[0], attrs.normalized_shape, rms_eps(attrs.eps, in[0]->dtype()), false);
          return Tensors{scaled(rows.values, optional_input(in, 1), {}, in[0]->dtype()), rows.rstd};
        },
    .vjp =
        [](Vjp& vjp, const RmsNormAttrs& attrs) {
          norm_vjp(vjp,
                   {.weight = 1, .bias = -1, .input_bias = -1, .sum = -1, .mean = -1, .rstd = 1},
                   {.normalized_shape = attrs.normalized_shape});
        },
    .saves = Saves().rest(in(0) | in(1) | out(1)),
    .autocast = {Autocast::as_is, Autocast::full},
});

constinit OpDef<AddNormAttrs> add_layer_norm_op = define(Op<AddNormAttrs>{
    .name = "add_layer_norm",
    .inputs = {"input", "residual", "weight?", "bias?", "input_bias?"},
    .infer = infer_add_norm<true>,
    .reference = add_norm_reference<true>,
    .vjp =
        [](Vjp& vjp, const AddNormAttrs& attrs) {
          add_norm_vjp(vjp,
                       {.weight = 2, .bias = 3, .input_bias = 4, .sum = 1, .mean = 2, .rstd = 3},
                       attrs);
        },
    .saves = Saves().rest(in(2) | out(1) | out(2) | out(3)),
});

constinit OpDef<AddNormAttrs> add_rms_norm_op = define(Op<AddNormAttrs>{
    .name = "add_rms_norm",
    .inputs = {"input", "residual", "weight?", "input_bias?"},
    .infer = infer_add_norm<false>,
    .reference = add_norm_reference<false>,
    .vjp =
        [](Vjp& vjp, const AddNormAttrs& attrs) {
          add_norm_vjp(vjp,
                       {.weight = 2, .bias = -1, .input_bias = 3, .sum = 1, .mean = -1, .rstd = 2},
                       attrs);
        },
    .saves = Saves().rest(in(2) | out(1) | out(2)),
});

void register_layer_norm(OpRegistry& registry) {
  registry.add(layer_norm_op);
  registry.add(rms_norm_op);
  registry.add(add_layer_norm_op);
  registry.add(add_rms_norm_op);
  registry.add(norm_backward_op);
  shard_by(layer_norm_op, "rows normalized_shape");
  shard_by(rms_norm_op, "rows normalized_shape");
  shard_by(add_layer_norm_op, "rows normalized_shape");
  shard_by(add_rms_norm_op, "rows normalized_shape");
}

Tensor layer_norm(const Tensor& input, const Shape& normalized_shape, const Tensor& weight,
                  const Tensor& bias, double eps) {
  return std::move(apply_all(layer_norm_op, {input, weight, bias}, {normalized_shape, eps})[0]);
}

Tensor rms_norm(const Tensor& input, const Shape& normalized_shape, const Tensor& weight,
                std::optional<double> eps) {
  return std::move(apply_all(rms_norm_op, {input, weight}, {normalized_shape, eps})[0]);
}

namespace {

/// The residual in the dtype of the sum.
Tensor widened(const Tensor& residual, const Tensor& input) {
  return to(residual, promote_types(input.dtype(), residual.dtype()));
}

AddNormAttrs add_attrs(const Tensor& input, const Shape& normalized_shape,
                       std::optional<double> eps, double p, bool training,
                       std::optional<DType> dtype) {
  // As layer_norm, which on GPUs gives float32 under autocast.
  const DeviceType device = input.device().type;
  if (!dtype && device != DeviceType::cpu && is_autocast_enabled(device) &&
      input.dtype() != kFloat64)
    dtype = kFloat32;
  const double dropped = training ? p : 0;
  const PhiloxState state =
      current_generator().reserve(dropped > 0 ? philox_counters(input.numel(), 4) : 0);
  return {normalized_shape, eps, dropped, state.seed, state.offset, dtype};
}

}  // namespace

std::tuple<Tensor, Tensor> add_layer_norm(const Tensor& input, const Tensor& residual,
                                          const Shape& normalized_shape, const Tensor& weight,
                                          const Tensor& bias, double eps, const Tensor& input_bias,
                                          double p, bool training, std::optional<DType> dtype) {
  const Tensors both =
      apply_all(add_layer_norm_op, {input, widened(residual, input), weight, bias, input_bias},
                add_attrs(input, normalized_shape, eps, p, training, dtype));
  return {both[0], both[1]};
}

std::tuple<Tensor, Tensor> add_rms_norm(const Tensor& input, const Tensor& residual,
                                        const Shape& normalized_shape, const Tensor& weight,
                                        std::optional<double> eps, const Tensor& input_bias,
                                        double p, bool training, std::optional<DType> dtype) {
  const Tensors both =
      apply_all(add_rms_norm_op, {input, widened(residual, input), weight, input_bias},
                add_attrs(input, normalized_shape, eps, p, training, dtype));
  return {both[0], both[1]};
}

}  // namespace tensora
