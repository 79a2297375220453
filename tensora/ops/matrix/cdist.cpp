#include "tensora/ops/matrix/cdist.h"

#include <cmath>

#include "tensora/base/error_kinds.h"
#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/index/index_select.h"
#include "tensora/ops/matrix/matmul.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/p_norm.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {

constexpr auto describe(std::type_identity<CdistAttrs>) {
  return fields(field("p", &CdistAttrs::p));
}

namespace {

Shape batch_of(const Tensor& x) {
  Shape batch = x.sizes();
  batch.resize(x.dim() - 2);
  return batch;
}

void check_points(const Infer& infer, const Tensor& x1, const Tensor& x2) {
  infer.check(x1.dim() >= 2 && x2.dim() >= 2 && batch_of(x1) == batch_of(x2),
              "expected matrices of one batch, got shapes ", x1.sizes(), " and ", x2.sizes());
  infer.check(x1.size(-1) == x2.size(-1), "expected points of one length, got shapes ", x1.sizes(),
              " and ", x2.sizes());
  infer.check(x1.dtype() == x2.dtype() && (x1.dtype() == kFloat32 || x1.dtype() == kFloat64),
              "expected points of float32 or float64, got ", x1.dtype(), " and ", x2.dtype());
}

void infer_distances(Infer& infer) {
  check_points(infer, infer[0], infer[1]);
  Shape sizes = batch_of(infer[0]);
  sizes.push_back(infer[0].size(-2));
  sizes.push_back(infer[1].size(-2));
  infer.output(sizes, infer[0].dtype());
}

void infer_cdist(Infer& infer, const CdistAttrs& attrs) {
  infer.check(attrs.p >= 0, "only supports non-negative p values, got ", attrs.p);
  infer_distances(infer);
}

/// All differences, … P R M.
Tensor all_differences(const Tensor& x1, const Tensor& x2) {
  return unsqueeze(x1, -2) - unsqueeze(x2, -3);
}

Tensors cdist_reference(Args in, const CdistAttrs& attrs) {
  return Tensors{norm(all_differences(*in[0], *in[1]), attrs.p, {-1})};
}

void cdist_vjp(Vjp& vjp, const CdistAttrs& attrs) {
  const Tensor x1 = vjp.input(0), x2 = vjp.input(1), distances = vjp.output(0);
  const Tensor& g = vjp.grad();
  if (vjp.needs(0)) vjp.set(0, apply(cdist_backward_op, {g, x1, x2, distances}, attrs));
  if (vjp.needs(1)) vjp.set(1, apply(cdist_backward_op, {mT(g), x2, x1, mT(distances)}, attrs));
}

void infer_backward(Infer& infer, const CdistAttrs&) {
  check_points(infer, infer[1], infer[2]);
  for (const size_t i : {size_t{0}, size_t{3}})
    infer.check(infer[i].dim() == infer[1].dim() && infer[i].size(-2) == infer[1].size(-2) &&
                    infer[i].size(-1) == infer[2].size(-2),
                "expected a matrix of distances, got shape ", infer[i].sizes());
  infer.output(infer[1].sizes(), infer[1].dtype());
}

Tensors backward_reference(Args in, const CdistAttrs& attrs) {
  const Tensor difference = all_differences(*in[1], *in[2]);
  const Tensor g = unsqueeze(*in[0], -1), distance = unsqueeze(*in[3], -1);
  const Tensor zero = zeros_like(difference);
  Tensor each;
  if (attrs.p == 0) {
    each = zero;
  } else if (std::isinf(attrs.p)) {
    each = where(eq(abs(difference), distance), sign(difference) * g, zero);
  } else if (attrs.p == 1) {
    each = sign(difference) * g;
  } else {
    const Tensor valid = logical_and(ne(distance, 0), ne(difference, 0));
    const Tensor size = where(valid, abs(difference), ones_like(difference));
    const Tensor scale = where(ne(distance, 0), distance, ones_like(distance));
    each = where(valid, sign(difference) * pow(size / scale, attrs.p - 1) * g, zero);
  }
  return Tensors{sum(each, {-2})};
}

// ---- by a product ------------------------------------------------------------------------------

// |x|² - 2 x·y + |y|² as one product of points with two more elements each.
Tensors euclidean_reference(Args in, const NoAttrs&) {
  const Tensor &x1 = *in[0], &x2 = *in[1];
  const auto squares = [](const Tensor& x) { return sum(x * x, {-1}, true); };
  const auto ones_beside = [](const Tensor& x) {
    Shape sizes = x.sizes();
    sizes[sizes.size() - 1] = 1;
    return ones(sizes, {.dtype = x.dtype(), .device = x.device()});
  };
  const Tensor left = cat({x1 * -2, squares(x1), ones_beside(x1)}, -1);
  const Tensor right = cat({x2, ones_beside(x2), squares(x2)}, -1);
  return Tensors{sqrt(clamp_min(matmul(left, mT(right)), 0))};
}

void euclidean_vjp(Vjp& vjp, const NoAttrs&) {
  const Tensor x1 = vjp.input(0), x2 = vjp.input(1), distances = vjp.output(0);
  const Tensor apart = ne(distances, 0);
  const Tensor ratio = where(apart, vjp.grad() / where(apart, distances, ones_like(distances)),
                             zeros_like(distances));
  if (vjp.needs(0)) vjp.set(0, x1 * sum(ratio, {-1}, true) - matmul(ratio, x2));
  if (vjp.needs(1)) vjp.set(1, x2 * unsqueeze(sum(ratio, {-2}), -1) - matmul(mT(ratio), x1));
}

}  // namespace

