#include "tensora/ops/loss/cross_entropy.h"

#include "tensora/base/error_kinds.h"
#include "tensora/core/thread_state.h"
#include "tensora/dispatch/autocast.h"
#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/index/gather.h"
#include "tensora/ops/index/index_select.h"
#include "tensora/ops/loss/cross_entropy_op.h"
#include "tensora/ops/norm/softmax.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/amax.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {
namespace {

DType wide_dtype(DType dtype) { return dtype == kFloat64 ? kFloat64 : kFloat32; }

Shape without_classes(const Shape& sizes) {
  Shape result{sizes[0]};
  for (int d = 2; d < sizes.size(); ++d) result.push_back(sizes[d]);
  return result;
}

// Checks what the ops of this file share and returns the shape of the targets.
Shape check_classes(const Infer& infer, size_t at, size_t weight) {
  const Tensor &input = infer[at], &target = infer[at + 1];
  infer.check(input.is_floating_point(), "expected a floating-point input, got ", input.dtype());
  infer.check(input.dim() == 2 || input.dim() == 3,
              "expected an input [N, C] or [N, C, I], got shape ", input.sizes());
  infer.check(target.dtype() == kInt64 || target.dtype() == kInt32,
              "expected class numbers of dtype int64 or int32, got ", target.dtype());
  const Shape sizes = without_classes(input.sizes());
  infer.check(target.sizes() == sizes, "expected a target of shape ", sizes, ", got ",
              target.sizes());
  if (infer.has(weight)) {
    const Tensor& factors = infer[weight];
    infer.check(factors.sizes() == Shape{input.size(1)}, "expected a weight for each of ",
                input.size(1), " classes, got shape ", factors.sizes());
    infer.check(factors.dtype() == wide_dtype(input.dtype()), "expected weights of dtype ",
                wide_dtype(input.dtype()), ", got ", factors.dtype());
  }
  return sizes;
}

void check_smoothing(const Infer& infer, const CrossEntropyAttrs& attrs, size_t weight) {
  infer.check(attrs.label_smoothing >= 0 && attrs.label_smoothing <= 1,
              "label_smoothing must be between 0 and 1, got ", attrs.label_smoothing);
  infer.check(attrs.label_smoothing == 0 || infer.has(weight) == infer.has(weight + 1),
              "smoothing with weights needs their sum");
}

// The gradient has the input's layout where that has no gaps.
void output_like(Infer& infer, const Tensor& input) {
  if (is_dense(input.sizes(), input.strides()))
    infer.output(input.sizes(), input.strides(), input.dtype());
  else
    infer.output(input.sizes(), input.dtype());
}

Tensor optional(Args in, size_t i) { return i < in.size() ? *in[i] : Tensor(); }

// What the definitions below need of the targets, with the classes as a dim of size 1.
struct Targets {
  Tensor place, counts;  // a class number, 0 where ignored; whether it is not ignored
  Tensor weight;         // of its class, or undefined

  Targets(const Tensor& target, const Tensor& class_weight, int64_t ignore_index) {
    const Tensor y = unsqueeze(to(target, kInt64), 1);
    counts = y != ignore_index;
    place = where(counts, y, 0);
    if (class_weight.defined())
      weight = reshape(index_select(class_weight, 0, ravel(place)), place.sizes());
  }
  Tensor weighted(const Tensor& x) const {
    return where(counts, weight.defined() ? x * weight : x, 0);
  }
};

Tensor by_class(const Tensor& weight, int dims) {
  return dims == 3 ? reshape(weight, {1, weight.size(0), 1}) : reshape(weight, {1, weight.size(0)});
}

// The largest logit of each target, and log(sum(exp(x))) of the others relative to it: NaN where
// the largest is infinite, as in log_softmax.
struct Normalizer {
  Tensor largest, lowered, log_sum;

