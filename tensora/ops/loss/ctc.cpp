#include "tensora/ops/loss/ctc.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/creation/tensor.h"
#include "tensora/ops/index/gather.h"
#include "tensora/ops/index/index_select.h"
#include "tensora/ops/loss/ctc_op.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/logsumexp.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/flip.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {
namespace {

// Stands for minus infinity in the definitions: differences of it are numbers.
constexpr double kNever = -1e30;

void infer_ctc(Infer& infer, const CtcAttrs& attrs) {
  const Tensor &x = infer[0], &targets = infer[1];
  infer.check(x.dim() == 3 && (x.dtype() == kFloat32 || x.dtype() == kFloat64),
              "expected float32 or float64 log_probs (T, N, C), got ", x.dtype(), " of shape ",
              x.sizes());
  infer.check(targets.dim() == 2 && targets.dtype() == kInt64 && targets.size(0) == x.size(1),
              "expected int64 targets (", x.size(1), ", S), got ", targets.dtype(), " of shape ",
              targets.sizes());
  infer.check(attrs.blank >= 0 && attrs.blank < x.size(2), "blank must be one of ", x.size(2),
              " classes, got ", attrs.blank);
  const auto check_lengths = [&](const std::vector<int64_t>& lengths, int64_t most,
                                 const char* what) {
    infer.check(static_cast<int64_t>(lengths.size()) == x.size(1), "expected ", x.size(1), " ",
                what, ", got ", lengths.size());
    for (int64_t length : lengths)
      infer.check(length >= 0 && length <= most, what, " must be between 0 and ", most, ", got ",
                  length);
  };
  check_lengths(attrs.input_lengths, x.size(0), "input_lengths");
  check_lengths(attrs.target_lengths, targets.size(1), "target_lengths");
  infer.output({x.size(1)}, x.dtype());
  infer.output({x.size(1), x.size(0), 2 * targets.size(1) + 1}, x.dtype());
}

// The recursions of Note [Alignments] in other ops, for all sequences at once; time by time.
class Recursion {
 public:
  Recursion(const Tensor& log_probs, const Tensor& targets, const CtcAttrs& attrs)
      : x(log_probs), attrs_(attrs) {
    const Device device = x.device();
    const int64_t n = x.size(1), places = 2 * targets.size(1) + 1;
    const TensorOptions integers{.dtype = kInt64, .device = device};
    const Tensor blanks = full({n, targets.size(1)}, attrs.blank, integers);
    const Tensor pairs = reshape(stack({blanks, targets}, 2), {n, places - 1});
    labels = cat({pairs, full({n, 1}, attrs.blank, integers)}, 1);
    const Tensor place = arange(places, integers);
    target_end = unsqueeze(tensor(attrs.target_lengths, {.device = device}), 1) * 2;  // [N, 1]
    input_end = unsqueeze(tensor(attrs.input_lengths, {.device = device}), 1);
    inside = place <= target_end;
    // Labels beyond a target's end may be anything.
    labels = where(inside, labels, attrs.blank);
    outputs = gather(x, 2, expand(labels, {x.size(0), n, places}));
    const Tensor before = cat({full({n, std::min<int64_t>(2, places)}, attrs.blank, integers),
                               narrow(labels, 1, 0, std::max<int64_t>(0, places - 2))},
                              1);
    skips = logical_and(labels != attrs.blank, labels != before);
    first = place <= 1;
    last = logical_and(place <= target_end, place >= target_end - 1);
  }

  Tensor at(const Tensor& all, int64_t t) const { return squeeze(narrow(all, 0, t, 1), {0}); }

  std::vector<Tensor> alphas() const {
    std::vector<Tensor> result;
    Tensor alpha;
    for (int64_t t = 0; t < x.size(0); ++t) {
      const Tensor out = at(outputs, t);
      const Tensor fresh =
          t == 0 ? where(first, out, kNever)
                 : joined(alpha, shifted(alpha, 1), where(skips, shifted(alpha, 2), kNever)) + out;
      alpha = where(logical_and(inside, input_end > t), fresh, kNever);
      result.push_back(alpha);
    }
    return result;
  }

