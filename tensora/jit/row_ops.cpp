#include "tensora/jit/row_ops.h"

#include <algorithm>
#include <array>

#include "tensora/ops/norm/row_norm.h"
#include "tensora/ops/norm/softmax.h"
#include "tensora/ops/pointwise/describe.h"
#include "tensora/ops/reduce/amax.h"
#include "tensora/ops/reduce/any_all.h"
#include "tensora/ops/reduce/logsumexp.h"
#include "tensora/ops/reduce/prod.h"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/reduce/sum.h"

namespace tensora::jit {
namespace {

using Step = TileProgram::Step;

/// Adds steps in one dtype, in which rows are computed.
class Writer {
 public:
  Writer(TileProgram& to, DType wide) : to_(to), wide_(wide) {}

  template <class F, class... Values>
  int apply(const F& functor, Values... operands) {
    Extent extent = Extent::row;
    for (int operand : {operands...})
      if (to_.extent_of(operand) == Extent::element) extent = Extent::element;
    const OpBase& op = pointwise_op<F>();
    return to_.add(Step{.kind = Step::Kind::pointwise,
                        .op = &op,
                        .attrs = AttrsCopy(op, &functor),
                        .operands = {operands...},
                        .dtype = wide_,
                        .compute_dtype = wide_,
                        .extent = extent});
  }
  int cast(int value, DType dtype) {
    if (to_.dtype_of(value) == dtype) return value;
    return to_.add(Step{.kind = Step::Kind::cast,
                        .operands = {value},
                        .dtype = dtype,
                        .extent = to_.extent_of(value)});
  }
  int wide(int value) { return cast(value, wide_); }
  int reduce(const OpDef<ReduceAttrs>& op, int value) {
    const ReduceAttrs attrs{{-1}, true, {}};
    return to_.add(Step{.kind = Step::Kind::reduce,
                        .op = &op,
                        .attrs = AttrsCopy(op, &attrs),
                        .operands = {value},
                        .dtype = wide_,
                        .extent = Extent::row});
  }
  int number(double value) {
    return to_.add(Step{.kind = Step::Kind::number,
                        .dtype = wide_,
                        .extent = Extent::row,
                        .number = Scalar(value)});
  }