  explicit Normalizer(const Tensor& x)
      : largest(x.size(1) == 0 ? sum(x, {1}, true) : amax(x, {1}, true)),
        lowered(x - largest),
        log_sum(log(sum(exp(lowered), {1}, true))) {}
  Tensor log_probabilities() const { return lowered - log_sum; }
};

// Without the dim of classes, row-major.
Tensor per_target(const Tensor& x) { return contiguous(squeeze(x, {1})); }

Tensors cross_entropy_reference(Args in, const CrossEntropyAttrs& attrs) {
  const Tensor x = to(*in[0], wide_dtype(in[0]->dtype())), weight = optional(in, 2);
  const Targets y(*in[1], weight, attrs.ignore_index);
  const Normalizer norm(x);
  const double share = attrs.label_smoothing;
  const Tensor each = -norm.log_probabilities();
  Tensor losses = y.weighted(gather(each, 1, y.place) * (1 - share));
  if (share > 0) {
    const Tensor all = weight.defined() ? each * by_class(weight, x.dim()) : each;
    const Tensor even = sum(all, {1}, true) * (share / static_cast<double>(x.size(1)));
    losses = losses + where(y.counts, even, 0);
  }
  const Tensor weights =
      y.weighted(ones(losses.sizes(), {.dtype = x.dtype(), .device = x.device()}));
  return Tensors{per_target(losses), per_target(weights), per_target(norm.largest),
                 per_target(norm.log_sum)};
}

// By the logits alone, so that its own gradient is that of the whole expression.
Tensors cross_entropy_backward_reference(Args in, const CrossEntropyAttrs& attrs) {
  const DType dtype = in[1]->dtype();
  const Tensor x = to(*in[1], wide_dtype(dtype)), weight = optional(in, 5);
  const Targets y(*in[2], weight, attrs.ignore_index);
  const Tensor grad = where(y.counts, unsqueeze(*in[0], 1), 0);
  const double share = attrs.label_smoothing, part = share / static_cast<double>(x.size(1));
  const Tensor p = exp(Normalizer(x).log_probabilities());
  const Tensor classes = by_class(arange(x.size(1), {.device = x.device()}), x.dim());
  const Tensor strength = y.weighted(grad * (1 - share));
  Tensor result = strength * (p - to(classes == y.place, x.dtype()));
  if (share > 0 && weight.defined())
    result = result + grad * part * (p * sum(weight) - by_class(weight, x.dim()));
  else if (share > 0)
    result = result + grad * part * (p * static_cast<double>(x.size(1)) - 1);
  return Tensors{to(result, dtype)};
}

Tensors nll_reference(Args in, const CrossEntropyAttrs& attrs) {
  const Tensor x = to(*in[0], wide_dtype(in[0]->dtype()));
  const Targets y(*in[1], optional(in, 2), attrs.ignore_index);
  const Tensor weights =
      y.weighted(ones(y.place.sizes(), {.dtype = x.dtype(), .device = x.device()}));
  return Tensors{per_target(y.weighted(-gather(x, 1, y.place))), per_target(weights)};
}

Tensors nll_backward_reference(Args in, const CrossEntropyAttrs& attrs) {
  const Targets y(*in[2], optional(in, 3), attrs.ignore_index);
  const Tensor zero = zeros(in[1]->sizes(), {.dtype = in[0]->dtype(), .device = in[0]->device()});
  return Tensors{to(scatter(zero, 1, y.place, y.weighted(-unsqueeze(*in[0], 1))), in[1]->dtype())};
}

bool has_weight(const Vjp& vjp) {
  return vjp.input_count() > 2 && !vjp.input_sizes(2).empty();  // it has a dim where it is given
}

void check_weight_constant(const Vjp& vjp, std::string_view op) {
  check(vjp.input_count() < 3 || !vjp.needs(2), op, ": not differentiable with respect to weight");
}

}  // namespace

constinit OpDef<CrossEntropyAttrs> cross_entropy_op = define(Op<CrossEntropyAttrs>{
    .name = "cross_entropy",
    .inputs = {"input", "target", "weight?", "weight_total?"},
    .infer =
        [](Infer& infer, const CrossEntropyAttrs& attrs) {
          const Shape sizes = check_classes(infer, 0, 2);
          check_smoothing(infer, attrs, 2);
          for (int i = 0; i < 4; ++i) infer.output(sizes, wide_dtype(infer[0].dtype()));
        },
    .reference = cross_entropy_reference,
    .vjp =
        [](Vjp& vjp, const CrossEntropyAttrs& attrs) {
          check_weight_constant(vjp, "cross_entropy");
          if (!vjp.grad(0).defined()) return;
          const Tensor weight = has_weight(vjp) ? vjp.input(2) : Tensor();
          const bool smooths = has_weight(vjp) && attrs.label_smoothing > 0;
          const Tensor total = smooths ? vjp.input(3) : Tensor();
          vjp.set(0, apply(cross_entropy_backward_op,
                           {vjp.grad(0), vjp.input(0), vjp.input(1), vjp.output(2), vjp.output(3),
                            weight, total},
                           attrs));
        },
    .saves = {in(0) | in(1) | in(2) | in(3) | out(2) | out(3)},
});