  std::vector<Tensor> betas() const {
    std::vector<Tensor> result(static_cast<size_t>(x.size(0)));
    Tensor beta;
    const Tensor skipped = to(skips, kInt64);  // whether a place can be reached over a blank
    for (int64_t t = x.size(0) - 1; t >= 0; --t) {
      const Tensor out = at(outputs, t);
      const Tensor start = where(last, out, kNever);
      Tensor fresh = start;
      if (beta.defined()) {
        const Tensor over = where(flip(shifted(flip(skipped, {1}), 2, 0), {1}) != 0,
                                  flip(shifted(flip(beta, {1}), 2), {1}), kNever);
        const Tensor on = joined(beta, flip(shifted(flip(beta, {1}), 1), {1}), over) + out;
        fresh = where(input_end == t + 1, start, on);
      }
      beta = where(logical_and(inside, input_end > t), fresh, kNever);
      result[static_cast<size_t>(t)] = beta;
    }
    return result;
  }

  // The logarithm of the probability of all alignments, given alpha.
  Tensor likelihood(const std::vector<Tensor>& alpha) const {
    const Tensor nothing = where(squeeze(target_end, {1}) == 0, 0.0, kNever);
    if (alpha.empty()) return to(nothing, x.dtype());
    const Tensor all = stack(alpha);  // [T, N, L]
    const Tensor when = clamp_min(input_end - 1, 0);
    const Tensor index = expand(unsqueeze(when, 0), {1, all.size(1), all.size(2)});
    const Tensor ends = where(last, squeeze(gather(all, 0, index), {0}), kNever);
    const Tensor sum = logsumexp(ends, {1});
    return where(squeeze(input_end, {1}) == 0, to(nothing, x.dtype()), sum);
  }

  Tensor x, labels, outputs, inside, skips, first, last, target_end, input_end;

 private:
  static Tensor joined(const Tensor& a, const Tensor& b, const Tensor& c) {
    return clamp_min(logsumexp(stack({a, b, c}), {0}), kNever);
  }
  static Tensor shifted(const Tensor& row, int64_t by, double fill = kNever) {
    const int64_t width = row.size(1), kept = std::max<int64_t>(0, width - by);
    const Tensor edge =
        full({row.size(0), width - kept}, fill, {.dtype = row.dtype(), .device = row.device()});
    return cat({edge, narrow(row, 1, 0, kept)}, 1);
  }
  const CtcAttrs& attrs_;
};

Tensor infinite_if_never(const Tensor& x) {
  return where(x <= kNever / 2, -std::numeric_limits<double>::infinity(), x);
}

Tensors ctc_reference(Args in, const CtcAttrs& attrs) {
  const Recursion recursion(*in[0], *in[1], attrs);
  const std::vector<Tensor> alpha = recursion.alphas();
  const Tensor losses = -infinite_if_never(recursion.likelihood(alpha));
  const int64_t n = in[0]->size(1), places = 2 * in[1]->size(1) + 1;
  const Tensor all =
      alpha.empty() ? empty({n, 0, places}, {.dtype = losses.dtype(), .device = losses.device()})
                    : infinite_if_never(stack(alpha, 1));
  return Tensors{contiguous(losses), contiguous(all)};
}

Tensors ctc_backward_reference(Args in, const CtcAttrs& attrs) {
  const Tensor &grad = *in[0], &x = *in[1];
  const Recursion recursion(x, *in[2], attrs);
  const std::vector<Tensor> alpha = recursion.alphas(), beta = recursion.betas();
  const Tensor likelihood = recursion.likelihood(alpha);
  Tensor factor = unsqueeze(grad, 1);
  const Tensor impossible = unsqueeze(likelihood <= kNever / 2, 1);
  if (attrs.zero_infinity) factor = where(impossible, 0, factor);
  std::vector<Tensor> rows;
  for (int64_t t = 0; t < x.size(0); ++t) {
    const auto i = static_cast<size_t>(t);
    const Tensor share =
        exp(alpha[i] + beta[i] - recursion.at(recursion.outputs, t) - unsqueeze(likelihood, 1));
    const Tensor row = recursion.at(x, t);
    const Tensor counted =
        scatter_add(zeros_like(row), 1, recursion.labels, where(recursion.inside, share, 0));
    Tensor slope = (exp(row) - counted) * factor;
    if (attrs.zero_infinity) slope = where(impossible, 0, slope);
    rows.push_back(where(recursion.input_end > t, slope, 0));
  }
  if (rows.empty()) return Tensors{zeros_like(x)};
  return Tensors{contiguous(stack(rows))};
}

}  // namespace

