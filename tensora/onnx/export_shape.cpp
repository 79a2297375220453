#include <algorithm>
#include <limits>

#include "tensora/onnx/op_call.h"
#include "tensora/ops.h"

namespace tensora::onnx {
namespace {

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
constexpr int64_t kBeforeStart = std::numeric_limits<int64_t>::min();

// ---- copies and constants ----------------------------------------------------------------------

Exprs same(OpCall& c) { return {c.in(0)}; }
Exprs cast(OpCall& c) { return {c.in(0, c.result_dtype())}; }
Expr expanded(OpCall& c, const Expr& x, const Shape& from, const Shape& to) {
  if (from == to) return x;
  return c.emit("Expand", {x, c.ints(to.vec(), "the shape")});
}
Exprs copy(OpCall& c) {
  return {expanded(c, c.in(1, c.result_dtype()), c.sizes(1), c.result_sizes())};
}
Expr filled(OpCall& c, const Tensor& value) {
  if (c.result_sizes().empty()) return c.tensor(value);
  return c.emit("ConstantOfShape", {c.ints(c.result_sizes().vec(), "the shape")},
                {AttributeProto::of("value", reshape(value, {1}))});
}
Exprs fill(OpCall& c) {
  const AttrValue& value = c.attr("value");
  const Scalar number =
      value.kind == AttrValue::Kind::floating ? Scalar(value.floating) : Scalar(value.integer);
  return {filled(c, full({}, number, {.dtype = c.result_dtype()}))};
}
// Its contents are not defined; zeros are as good.
Exprs empty_strided(OpCall& c) { return {filled(c, zeros({}, {.dtype = c.result_dtype()}))}; }

// Positions are computed in int64, where they are exact.
Exprs arange(OpCall& c) {
  if (c.result_sizes().size() != 1) c.refuse("it fills a tensor of several dims");
  Expr result = c.emit("Range", {c.tensor(full({}, 0, {.dtype = kInt64})),
                                 c.index(c.result_sizes()[0], "the length"),
                                 c.tensor(full({}, 1, {.dtype = kInt64}))});
  const DType dtype = c.result_dtype();
  result = c.cast(result, kInt64, dtype);
  if (c.number("step") != 1) result = result * c.constant(c.number("step"), dtype);
  if (c.number("start") != 0) result = result + c.constant(c.number("start"), dtype);
  return {result};
}

// ---- views -------------------------------------------------------------------------------------

Exprs view(OpCall& c) { return {c.reshape(c.in(0), c.result_sizes())}; }

Exprs permute(OpCall& c) {
  const int rank = c.rank(0);
  std::vector<int64_t> perm;
  for (int64_t d : c.list("dims")) perm.push_back(wrap_dim(d, rank, c.op()));
  return {c.emit("Transpose", {c.in(0)}, {AttributeProto::of("perm", perm)})};
}

Expr sliced(OpCall& c, const Expr& x, int64_t dim, int64_t start, int64_t end, int64_t step = 1) {
  return c.emit("Slice", {x, c.ints({start}, "the start"), c.ints({end}, "the end"), c.ints({dim}),
                          c.ints({step})});
}
Exprs slice(OpCall& c) {
  const int64_t dim = c.dim("dim", c.rank(0)), size = c.sizes(0)[static_cast<int>(dim)];
  const int64_t end = c.integer("end");
  return {sliced(c, c.in(0), dim, c.integer("start"), end >= size ? kEnd : end, c.integer("step"))};
}
Exprs select(OpCall& c) {
  return {c.emit("Gather", {c.in(0), c.index(c.integer("index"))},
                 {AttributeProto::of("axis", c.dim("dim", c.rank(0)))})};
}
// Where a part of one dim begins, by its place in memory.
int64_t start_of_part(const OpCall& c, int64_t dim) {
  const int64_t stride = c.strides(0)[static_cast<int>(dim)];
  if (stride == 0) return 0;  // all entries are equal
  return c.part().offset_bytes / static_cast<int64_t>(element_size(c.dtype(0))) / stride;
}
Exprs split(OpCall& c) {
  const int64_t dim = c.dim("dim", c.rank(0)), start = start_of_part(c, dim);
  return {sliced(c, c.in(0), dim, start, start + c.result_sizes()[static_cast<int>(dim)])};
}
Exprs unbind(OpCall& c) {
  const int64_t dim = c.dim("dim", c.rank(0));
  return {c.emit("Gather", {c.in(0), c.index(start_of_part(c, dim))},
                 {AttributeProto::of("axis", dim)})};
}
Exprs expand(OpCall& c) { return {expanded(c, c.in(0), c.sizes(0), c.result_sizes())}; }

// ---- other arrangements ------------------------------------------------------------------------

// A 1-D tensor without elements may be joined with any other; it adds nothing.
Exprs cat(OpCall& c) {
  Exprs parts;
  for (size_t i = 0; i < c.inputs(); ++i)
    if (c.rank(i) == c.result_sizes().size()) parts.push_back(c.in(i, c.result_dtype()));
  if (parts.size() == 1) return {parts[0]};
  return {
      c.emit("Concat", parts, {AttributeProto::of("axis", c.dim("dim", c.result_sizes().size()))})};
}
Exprs stack(OpCall& c) {
  const int64_t dim = c.dim("dim", c.result_sizes().size());
  Exprs parts;
  for (size_t i = 0; i < c.inputs(); ++i)
    parts.push_back(c.emit("Unsqueeze", {c.in(i, c.result_dtype()), c.ints({dim})}));
  return {c.emit("Concat", parts, {AttributeProto::of("axis", dim)})};
}
Exprs flip(OpCall& c) {
  const std::vector<int64_t>& given = c.list("dims");
  if (given.empty()) return {c.in(0)};
  std::vector<int64_t> dims;
  for (int64_t d : given) dims.push_back(wrap_dim(d, c.rank(0), c.op()));
  const auto all = [&](int64_t value) { return c.ints(std::vector<int64_t>(dims.size(), value)); };
  return {c.emit("Slice", {c.in(0), all(-1), all(kBeforeStart), c.ints(dims), all(-1)})};
}
Exprs triangle(OpCall& c, bool upper) {
  return {c.emit("Trilu", {c.in(0), c.index(c.integer("diagonal"), "the diagonal")},
                 {AttributeProto::of("upper", int64_t{upper})})};
}
Exprs tril(OpCall& c) { return triangle(c, false); }
Exprs triu(OpCall& c) { return triangle(c, true); }

Exprs constant_pad(OpCall& c) {
  std::vector<int64_t> pads = c.list("before");
  for (int64_t count : c.list("after")) pads.push_back(count);
  const Expr value = c.constant(c.number("value"), c.dtype(0));
  return {c.emit("Pad", {c.in(0), c.ints(pads, "the padding"), value})};
}

constexpr OpExport kRows[] = {
    {"arange", "Range", arange},
    {"cast", "Cast", cast},
    {"cat", "Concat", cat},
    {"clone", "none", same},
    {"constant_pad", "Pad", constant_pad},
    {"contiguous", "none", same},
    {"copy", "Expand, Cast", copy},
    {"detach", "none", same},
    {"empty_strided", "ConstantOfShape", empty_strided},
    {"expand", "Expand", expand},
    {"fill", "ConstantOfShape", fill},
    {"flip", "Slice", flip},
    {"permute", "Transpose", permute},
    {"select", "Gather", select},
    {"slice", "Slice", slice},
    {"split", "Slice", split},
    {"stack", "Unsqueeze, Concat", stack},
    {"to_device", "none", same},
    {"tril", "Trilu", tril},
    {"triu", "Trilu", triu},
    {"unbind", "Gather", unbind},
    {"view", "Reshape", view},
};

}  // namespace

std::span<const OpExport> shape_exports() { return kRows; }

}  // namespace tensora::onnx