constinit OpDef<CrossEntropyAttrs> cross_entropy_backward_op = define(Op<CrossEntropyAttrs>{
    .name = "cross_entropy_backward",
    .inputs = {"grad", "input", "target", "largest", "log_sum", "weight?", "weight_total?"},
    .internal = true,
    .infer = [](Infer& infer, const CrossEntropyAttrs&) { output_like(infer, infer[1]); },
    .reference = cross_entropy_backward_reference,
    .gradient = Gradient::by_reference,
});

constinit OpDef<CrossEntropyAttrs> nll_op = define(Op<CrossEntropyAttrs>{
    .name = "nll_loss",
    .inputs = {"input", "target", "weight?"},
    .infer =
        [](Infer& infer, const CrossEntropyAttrs&) {
          const Shape sizes = check_classes(infer, 0, 2);
          for (int i = 0; i < 2; ++i) infer.output(sizes, wide_dtype(infer[0].dtype()));
        },
    .reference = nll_reference,
    .vjp =
        [](Vjp& vjp, const CrossEntropyAttrs& attrs) {
          check_weight_constant(vjp, "nll_loss");
          if (!vjp.grad(0).defined()) return;
          const Tensor weight = has_weight(vjp) ? vjp.input(2) : Tensor();
          vjp.set(0,
                  apply(nll_backward_op, {vjp.grad(0), vjp.input(0), vjp.input(1), weight}, attrs));
        },
    .saves = {in(0) | in(1) | in(2)},
});

constinit OpDef<CrossEntropyAttrs> nll_backward_op = define(Op<CrossEntropyAttrs>{
    .name = "nll_loss_backward",
    .inputs = {"grad", "input", "target", "weight?"},
    .internal = true,
    .infer = [](Infer& infer, const CrossEntropyAttrs&) { output_like(infer, infer[1]); },
    .reference = nll_backward_reference,
    .gradient = Gradient::by_reference,
});

void register_cross_entropy(OpRegistry& registry) {
  for (const auto* op : {&cross_entropy_op, &cross_entropy_backward_op, &nll_op, &nll_backward_op})
    registry.add(*op);
  for (const auto* op : {&cross_entropy_op, &nll_op})
    shard_by(*op, [](Args in, const CrossEntropyAttrs&) -> std::string_view {
      if (in.size() > 3 && in[3]->defined()) return "";
      return in[0]->dim() == 2 ? "n.,n,.->n" : "n.i,ni,.->ni";
    });
}

namespace {

// The arguments in the form that the ops take: [N, C] or [N, C, I].
struct Flat {
  Tensor input, target, weight;

