// Registers nothing: quantile and mode are composed of sorting and gathering.
#include "tensora/ops/sort/quantile.h"

#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/index/gather.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/reduce/any_all.h"
#include "tensora/ops/reduce/max_dim.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/scan/cummax.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"
#include "tensora/ops/sort/sort.h"

namespace tensora {
namespace {

enum class Between { linear, lower, higher, midpoint, nearest };

Between parse_interpolation(std::string_view text, std::string_view op) {
  if (text == "linear") return Between::linear;
  if (text == "lower") return Between::lower;
  if (text == "higher") return Between::higher;
  if (text == "midpoint") return Between::midpoint;
  check(text == "nearest", op,
        ": interpolation must be one of linear, lower, higher, midpoint or nearest, got ", text);
  return Between::nearest;
}

struct QuantileCall {
  std::string_view op;
  std::optional<int64_t> dim;
  bool keepdim;
  Between between;
  bool ignore_nan;
};

void check_arguments(const Tensor& self, const Tensor& q, std::string_view op) {
  check(self.dtype() == kFloat32 || self.dtype() == kFloat64, op,
        ": self must be float32 or float64, got ", self.dtype());
  check(self.numel() > 0, op, ": self must not be empty, got shape ", self.sizes());
  check(q.dim() <= 1, op, ": q must be a number or a 1-D tensor, got shape ", q.sizes());
  check(q.dtype() == self.dtype(), op, ": q must have self's dtype ", self.dtype(), ", got ",
        q.dtype());
  check(q.device() == self.device(), op, ": q must be on self's device ", self.device(), ", got ",
        q.device());
}

// The positions in the sorted lines, last dim, between which the quantiles lie. In float64, as
// PyTorch has them: five times a float32 of 0.1 is more than a half.
Tensor ranks_of(const Tensor& lines, const Tensor& q, const QuantileCall& call) {
  const Tensor nans = isnan(lines), wide = to(q, kFloat64);
  const auto last = static_cast<double>(lines.size(-1) - 1);
  if (call.ignore_nan) {
    const Tensor there = to(sum(logical_not(nans), {-1}, true), kFloat64);
    return clamp_min(wide * (there - 1), 0);
  }
  return where(any(nans, {-1}, true), last, wide * last);
}

// The quantiles of the lines along the last dim, as many as q has.
Tensor of_lines(const Tensor& lines, const Tensor& q, const QuantileCall& call) {
  const Tensor sorted = std::get<0>(sort(lines, -1));
  Tensor ranks = ranks_of(lines.detach(), q, call);
  if (call.between == Between::lower) ranks = floor(ranks);
  if (call.between == Between::higher) ranks = ceil(ranks);
  if (call.between == Between::nearest) ranks = round(ranks);
  const Tensor below = to(ranks, kInt64), at_below = gather(sorted, -1, below);
  if (call.between != Between::linear && call.between != Between::midpoint) return at_below;
  const Tensor at_above = gather(sorted, -1, to(ceil(ranks), kInt64));
  if (call.between == Between::midpoint) return lerp(at_below, at_above, 0.5);
  return lerp(at_below, at_above, to(ranks - below, lines.dtype()));
}

Tensor quantile_of(const Tensor& self, const Tensor& q, const QuantileCall& call) {
  check_arguments(self, q, call.op);
  if (!self.is_meta()) {
    const Tensor valid = all(logical_and(ge(q, 0), le(q, 1)));
    check(valid.item<bool>(), call.op, ": q must be in the range [0, 1]");
  }
  Shape kept;  // the result's, without q's
  Tensor lines;
  if (!call.dim) {
    lines = ravel(self);
    kept = Shape::filled(call.keepdim ? self.dim() : 0, 1);
  } else {
    const int dim = wrap_dim(*call.dim, self.dim(), call.op);
    lines = self.dim() == 0 ? ravel(self) : movedim(self, {dim}, {-1});
    kept = self.sizes();
    if (self.dim() > 0 && call.keepdim) kept[dim] = 1;
    if (self.dim() > 0 && !call.keepdim) kept.erase(dim);
  }
  Tensor result = of_lines(lines, ravel(q), call);
  Shape sizes = kept;
  if (q.dim() == 0) return reshape(result, sizes);
  sizes.insert(0, q.sizes()[0]);
  return reshape(movedim(result, {-1}, {0}), sizes);
}

Tensor quantile_of(const Tensor& self, double q, const QuantileCall& call) {
  check(q >= 0 && q <= 1, call.op, ": q must be in the range [0, 1], got ", q);
  return quantile_of(self, full({}, q, {.dtype = self.dtype(), .device = self.device()}), call);
}

}  // namespace

Tensor quantile(const Tensor& self, double q, std::optional<int64_t> dim, bool keepdim,
                std::string_view interpolation) {
  const Between between = parse_interpolation(interpolation, "quantile");
  return quantile_of(self, q, {"quantile", dim, keepdim, between, false});
}
Tensor quantile(const Tensor& self, const Tensor& q, std::optional<int64_t> dim, bool keepdim,
                std::string_view interpolation) {
  const Between between = parse_interpolation(interpolation, "quantile");
  return quantile_of(self, q, {"quantile", dim, keepdim, between, false});
}
Tensor nanquantile(const Tensor& self, double q, std::optional<int64_t> dim, bool keepdim,
                   std::string_view interpolation) {
  const Between between = parse_interpolation(interpolation, "nanquantile");
  return quantile_of(self, q, {"nanquantile", dim, keepdim, between, true});
}
Tensor nanquantile(const Tensor& self, const Tensor& q, std::optional<int64_t> dim, bool keepdim,
                   std::string_view interpolation) {
  const Between between = parse_interpolation(interpolation, "nanquantile");
  return quantile_of(self, q, {"nanquantile", dim, keepdim, between, true});
}

// In sorted lines, equal elements are runs. Where a run begins is spread over it by a running
// maximum; the longest run is the one whose last element is farthest from its beginning.
std::tuple<Tensor, Tensor> mode(const Tensor& self, int64_t dim, bool keepdim) {
  const int at = wrap_dim(dim, self.dim(), "mode");
  const Tensor x = self.dim() == 0 ? ravel(self) : self;
  check(x.size(at) > 0, "mode: dimension ", at, " has size 0");
  const auto [values, indices] = sort(x.detach(), at);
  const int64_t n = x.size(at);
  Shape along = Shape::filled(x.dim(), 1);
  along[at] = n;
  const Tensor places = reshape(arange(n, {.device = x.device()}), along);
  const Tensor starts = where(ne(narrow(values, at, 1, n - 1), narrow(values, at, 0, n - 1)),
                              narrow(places, at, 1, n - 1), 0);
  const Tensor first = zeros_like(narrow(indices, at, 0, 1));
  const Tensor run_start = std::get<0>(cummax(cat({first, starts}, at), at));
  const Tensor best = argmax(places - run_start, at, true);
  const Tensor index = gather(indices, at, best);
  const Tensor value = gather(x, at, index);
  if (self.dim() == 0) return {reshape(value, {}), reshape(index, {})};
  if (keepdim) return {value, index};
  return {squeeze(value, {at}), squeeze(index, {at})};
}

}  // namespace tensora