constinit OpDef<CdistAttrs> cdist_op =
    define(Op<CdistAttrs>{.name = "cdist",
                          .inputs = {"x1", "x2"},
                          .infer = infer_cdist,
                          .reference = cdist_reference,
                          .vjp = cdist_vjp,
                          .saves = {in(0) | in(1) | out(0), in(0) | in(1) | out(0)},
                          .autocast = Autocast::full});
constinit OpDef<CdistAttrs> cdist_backward_op =
    define(Op<CdistAttrs>{.name = "cdist_backward",
                          .inputs = {"grad", "x1", "x2", "distances"},
                          .infer = infer_backward,
                          .reference = backward_reference,
                          .gradient = Gradient::by_reference});
constinit OpDef<NoAttrs> euclidean_distance_op =
    define(Op<NoAttrs>{.name = "euclidean_distance",
                       .inputs = {"x1", "x2"},
                       .infer = [](Infer& infer, const NoAttrs&) { infer_distances(infer); },
                       .reference = euclidean_reference,
                       .vjp = euclidean_vjp,
                       .saves = {in(0) | in(1) | out(0), in(0) | in(1) | out(0)},
                       .autocast = Autocast::full});

void register_cdist(OpRegistry& registry) {
  registry.add(cdist_op);
  registry.add(cdist_backward_op);
  registry.add(euclidean_distance_op);
  shard_by(cdist_op, "*i.,*j.->*ij");
}

Tensor cdist(const Tensor& x1, const Tensor& x2, double p, std::string_view compute_mode) {
  check(x1.defined() && x2.defined(), "cdist: ", x1.defined() ? "x2" : "x1", " is undefined");
  check(x1.dim() >= 2 && x2.dim() >= 2,
        "cdist: x1 and x2 must have at least 2 dimensions, got shapes ", x1.sizes(), " and ",
        x2.sizes());
  check(x1.size(-1) == x2.size(-1),
        "cdist: x1 and x2 must have the same number of columns. x1: ", x1.size(-1),
        " x2: ", x2.size(-1));
  const bool by_product = compute_mode == "use_mm_for_euclid_dist";
  check_as<ValueError>(by_product || compute_mode == "use_mm_for_euclid_dist_if_necessary" ||
                           compute_mode == "donot_use_mm_for_euclid_dist",
                       "cdist: '", compute_mode, "' is not a valid value for compute_mode");
  const Shape batch = broadcast_shapes(batch_of(x1), batch_of(x2), "cdist");
  const auto spread = [&](const Tensor& x) {
    Shape sizes = batch;
    sizes.push_back(x.size(-2));
    sizes.push_back(x.size(-1));
    return sizes == x.sizes() ? x : expand(x, sizes);
  };
  const bool many = x1.size(-2) > 25 || x2.size(-2) > 25;
  if (p == 2 && (by_product || (many && compute_mode != "donot_use_mm_for_euclid_dist")))
    return called_as("cdist", [&]() {
      return apply(euclidean_distance_op, {spread(x1), spread(x2)});
    });
  return apply(cdist_op, {spread(x1), spread(x2)}, {p});
}

Tensor pdist(const Tensor& input, double p) {
  check(input.dim() == 2, "pdist: expected a matrix, got shape ", input.sizes());
  check(input.is_floating_point(), "pdist: expected a floating-point dtype, got ", input.dtype());
  check(p >= 0, "pdist: p must not be negative, got ", p);
  const int64_t rows = input.size(0);
  return called_as("pdist", [&]() {
    const Tensor pairs = triu_indices(rows, rows, 1, {.device = input.device()});
    const Tensor all = cdist(input, input, p, "donot_use_mm_for_euclid_dist");
    return index_select(reshape(all, {-1}), 0, select(pairs, 0, 0) * rows + select(pairs, 0, 1));
  });
}

}  // namespace tensora