  Flat(std::string_view op, const Tensor& x, const Tensor& y, const Tensor& w)
      : input(x), target(y), weight(w) {
    check(x.dim() >= 1, op, ": expected an input with a dim of classes, got a number");
    check(x.is_floating_point(), op, ": expected a floating-point input, got ", x.dtype());
    if (w.defined()) {
      check(w.dtype() == x.dtype() || is_autocast_enabled(), op,
            ": expected a weight of the input's dtype ", x.dtype(), ", got ", w.dtype());
      weight = to(w, wide_dtype(x.dtype()));
    }
    check(y.dtype() == kInt64 || y.dtype() == kInt32 || y.dtype() == kUInt8, op,
          ": expected class numbers of dtype int64, got ", y.dtype());
    if (y.dtype() == kUInt8) target = to(y, kInt64);
    if (x.dim() == 1) {
      check(y.dim() == 0, op, ": expected a target without dims for a vector, got shape ",
            y.sizes());
      input = unsqueeze(x, 0);
      target = unsqueeze(target, 0);
      return;
    }
    const Shape wanted = without_classes(x.sizes());
    check_as<ValueError>(y.dim() == 0 || y.size(0) == x.size(0), op,
                         ": expected a target of shape ", wanted, " for an input of ", x.sizes(),
                         ", got ", y.sizes());
    check(y.sizes() == wanted, op, ": expected a target of shape ", wanted, " for an input of ",
          x.sizes(), ", got ", y.sizes());
    if (x.dim() <= 3) return;
    int64_t rest = 1;
    for (int d = 2; d < x.dim(); ++d) rest *= x.size(d);
    input = reshape(x, {x.size(0), x.size(1), rest});
    target = reshape(target, {x.size(0), rest});
  }
};

Tensors called(const OpDef<CrossEntropyAttrs>& op, const Flat& flat, const Tensor& total,
               const CrossEntropyAttrs& attrs) {
  if (total.defined()) return apply_all(op, {flat.input, flat.target, flat.weight, total}, attrs);
  if (flat.weight.defined()) return apply_all(op, {flat.input, flat.target, flat.weight}, attrs);
  return apply_all(op, {flat.input, flat.target}, attrs);
}

// The kernels compute in float32 whatever comes in; under autocast the result stays that wide.
DType loss_dtype(const Tensor& input) {
  return is_autocast_enabled(input.device().type) ? wide_dtype(input.dtype()) : input.dtype();
}

Tensor weighted_mean(std::string_view op, const Tensor& losses, const Tensor& weights,
                     const Shape& sizes, DType dtype, Reduction reduction) {
  switch (reduction.kind(op)) {
    case Reduction::none:
      return to(losses.sizes() == sizes ? losses : reshape(losses, sizes), dtype);
    case Reduction::mean:
      return to(sum(losses) / sum(weights.detach()), dtype);
    default:
      return to(reduce_loss(op, losses, reduction), dtype);
  }
}

Tensor with_probabilities(const Tensor& input, const Tensor& target, const Tensor& weight,
                          Reduction reduction, double label_smoothing) {
  constexpr std::string_view op = "cross_entropy";
  check(target.is_floating_point(), op, ": expected a floating-point target of the input's shape, ",
        "got ", target.dtype());
  const int dim = input.dim() == 1 ? 0 : 1;
  const int64_t classes = input.size(dim);
  const DType wide = wide_dtype(input.dtype());
  const Tensor x = to(input, wide);
  Tensor y = to(target, wide);
  if (label_smoothing > 0)
    y = y * (1 - label_smoothing) + label_smoothing / static_cast<double>(classes);
  if (weight.defined()) {
    check(weight.sizes() == Shape{classes}, op, ": expected a weight for each of ", classes,
          " classes, got shape ", weight.sizes());
    Shape along = Shape::filled(input.dim(), 1);
    along[dim] = classes;
    y = y * reshape(to(weight, wide), along);
  }
  const Tensor losses = -sum(log_softmax(x, dim) * y, {dim});
  if (reduction.kind(op) != Reduction::mean)
    return to(reduce_loss(op, losses, reduction), loss_dtype(input));
  const int64_t count = classes == 0 ? 0 : input.numel() / classes;
  return to(sum(losses) / static_cast<double>(count), loss_dtype(input));
}

}  // namespace

Tensor cross_entropy(const Tensor& input, const Tensor& target, const Tensor& weight,
                     int64_t ignore_index, Reduction reduction, double label_smoothing) {
  check(label_smoothing >= 0 && label_smoothing <= 1,
        "cross_entropy: label_smoothing must be between 0 and 1, got ", label_smoothing);
  if (input.dim() >= 1 && input.sizes() == target.sizes()) {
    check(ignore_index < 0, "cross_entropy: ignore_index is not supported for a target of ",
          "probabilities, got ", ignore_index);
    return with_probabilities(input, target, weight, reduction, label_smoothing);
  }
  const Flat flat("cross_entropy", input, target, weight);
  const Tensor total = label_smoothing > 0 && flat.weight.defined() ? sum(flat.weight) : Tensor();
  const Tensors results = called(cross_entropy_op, flat, total, {ignore_index, label_smoothing});
  return weighted_mean("cross_entropy", results[0], results[1], target.sizes(), loss_dtype(input),
                       reduction);
}

Tensor nll_loss(const Tensor& input, const Tensor& target, const Tensor& weight,
                int64_t ignore_index, Reduction reduction) {
  const Flat flat("nll_loss", input, target, weight);
  const Tensors results = called(nll_op, flat, {}, {ignore_index, 0});
  return weighted_mean("nll_loss", results[0], results[1], target.sizes(), loss_dtype(input),
                       reduction);
}

}  // namespace tensora
