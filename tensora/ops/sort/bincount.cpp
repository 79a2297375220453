#include "tensora/ops/sort/bincount.h"

#include <cmath>

#include "tensora/core/determinism.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/index/gather.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/reduce/amax.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/scan/diff.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"
#include "tensora/ops/sort/count_bins.h"
#include "tensora/ops/sort/searchsorted.h"

namespace tensora {
namespace {

// The weights, or how many there are, of each bin. Elements that belong to no bin name the bin
// after the last, which is dropped.
Tensor counted(const Tensor& bin, const Tensor& weights, int64_t bins, DType dtype) {
  const TensorOptions options{.dtype = dtype, .device = bin.device()};
  const Tensor one =
      weights.defined() ? ravel(to(weights, dtype)) : expand(ones({}, options), {bin.numel()});
  return narrow(scatter_add(zeros({bins + 1}, options), 0, bin, one), 0, 0, bins);
}

struct Range {
  double low, high;
};

// The range of the elements unless one is given; widened if it is empty.
Range range_of(const Tensor& x, std::optional<Range> given, std::string_view op) {
  Range range = given.value_or(Range{0, 0});
  if (!given && x.numel() > 0) {
    const auto [low, high] = aminmax(x);
    range = {low.item<double>(), high.item<double>()};
  }
  check(std::isfinite(range.low) && std::isfinite(range.high), op, ": the range from ", range.low,
        " to ", range.high, " is not finite");
  check(range.low <= range.high, op, ": max must not be smaller than min, got ", range.high,
        " and ", range.low);
  if (range.low == range.high && x.numel() == 0) return {range.low, range.low + 1};
  return range;
}

void check_floating(const Tensor& self, std::string_view op) {
  check(self.is_floating_point(), op, ": expected a floating-point dtype, got ", self.dtype());
}

Tensor equal_edges(const Tensor& x, Range range, int64_t bins) {
  return linspace(range.low, range.high, bins + 1, {.dtype = x.dtype(), .device = x.device()});
}

std::tuple<Tensor, Tensor> finished(Tensor hist, const Tensor& edges, bool density) {
  if (density) hist = hist / sum(hist) / diff(edges);
  return {hist, edges};
}

void check_weight(const Tensor& self, const Tensor& weight) {
  if (!weight.defined()) return;
  check(weight.sizes() == self.sizes(), "histogram: weight must have self's shape ", self.sizes(),
        ", got ", weight.sizes());
  check(weight.dtype() == self.dtype(), "histogram: weight must have self's dtype ", self.dtype(),
        ", got ", weight.dtype());
}

// Integers outside of the bins name the one after the last.
Tensors count_integers_reference(Args in, const CountIntegersAttrs& attrs) {
  const bool weighted = in.size() > 1 && in[1]->defined();
  const Tensor x = to(*in[0], kInt64);
  const Tensor bin = where(logical_and(ge(x, 0), lt(x, attrs.bins)), x, attrs.bins);
  return Tensors{contiguous(
      counted(bin, weighted ? *in[1] : Tensor(), attrs.bins, weighted ? in[1]->dtype() : kInt64))};
}

Tensors count_intervals_reference(Args in, const CountIntervalsAttrs& attrs) {
  const Tensor& given = *in[0];
  const Tensor x = to(given, given.dtype() == kFloat64 ? kFloat64 : kFloat32);
  const Tensor inside = logical_and(ge(x, attrs.low), le(x, attrs.high));
  const Tensor place = (where(inside, x, attrs.low) - attrs.low) * static_cast<double>(attrs.bins) /
                       (attrs.high - attrs.low);
  const Tensor bin = clamp_max(to(place, kInt64), attrs.bins - 1);
  return Tensors{contiguous(counted(where(inside, bin, attrs.bins), {}, attrs.bins, kInt64))};
}

}  // namespace

constinit OpDef<CountIntegersAttrs> count_integers_op = define(Op<CountIntegersAttrs>{
    .name = "count_integers",
    .inputs = {"self", "weights?"},
    .internal = true,
    .infer =
        [](Infer& infer, const CountIntegersAttrs& attrs) {
          infer.output({attrs.bins}, infer.has(1) ? infer[1].dtype() : kInt64);
        },
    .reference = count_integers_reference,
    .gradient = Gradient::not_differentiable,
});

constinit OpDef<CountIntervalsAttrs> count_intervals_op = define(Op<CountIntervalsAttrs>{
    .name = "count_intervals",
    .inputs = {"self"},
    .internal = true,
    .infer = [](Infer& infer,
                const CountIntervalsAttrs& attrs) { infer.output({attrs.bins}, kInt64); },
    .reference = count_intervals_reference,
    .gradient = Gradient::not_differentiable,
});

void register_bincount(OpRegistry& registry) {
  registry.add(count_integers_op);
  registry.add(count_intervals_op);
}

Tensor bincount(const Tensor& self, const Tensor& weights, int64_t minlength) {
  check(self.dim() == 1 && is_integral(self.dtype()),
        "bincount: expected a 1-D tensor of integers, got shape ", self.sizes(), " and dtype ",
        self.dtype());
  check(minlength >= 0, "bincount: minlength must not be negative, got ", minlength);
  check(!weights.defined() || weights.sizes() == self.sizes(),
        "bincount: weights must be 1-D and as long as self, ", self.numel(), ", got shape ",
        weights.defined() ? weights.sizes() : Shape{});
  DType dtype = kInt64;
  if (weights.defined()) dtype = weights.dtype() == kFloat32 ? kFloat32 : kFloat64;
  if (self.numel() == 0)  // as in PyTorch, weights or not
    return zeros({minlength}, {.dtype = kInt64, .device = self.device()});
  const auto [low, high] = aminmax(self);
  const auto smallest = low.item<int64_t>(), largest = high.item<int64_t>();
  check(smallest >= 0, "bincount: expected integers that are not negative, got ", smallest);
  const CountIntegersAttrs attrs{std::max(minlength, largest + 1)};
  const Tensor integers = contiguous(self);
  if (!weights.defined()) return apply(count_integers_op, {integers}, attrs);
  const Tensor weight = contiguous(to(weights.detach(), dtype));
  if (is_deterministic())
    return contiguous(counted(to(integers, kInt64), weight, attrs.bins, dtype));
  return apply(count_integers_op, {integers, weight}, attrs);
}

Tensor histc(const Tensor& self, int64_t bins, Scalar min, Scalar max) {
  check_floating(self, "histc");
  check(bins > 0, "histc: bins must be positive, got ", bins);
  const Tensor x = ravel(self.detach());
  std::optional<Range> given = Range{min.to<double>(), max.to<double>()};
  check(given->low <= given->high, "histc: max must not be smaller than min, got ", given->high,
        " and ", given->low);
  if (given->low == given->high) given.reset();
  Range range = range_of(x, given, "histc");
  if (range.low == range.high) range = {range.low - 1, range.high + 1};
  const Tensor counts = apply(count_intervals_op, {contiguous(x)}, {bins, range.low, range.high});
  return to(counts, x.dtype());
}

std::tuple<Tensor, Tensor> histogram(const Tensor& self, const Tensor& bins, const Tensor& weight,
                                     bool density) {
  check_floating(self, "histogram");
  check_weight(self, weight);
  check(bins.dim() == 1 && bins.numel() > 0,
        "histogram: bins must be a 1-D tensor of edges, got shape ", bins.sizes());
  check(bins.dtype() == self.dtype(), "histogram: bins must have self's dtype ", self.dtype(),
        ", got ", bins.dtype());
  const int64_t count = bins.numel() - 1;
  const Tensor x = ravel(self.detach()), last = select(bins.detach(), 0, count);
  const Tensor place = searchsorted(bins, x, false, true) - 1;
  const Tensor inside = logical_and(ge(place, 0), le(x, last));  // NaN is not
  const Tensor bin = where(inside, clamp_max(place, count - 1), count);
  const Tensor weights = weight.defined() ? weight.detach() : Tensor();
  return finished(counted(bin, weights, count, x.dtype()), bins, density);
}

std::tuple<Tensor, Tensor> histogram(const Tensor& self, int64_t bins,
                                     std::optional<std::pair<double, double>> range,
                                     const Tensor& weight, bool density) {
  check_floating(self, "histogram");
  check_weight(self, weight);
  check(bins > 0, "histogram: bins must be positive, got ", bins);
  const Tensor x = ravel(self.detach());
  std::optional<Range> given;
  if (range) given = Range{range->first, range->second};
  Range found = range_of(x, given, "histogram");
  if (found.low == found.high) found = {found.low - 0.5, found.high + 0.5};
  return histogram(self, equal_edges(x, found, bins), weight, density);
}

}  // namespace tensora
