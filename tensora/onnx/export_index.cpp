#include <algorithm>

#include "tensora/onnx/op_call.h"
#include "tensora/ops.h"

namespace tensora::onnx {
namespace {

AttributeProto axis(int64_t dim) { return AttributeProto::of("axis", dim); }

/// Tensors that index some dims of another one: those dims come first, as GatherND and ScatterND
/// want them, and the index tensors become one.
class Indexing {
 public:
  Indexing(OpCall& call, size_t first_index) : c_(call), first_(first_index) {
    for (int64_t d : c_.list("dims")) dims_.push_back(wrap_dim(d, c_.rank(0), c_.op()));
    for (size_t i = 0; i < dims_.size(); ++i)
      common_ = broadcast_shapes(common_, c_.sizes(first_ + i), c_.op());
    perm_ = dims_;
    for (int64_t d = 0; d < c_.rank(0); ++d)
      if (std::find(dims_.begin(), dims_.end(), d) == dims_.end()) perm_.push_back(d);
    const bool adjacent = std::adjacent_find(dims_.begin(), dims_.end(), [](int64_t a, int64_t b) {
                            return b != a + 1;
                          }) == dims_.end();
    // Where the dims of the index tensors lie in the result.
    start_ = adjacent ? dims_[0] : 0;
  }

  const std::vector<int64_t>& dims() const { return dims_; }
  Expr indices() {
    Exprs parts;
    for (size_t i = 0; i < dims_.size(); ++i) {
      Expr part = c_.in(first_ + i, DType::int64);
      if (c_.sizes(first_ + i) != common_)
        part = c_.emit("Expand", {part, c_.ints(common_.vec(), "the shape of the indices")});
      parts.push_back(c_.emit("Unsqueeze", {part, c_.ints({-1})}));
    }
    return parts.size() == 1 ? parts[0] : c_.emit("Concat", parts, {axis(-1)});
  }
  /// The indexed tensor with its indexed dims in front, and back.
  Expr dims_first(const Expr& x) { return transposed(x, perm_); }
  Expr dims_back(const Expr& x) {
    std::vector<int64_t> inverse(perm_.size());
    for (size_t i = 0; i < perm_.size(); ++i)
      inverse[static_cast<size_t>(perm_[i])] = static_cast<int64_t>(i);
    return transposed(x, inverse);
  }
  /// Values with the dims of the index tensors in front, and those of a result where they belong.
  Expr common_first(const Expr& x) { return transposed(x, order(false)); }
  Expr common_back(const Expr& x) { return transposed(x, order(true)); }

 private:
  std::vector<int64_t> order(bool back) const {
    const int64_t count = common_.size(), rest = c_.rank(0) - static_cast<int64_t>(dims_.size());
    std::vector<int64_t> result;
    const auto add = [&](int64_t from, int64_t n) {
      for (int64_t i = 0; i < n; ++i) result.push_back(from + i);
    };
    if (back) {  // [common, kept] -> [kept before, common, kept behind]
      add(count, start_);
      add(0, count);
      add(count + start_, rest - start_);
    } else {
      add(start_, count);
      add(0, start_);
      add(start_ + count, rest - start_);
    }
    return result;
  }
  Expr transposed(const Expr& x, const std::vector<int64_t>& perm) {
    if (std::is_sorted(perm.begin(), perm.end())) return x;
    return c_.emit("Transpose", {x}, {AttributeProto::of("perm", perm)});
  }

  OpCall& c_;
  size_t first_;
  std::vector<int64_t> dims_, perm_;
  Shape common_;
  int64_t start_ = 0;
};

Exprs index(OpCall& c) {
  Indexing at(c, 1);
  if (at.dims().size() == 1) return {c.emit("Gather", {c.in(0), c.in(1)}, {axis(at.dims()[0])})};
  return {at.common_back(c.emit("GatherND", {at.dims_first(c.in(0)), at.indices()}))};
}
Exprs index_put(OpCall& c) {
  Indexing at(c, 2);
  Attributes attributes;
  if (c.flag("accumulate"))
    attributes.push_back(AttributeProto::of("reduction", std::string("add")));
  return {at.dims_back(c.emit(
      "ScatterND", {at.dims_first(c.in(0)), at.indices(), at.common_first(c.in(1))}, attributes))};
}

Exprs embedding(OpCall& c) { return {c.emit("Gather", {c.in(0), c.in(1)}, {axis(0)})}; }

Exprs gather(OpCall& c) {
  if (c.rank(0) == 0) return {c.in(0)};
  return {c.emit("GatherElements", {c.in(0), c.in(1)}, {axis(c.dim("dim", c.rank(0)))})};
}
// The index may be smaller than the source, of which it then takes the beginning.
Expr written_part(OpCall& c) {
  if (c.sizes(1) == c.sizes(2)) return c.in(2);
  std::vector<int64_t> dims, starts;
  for (int64_t d = 0; d < c.rank(2); ++d) {
    dims.push_back(d);
    starts.push_back(0);
  }
  return c.emit("Slice",
                {c.in(2), c.ints(starts), c.ints(c.sizes(1).vec(), "the end"), c.ints(dims)});
}
Exprs scattered(OpCall& c, const char* reduction) {
  if (c.rank(0) == 0) c.refuse("ONNX's ScatterElements needs a tensor with at least one dim");
  Attributes attributes{axis(c.dim("dim", c.rank(0)))};
  if (reduction) attributes.push_back(AttributeProto::of("reduction", std::string(reduction)));
  return {c.emit("ScatterElements", {c.in(0), c.in(1), written_part(c)}, attributes)};
}
Exprs scatter(OpCall& c) { return scattered(c, nullptr); }
Exprs scatter_add(OpCall& c) { return scattered(c, "add"); }

Exprs one_hot(OpCall& c) {
  const Tensor values = tensora::tensor(std::vector<int64_t>{0, 1}, {.dtype = kInt64});
  return {c.emit("OneHot", {c.in(0), c.ints({c.integer("num_classes")}), c.tensor(values)},
                 {axis(-1)})};
}

constexpr OpExport kRows[] = {
    {"embedding", "Gather", embedding},
    {"gather", "GatherElements", gather},
    {"index", "Gather, GatherND", index},
    {"index_add", "ScatterND", index_put},
    {"index_copy", "ScatterND", index_put},
    {"index_fill", "ScatterND", index_put},
    {"index_put", "ScatterND", index_put},
    {"index_select", "Gather", index},
    {"one_hot", "OneHot", one_hot},
    {"scatter", "ScatterElements", scatter},
    {"scatter_add", "ScatterElements", scatter_add},
    {"take", "Gather", index},
};

}  // namespace

std::span<const OpExport> index_exports() { return kRows; }

}  // namespace tensora::onnx