 private:
  TileProgram& to_;
  DType wide_;
};

DType wide_of(DType dtype) { return dtype == kFloat64 ? kFloat64 : kFloat32; }

std::vector<int> expand_softmax(TileProgram& to, const Step& step) {
  Writer w(to, wide_of(promote_types(step.dtype, to.dtype_of(step.operands[0]))));
  const int x = w.wide(step.operands[0]);
  const int e = w.apply(functors::Exp{}, w.apply(functors::Sub{}, x, w.reduce(amax_op, x)));
  const int scale = w.apply(functors::Reciprocal{}, w.reduce(sum_op, e));
  return {w.cast(w.apply(functors::Mul{}, e, scale), step.dtype)};
}

std::vector<int> expand_log_softmax(TileProgram& to, const Step& step) {
  Writer w(to, wide_of(promote_types(step.dtype, to.dtype_of(step.operands[0]))));
  const int x = w.wide(step.operands[0]);
  const int lowered = w.apply(functors::Sub{}, x, w.reduce(amax_op, x));
  const int total = w.reduce(sum_op, w.apply(functors::Exp{}, lowered));
  return {w.cast(w.apply(functors::Sub{}, lowered, w.apply(functors::Log{}, total)), step.dtype)};
}

template <bool kLog>
std::vector<int> expand_softmax_backward(TileProgram& to, const Step& step) {
  Writer w(to, wide_of(to.dtype_of(step.operands[1])));
  const int grad = w.wide(step.operands[0]), y = w.wide(step.operands[1]);
  if (kLog) {
    const int share = w.apply(functors::Mul{}, w.apply(functors::Exp{}, y), w.reduce(sum_op, grad));
    return {w.cast(w.apply(functors::Sub{}, grad, share), step.dtype)};
  }
  const int total = w.reduce(sum_op, w.apply(functors::Mul{}, grad, y));
  const int rest = w.apply(functors::Sub{}, grad, total);
  return {w.cast(w.apply(functors::Mul{}, rest, y), step.dtype)};
}

std::vector<int> expand_logsumexp(TileProgram& to, const Step& step) {
  Writer w(to, wide_of(to.dtype_of(step.operands[0])));
  const int x = w.wide(step.operands[0]), highest = w.reduce(amax_op, x);
  // An infinite maximum minus itself would be NaN.
  const int finite = w.apply(functors::Isfinite{}, highest);
  const int shift = w.apply(functors::Where{}, finite, highest, w.number(0));
  const int total = w.reduce(sum_op, w.apply(functors::Exp{}, w.apply(functors::Sub{}, x, shift)));
  return {w.cast(w.apply(functors::Add{}, w.apply(functors::Log{}, total), shift), step.dtype)};
}

// The last operands of both: weight, bias.
int scaled(Writer& w, int values, const Step& step, size_t weight) {
  if (weight < step.operands.size() && step.operands[weight] >= 0)
    values = w.apply(functors::Mul{}, values, w.wide(step.operands[weight]));
  if (weight + 1 < step.operands.size() && step.operands[weight + 1] >= 0)
    values = w.apply(functors::Add{}, values, w.wide(step.operands[weight + 1]));
  return w.cast(values, step.dtype);
}

std::vector<int> expand_layer_norm(TileProgram& to, const Step& step) {
  const auto& attrs = *static_cast<const LayerNormAttrs*>(step.attrs.get());
  Writer w(to, wide_of(to.dtype_of(step.operands[0])));
  const int x = w.wide(step.operands[0]), mean = w.reduce(mean_op, x);
  const int centred = w.apply(functors::Sub{}, x, mean);
  const int variance = w.reduce(mean_op, w.apply(functors::Square{}, centred));
  const int rstd =
      w.apply(functors::Rsqrt{}, w.apply(functors::Add{}, variance, w.number(attrs.eps)));
  const int values = w.apply(functors::Mul{}, centred, rstd);
  return {scaled(w, values, step, 1), mean, rstd};
}

std::vector<int> expand_rms_norm(TileProgram& to, const Step& step) {
  const auto& attrs = *static_cast<const RmsNormAttrs*>(step.attrs.get());
  const DType dtype = to.dtype_of(step.operands[0]);
  Writer w(to, wide_of(dtype));
  const int x = w.wide(step.operands[0]);
  const int square = w.reduce(mean_op, w.apply(functors::Square{}, x));
  const int eps = w.number(rms_eps(attrs.eps, dtype));
  const int rstd = w.apply(functors::Rsqrt{}, w.apply(functors::Add{}, square, eps));
  Step without_bias = step;
  without_bias.operands.resize(std::min<size_t>(step.operands.size(), 2));
  return {scaled(w, w.apply(functors::Mul{}, x, rstd), without_bias, 1), rstd};
}

constexpr auto kReduce = OpForm::Kind::reduce, kRow = OpForm::Kind::row;

const RowOp kRowOps[] = {
    {&sum_op, kReduce, 1, "Sum<C>", nullptr},
    {&mean_op, kReduce, 1, "Mean<C>", nullptr},
    {&nansum_op, kReduce, 1, "NanSum<C>", nullptr},
    {&prod_op, kReduce, 1, "Product<C>", nullptr},
    {&amax_op, kReduce, 1, "Extremum<C, true>", nullptr},
    {&amin_op, kReduce, 1, "Extremum<C, false>", nullptr},
    {&any_op, kReduce, 1, "Truth<C, false>", nullptr},
    {&all_op, kReduce, 1, "Truth<C, true>", nullptr},
    {&count_nonzero_op, kReduce, 1, "CountNonzero<C>", nullptr},
    {&logsumexp_op, kReduce, 1, nullptr, expand_logsumexp},
    {&softmax_op, kRow, 1, nullptr, expand_softmax},
    {&log_softmax_op, kRow, 1, nullptr, expand_log_softmax},
    {&softmax_backward_op, kRow, 1, nullptr, expand_softmax_backward<false>},
    {&log_softmax_backward_op, kRow, 1, nullptr, expand_softmax_backward<true>},
    {&layer_norm_op, kRow, 3, nullptr, expand_layer_norm},
    {&rms_norm_op, kRow, 2, nullptr, expand_rms_norm},
};

constexpr std::array<std::string_view, 3> kOfThePlace = {"dim", "keepdim", "normalized_shape"};

}  // namespace

const RowOp* find_row_op(const OpBase& op) {
  for (const RowOp& row_op : kRowOps)
    if (row_op.op == &op) return &row_op;
  return nullptr;
}

AttrsCopy row_attrs(const OpBase& op, const void* attrs, int64_t length) {
  std::vector<std::pair<std::string, AttrValue>> values;
  for (const auto& [name, value] : op.list_attrs(attrs)) {
    AttrValue& now = values.emplace_back(name, value).second;
    if (name == "dim" && value.kind == AttrValue::Kind::integer) now = to_attr_value(int64_t{-1});
    if (name == "dim" && value.kind == AttrValue::Kind::ints)
      now = to_attr_value(std::vector<int64_t>{-1});
    if (name == "keepdim") now = to_attr_value(true);
    if (name == "normalized_shape") now = to_attr_value(std::vector<int64_t>{length});
  }
  AttrsCopy result;
  op.with_attrs(op, values, [&](const void* changed) { result = AttrsCopy(op, changed); });
  return result;
}

std::vector<std::pair<std::string_view, AttrValue>> free_attrs(const OpBase& op,
                                                               const void* attrs) {
  auto values = op.list_attrs(attrs);
  if (!find_row_op(op)) return values;
  std::erase_if(values, [](const auto& value) {
    return std::find(kOfThePlace.begin(), kOfThePlace.end(), value.first) != kOfThePlace.end();
  });
  return values;
}

TileProgram expanded(const TileProgram& program, std::vector<int>* origins) {
  TileProgram to{.kind = program.kind, .inputs = program.inputs};
  std::vector<std::vector<int>> outputs;  // of every value
  for (int i = 0; i < program.input_count(); ++i) outputs.push_back({i});
  std::vector<int> from;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    Step step = program.steps[i];
    const auto whole = step.operands.empty() ? size_t{0} : static_cast<size_t>(step.operands[0]);
    for (int& operand : step.operands)
      if (operand >= 0) operand = outputs[static_cast<size_t>(operand)][0];
    const RowOp* const row_op = step.op ? find_row_op(*step.op) : nullptr;
    if (step.kind == Step::Kind::part && outputs[whole].size() > 1)
      outputs.push_back({outputs[whole][static_cast<size_t>(step.part)]});
    else if (row_op && row_op->expand)
      outputs.push_back(row_op->expand(to, step));
    else
      outputs.push_back({to.add(std::move(step))});
    const bool kept = !(row_op && row_op->expand);
    from.resize(to.steps.size(), kept ? static_cast<int>(i) : -1);
  }
  if (origins) *origins = std::move(from);
  for (int result : program.results) to.results.push_back(outputs[static_cast<size_t>(result)][0]);
  return to;
}

}  // namespace tensora::jit
