#include "tensora/onnx/node_call.h"
#include "tensora/ops.h"

namespace tensora::onnx {
namespace {

// What is reduced: all dims if no axes are given, or nothing if noop_with_empty_axes says so.
struct Reduction {
  Tensor x;
  Dims dims;
  bool keepdims = true, nothing = false;

  explicit Reduction(const NodeCall& c) : x(c[0]) {
    const std::vector<int64_t> axes = c.axes("axes", 1);
    for (int64_t axis : axes) dims.push_back(wrap_dim(axis, x.dim(), c.op()));
    keepdims = c.integer("keepdims", 1) != 0;
    nothing = axes.empty() && c.integer("noop_with_empty_axes", 0) != 0;
    if (x.dim() == 0) nothing = true;
  }
};

template <class Reduce>
Results reduced(const NodeCall& c, const Reduce& reduce) {
  const Reduction r(c);
  return {r.nothing ? r.x : reduce(r.x, r.dims, r.keepdims)};
}
// Integers keep their dtype.
Tensor summed(const Tensor& x, const Dims& dims, bool keepdims) {
  return sum(x, dims, keepdims, x.dtype());
}
Results reduce_sum(const NodeCall& c) { return reduced(c, summed); }
Results reduce_mean(const NodeCall& c) {
  return reduced(c, [](const Tensor& x, const Dims& dims, bool keepdims) {
    return is_floating_point(x.dtype()) ? mean(x, dims, keepdims)
                                        : to(mean(x, dims, keepdims, kFloat64), x.dtype());
  });
}
Results reduce_max(const NodeCall& c) {
  return reduced(c, [](const Tensor& x, const Dims& d, bool keep) { return amax(x, d, keep); });
}
Results reduce_min(const NodeCall& c) {
  return reduced(c, [](const Tensor& x, const Dims& d, bool keep) { return amin(x, d, keep); });
}
Results reduce_prod(const NodeCall& c) {
  return reduced(
      c, [](const Tensor& x, const Dims& d, bool keep) { return prod(x, d, keep, x.dtype()); });
}
Results reduce_l1(const NodeCall& c) {
  const Reduction r(c);
  return {r.nothing ? abs(r.x) : summed(abs(r.x), r.dims, r.keepdims)};
}
Results reduce_l2(const NodeCall& c) {
  const Reduction r(c);
  return {r.nothing ? abs(r.x) : to(sqrt(summed(r.x * r.x, r.dims, r.keepdims)), r.x.dtype())};
}
Results reduce_log_sum(const NodeCall& c) {
  const Reduction r(c);
  return {log(r.nothing ? r.x : summed(r.x, r.dims, r.keepdims))};
}
Results reduce_log_sum_exp(const NodeCall& c) {
  return reduced(c, [](const Tensor& x, const Dims& dims, bool keepdims) {
    Dims all = dims;
    if (all.empty())
      for (int d = 0; d < x.dim(); ++d) all.push_back(d);
    return logsumexp(x, all, keepdims);
  });
}
Results reduce_sum_square(const NodeCall& c) {
  const Reduction r(c);
  return {r.nothing ? r.x * r.x : summed(r.x * r.x, r.dims, r.keepdims)};
}

// Of equal elements the first is taken; flipped, it is the last.
Results position(const NodeCall& c, Tensor (*find)(const Tensor&, std::optional<int64_t>, bool)) {
  const Tensor x = c[0];
  const int axis = wrap_dim(c.integer("axis", 0), x.dim(), c.op());
  const bool keepdims = c.integer("keepdims", 1) != 0;
  if (c.integer("select_last_index", 0) == 0) return {find(x, axis, keepdims)};
  return {x.sizes()[axis] - 1 - find(flip(x, {axis}), axis, keepdims)};
}
Results arg_max(const NodeCall& c) { return position(c, argmax); }
Results arg_min(const NodeCall& c) { return position(c, argmin); }

Results top_k(const NodeCall& c) {
  const auto [values, indices] =
      topk(c[0], c.integer(1), c.integer("axis", -1), c.integer("largest", 1) != 0, true);
  return {values, indices};
}
Results cumulative_sum(const NodeCall& c) {
  const Tensor x = c[0];
  const int axis = wrap_dim(c.integer(1), x.dim(), c.op());
  const bool reverse = c.integer("reverse", 0) != 0;
  const Tensor in_order = reverse ? flip(x, {axis}) : x;
  Tensor sums = to(cumsum(in_order, axis), x.dtype());
  if (c.integer("exclusive", 0) != 0) sums = sums - in_order;
  return {reverse ? flip(sums, {axis}) : sums};
}

constexpr OpImport kRows[] = {
    {"ArgMax", 1, 1, "axis keepdims select_last_index", arg_max},
    {"ArgMin", 1, 1, "axis keepdims select_last_index", arg_min},
    {"CumSum", 2, 2, "exclusive reverse", cumulative_sum},
    {"ReduceL1", 1, 2, "axes keepdims noop_with_empty_axes", reduce_l1},
    {"ReduceL2", 1, 2, "axes keepdims noop_with_empty_axes", reduce_l2},
    {"ReduceLogSum", 1, 2, "axes keepdims noop_with_empty_axes", reduce_log_sum},
    {"ReduceLogSumExp", 1, 2, "axes keepdims noop_with_empty_axes", reduce_log_sum_exp},
    {"ReduceMax", 1, 2, "axes keepdims noop_with_empty_axes", reduce_max},
    {"ReduceMean", 1, 2, "axes keepdims noop_with_empty_axes", reduce_mean},
    {"ReduceMin", 1, 2, "axes keepdims noop_with_empty_axes", reduce_min},
    {"ReduceProd", 1, 2, "axes keepdims noop_with_empty_axes", reduce_prod},
    {"ReduceSum", 1, 2, "axes keepdims noop_with_empty_axes", reduce_sum},
    {"ReduceSumSquare", 1, 2, "axes keepdims noop_with_empty_axes", reduce_sum_square},
    {"TopK", 2, 2, "axis largest sorted", top_k},
};

}  // namespace

std::span<const OpImport> reduce_imports() { return kRows; }

}  // namespace tensora::onnx