constinit OpDef<CtcAttrs> ctc_op = define(Op<CtcAttrs>{
    .name = "ctc_loss",
    .inputs = {"log_probs", "targets"},
    .infer = infer_ctc,
    .reference = ctc_reference,
    .vjp =
        [](Vjp& vjp, const CtcAttrs& attrs) {
          check(!vjp.grad(1).defined(), "ctc_loss: alpha has no gradient");
          vjp.set(0, apply(ctc_backward_op,
                           {vjp.grad(0), vjp.input(0), vjp.input(1), vjp.output(0), vjp.output(1)},
                           attrs));
        },
    .saves = {in(0) | in(1) | out(0) | out(1)},
    .autocast = Autocast::full,
});

constinit OpDef<CtcAttrs> ctc_backward_op = define(Op<CtcAttrs>{
    .name = "ctc_loss_backward",
    .inputs = {"grad", "log_probs", "targets", "losses", "alpha"},
    .internal = true,
    .infer = [](Infer& infer,
                const CtcAttrs&) { infer.output(infer[1].sizes(), infer[1].dtype()); },
    .reference = ctc_backward_reference,
    .gradient = Gradient::by_reference,
});

void register_ctc(OpRegistry& registry) {
  registry.add(ctc_op);
  registry.add(ctc_backward_op);
}

namespace {

// Targets one after the other as a matrix; places beyond a target's end repeat something.
Tensor padded(const Tensor& targets, const std::vector<int64_t>& lengths) {
  const int64_t total = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  check(targets.size(0) == total, "ctc_loss: expected ", total,
        " targets, the sum of target_lengths, got ", targets.size(0));
  const auto rows = static_cast<int64_t>(lengths.size());
  const int64_t width = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  std::vector<int64_t> places;
  places.reserve(static_cast<size_t>(rows * width));
  int64_t start = 0;
  for (int64_t length : lengths) {
    for (int64_t i = 0; i < width; ++i)
      places.push_back(std::min(start + i, std::max<int64_t>(0, total - 1)));
    start += length;
  }
  const Tensor index = to(tensor(places), targets.device());
  return reshape(index_select(targets, 0, index), {rows, width});
}

std::vector<int64_t> lengths_of(const Tensor& lengths, const char* what) {
  check(!lengths.is_floating_point() && !lengths.is_complex() && lengths.dim() <= 1,
        "ctc_loss: ", what, " must be a vector of integers, got ", lengths.dtype(), " of shape ",
        lengths.sizes());
  const Tensor host = contiguous(to(to(lengths, kInt64), Device("cpu")));
  const auto* const first = static_cast<const int64_t*>(host.data_ptr());
  return {first, first + host.numel()};
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets,
                const std::vector<int64_t>& input_lengths,
                const std::vector<int64_t>& target_lengths, int64_t blank, Reduction reduction,
                bool zero_infinity) {
  constexpr std::string_view op = "ctc_loss";
  const bool batched = log_probs.dim() == 3;
  check(batched || log_probs.dim() == 2, op, ": expected log_probs (T, N, C) or (T, C), got shape ",
        log_probs.sizes());
  check(targets.dtype() == kInt64 || targets.dtype() == kInt32, op,
        ": expected targets of dtype int64 or int32, got ", targets.dtype());
  check(targets.dim() == 1 || targets.dim() == 2, op,
        ": expected targets (N, S) or one after the other, got shape ", targets.sizes());
  const Reduction::Kind kind = reduction.kind(op);
  const Tensor x = batched ? log_probs : unsqueeze(log_probs, 1);
  Tensor y = to(targets, kInt64);
  if (!batched && y.dim() == 1) y = unsqueeze(y, 0);
  if (y.dim() == 1) {
    for (int64_t length : target_lengths)
      check(length >= 0, op, ": target_lengths must not be negative, got ", length);
    y = padded(y, target_lengths);
  }
  const CtcAttrs attrs{input_lengths, target_lengths, blank, zero_infinity};
  Tensor losses = apply_all(ctc_op, {x, y}, attrs)[0];
  if (zero_infinity) losses = where(losses == std::numeric_limits<double>::infinity(), 0, losses);
  if (kind == Reduction::none) return batched ? losses : squeeze(losses, {0});
  if (kind != Reduction::mean) return reduce_loss(op, losses, reduction);
  std::vector<int64_t> divisors = target_lengths;
  for (int64_t& length : divisors) length = std::max<int64_t>(1, length);
  return mean(losses / to(to(tensor(divisors), x.dtype()), x.device()));
}

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, int64_t blank, Reduction reduction,
                bool zero_infinity) {
  return ctc_loss(log_probs, targets, lengths_of(input_lengths, "input_lengths"),
                  lengths_of(target_lengths, "target_lengths"), blank, reduction, zero_infinity);
}

}  // namespace tensora
