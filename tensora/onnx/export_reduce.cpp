#include "tensora/onnx/op_call.h"
#include "tensora/ops.h"

namespace tensora::onnx {
namespace {

AttributeProto keepdims(const OpCall& c) {
  return AttributeProto::of("keepdims", int64_t{c.flag("keepdim")});
}

Expr reduced(OpCall& c, std::string_view onnx, const Expr& x) {
  return c.emit(onnx, {x, c.ints(c.dims("dim", c.rank(0)))}, {keepdims(c)});
}
// A tensor without dims is its own sum.
Exprs arithmetic(OpCall& c, std::string_view onnx) {
  const Expr x = c.in(0, c.result_dtype());
  return {c.rank(0) == 0 ? x : reduced(c, onnx, x)};
}
Exprs sum(OpCall& c) { return arithmetic(c, "ReduceSum"); }
Exprs mean(OpCall& c) { return arithmetic(c, "ReduceMean"); }
Exprs prod(OpCall& c) { return arithmetic(c, "ReduceProd"); }
// ONNX's extrema of bools came in version 20, and runtimes lack them.
Exprs extremum(OpCall& c, std::string_view onnx) {
  if (c.rank(0) == 0) return {c.in(0)};
  const bool is_bool = c.dtype(0) == DType::boolean;
  const Expr result = reduced(c, onnx, is_bool ? c.in(0, DType::int32) : c.in(0));
  return {is_bool ? c.cast(result, DType::int32, DType::boolean) : result};
}
Exprs amax(OpCall& c) { return extremum(c, "ReduceMax"); }
Exprs amin(OpCall& c) { return extremum(c, "ReduceMin"); }
Exprs logsumexp(OpCall& c) { return arithmetic(c, "ReduceLogSumExp"); }

Expr position(OpCall& c, std::string_view onnx) {
  const bool flat = !c.given("dim");
  const int rank = flat ? 1 : c.rank(0);
  if (!flat && rank == 0) return c.tensor(full({}, 0, {.dtype = kInt64}));
  const Expr x = flat ? c.reshape(c.in(0), {-1}) : c.in(0);
  const int64_t axis = flat ? 0 : c.dim("dim", rank);
  if (flat && c.flag("keepdim") && c.rank(0) > 0) {
    const Expr kept = c.emit(onnx, {x}, {AttributeProto::of("axis", axis)});
    return c.reshape(kept, c.result_sizes());
  }
  return c.emit(onnx, {x},
                {AttributeProto::of("axis", axis),
                 AttributeProto::of("keepdims", int64_t{!flat && c.flag("keepdim")})});
}
Exprs argmax(OpCall& c) { return {position(c, "ArgMax")}; }
Exprs argmin(OpCall& c) { return {position(c, "ArgMin")}; }

Exprs value_and_position(OpCall& c, std::string_view value, std::string_view place) {
  if (c.rank(0) == 0) return {c.in(0), position(c, place)};
  const Expr best = c.emit(value, {c.in(0), c.ints({c.dim("dim", c.rank(0))})}, {keepdims(c)});
  return {best, position(c, place)};
}
Exprs max_dim(OpCall& c) { return value_and_position(c, "ReduceMax", "ArgMax"); }
Exprs min_dim(OpCall& c) { return value_and_position(c, "ReduceMin", "ArgMin"); }

Exprs best(OpCall& c, const Expr& x, const Expr& count, int64_t axis, bool largest) {
  return c.emit_list(
      "TopK", {x, count},
      {AttributeProto::of("axis", axis), AttributeProto::of("largest", int64_t{largest}),
       AttributeProto::of("sorted", int64_t{1})},
      2);
}
Exprs topk(OpCall& c) {
  if (c.rank(0) == 0) c.refuse("ONNX's TopK needs a tensor with at least one dim");
  return best(c, c.in(0), c.ints({c.integer("k")}, "k"), c.dim("dim", c.rank(0)),
              c.flag("largest"));
}
Exprs sort(OpCall& c) {
  if (c.rank(0) == 0) c.refuse("ONNX's TopK needs a tensor with at least one dim");
  const int64_t axis = c.dim("dim", c.rank(0));
  return best(c, c.in(0), c.ints({c.sizes(0)[static_cast<int>(axis)]}, "the number of elements"),
              axis, c.flag("descending"));
}

Exprs cumsum(OpCall& c) {
  const Expr x = c.in(0, c.result_dtype());
  if (c.rank(0) == 0) return {x};
  return {c.emit("CumSum", {x, c.index(c.dim("dim", c.rank(0)))},
                 {AttributeProto::of("reverse", int64_t{c.flag("reverse")})})};
}

constexpr OpExport kRows[] = {
    {"amax", "ReduceMax", amax},
    {"amin", "ReduceMin", amin},
    {"argmax", "ArgMax", argmax},
    {"argmin", "ArgMin", argmin},
    {"cumsum", "CumSum", cumsum},
    {"logsumexp", "ReduceLogSumExp", logsumexp},
    {"max_dim", "ReduceMax, ArgMax", max_dim},
    {"mean", "ReduceMean", mean},
    {"min_dim", "ReduceMin, ArgMin", min_dim},
    {"prod", "ReduceProd", prod},
    {"sort", "TopK", sort},
    {"sum", "ReduceSum", sum},
    {"topk", "TopK", topk},
};

}  // namespace

std::span<const OpExport> reduce_exports() { return kRows; }

}  // namespace tensora::onnx
