#include "tensora/jit/tile_program.h"

#include <algorithm>

#include "tensora/jit/random_ops.h"
#include "tensora/jit/row_ops.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/copy/fill.h"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/reduce/sum.h"

namespace tensora::jit {
namespace {

using Step = TileProgram::Step;

std::string_view name_of(const Step& step) {
  switch (step.kind) {
    case Step::Kind::cast:
      return "cast";
    case Step::Kind::part:
      return "part";
    case Step::Kind::position:
      return "position";
    case Step::Kind::number:
      return "number";
    default:
      return step.op ? step.op->name : "(no op)";
  }
}

size_t operand_count(const Step& step) {
  switch (step.kind) {
    case Step::Kind::cast:
    case Step::Kind::part:
    case Step::Kind::reduce:
    case Step::Kind::columns:
      return 1;
    case Step::Kind::position:
    case Step::Kind::number:
      return 0;
    case Step::Kind::random:
      return step.op && find_random_op(*step.op) && find_random_op(*step.op)->reads ? 1 : 0;
    default:
      return step.operands.size();
  }
}

// The checks of one step; `value` is its number.
void validate_step(const TileProgram& program, const Step& step, int value) {
  const auto require = [&](bool ok, const auto&... parts) {
    if (!ok) fail("jit: step %", value, " (", name_of(step), "): ", parts...);
  };
  const bool rows = program.kind == TileProgram::Kind::rows;
  const bool has_op = step.kind == Step::Kind::pointwise || step.kind == Step::Kind::reduce ||
                      step.kind == Step::Kind::row || step.kind == Step::Kind::columns ||
                      step.kind == Step::Kind::random;
  require(has_op == (step.op != nullptr), has_op ? "has no op" : "has an op");
  require(!has_op || step.attrs.get(), "has no attributes");
  require(step.operands.size() == operand_count(step), "expected ", operand_count(step),
          " operands, got ", step.operands.size());
  require(contains(kRealDTypes, step.dtype), "cannot make ", step.dtype);
  bool any_element = false;
  for (size_t k = 0; k < step.operands.size(); ++k) {
    const int operand = step.operands[k];
    if (operand == -1) {
      require(step.kind == Step::Kind::row && step.op->inputs.is_optional(k), "operand ", k,
              " is missing");
      continue;
    }
    require(operand >= 0 && operand < value, "operand ", k, " is %", operand,
            ", which does not come before it");
    require(program.extent_of(operand) != Extent::column, "operand ", k, " is %", operand,
            ", a sum that is complete only at the end");
    any_element |= program.extent_of(operand) == Extent::element;
  }
  require(rows || step.extent != Extent::row, "has one element per row in a walk");
  switch (step.kind) {
    case Step::Kind::pointwise:
      require(step.op->pointwise, "is not a pointwise op");
      [[fallthrough]];
    case Step::Kind::cast:
      require(step.extent == (any_element || !rows ? Extent::element : Extent::row),
              "its extent is not that of its operands");
      break;
    case Step::Kind::reduce:
      require(rows && any_element, "needs the elements of a row");
      require(step.extent == Extent::row, "has one element per row");
      break;
    case Step::Kind::row:
      require(rows && program.extent_of(step.operands.at(0)) == Extent::element,
              "needs the elements of a row");
      require(step.extent == Extent::element, "has one element per element");
      require(find_row_op(*step.op) != nullptr, "is not an op of rows");
      break;
    case Step::Kind::part: {
      const Step* const whole = program.step_of(step.operands[0]);
      require(whole && whole->kind == Step::Kind::row, "operand 0 is not a row op");
      require(step.part > 0 && step.part < find_row_op(*whole->op)->outputs, "there is no output ",
              step.part);
      break;
    }
    case Step::Kind::position:
      require(rows && step.dtype == DType::int64, "is int64, in programs of rows");
      break;
    case Step::Kind::columns:
      require(step.op == &sum_op && any_element, "sums the elements of columns");
      require(step.extent == Extent::column, "has one element per column");
      break;
    case Step::Kind::random:
      require(find_random_op(*step.op) != nullptr, "is not a random op");
      require(step.extent == Extent::element && any_element == !step.operands.empty(),
              "has one element per element, as its operand");
      break;
    case Step::Kind::number:
      break;
  }
}

// Visits steps after their operands, from the results on.
class Numbering {
 public:
  explicit Numbering(const TileProgram& from)
      : from_(from), number_(static_cast<size_t>(from.value_count()), -1) {}

  CanonicalProgram run() {
    for (int value : from_.results) visit(value);
    CanonicalProgram result;
    TileProgram& to = result.program;
    to.kind = from_.kind;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      number_[static_cast<size_t>(inputs_[i])] = static_cast<int>(i);
      to.inputs.push_back(from_.inputs[static_cast<size_t>(inputs_[i])]);
    }
    for (size_t i = 0; i < steps_.size(); ++i)
      number_[static_cast<size_t>(steps_[i])] = static_cast<int>(inputs_.size() + i);
    for (int value : steps_) {
      Step& step = to.steps.emplace_back(*from_.step_of(value));
      for (int& operand : step.operands)
        if (operand >= 0) operand = number_[static_cast<size_t>(operand)];
      result.steps.push_back(value - from_.input_count());
    }
    for (int value : from_.results) to.results.push_back(number_[static_cast<size_t>(value)]);
    result.inputs = std::move(inputs_);
    return result;
  }

 private:
  // Without recursion: a program of a user may be one long chain.
  void visit(int root) {
    std::vector<std::pair<int, size_t>> stack = {{root, 0}};
    while (!stack.empty()) {
      auto& [value, next] = stack.back();
      const Step* const step = from_.step_of(value);
      if (next == 0 && seen(value)) {
        stack.pop_back();
        continue;
      }
      if (step && next < step->operands.size()) {
        const int operand = step->operands[next++];
        if (operand >= 0 && !seen(operand)) stack.emplace_back(operand, 0);
        continue;
      }
      number_[static_cast<size_t>(value)] = 0;
      (step ? steps_ : inputs_).push_back(value);
      stack.pop_back();
    }
  }
  bool seen(int value) const { return number_[static_cast<size_t>(value)] >= 0; }

  const TileProgram& from_;
  std::vector<int> number_;  // -1: not seen
  std::vector<int> inputs_, steps_;
};

std::string_view extent_name(Extent extent) {
  return extent == Extent::row ? " per row" : extent == Extent::column ? " per column" : "";
}

// Of a sum over all dims before the last ones: how many are left. Otherwise 0.
int columns_of(const OpBase& op, const void* attrs, const Shape& sizes) {
  uint32_t mask = 0;
  if (&op == &sum_op)
    mask = reduced_mask(static_cast<const ReduceAttrs*>(attrs)->dim, sizes.size(), op.name);
  if (&op == &sum_to_op)
    for (int64_t d : broadcast_dims(static_cast<const SumToAttrs*>(attrs)->size, sizes))
      mask |= 1u << d;
  int leading = 0;
  while (leading < sizes.size() && (mask >> leading & 1)) ++leading;
  return leading > 0 && mask == (1u << leading) - 1 ? sizes.size() - leading : 0;
}

std::string text_of(const TileProgram& program, bool with_attrs) {
  std::string text = program.kind == TileProgram::Kind::walk ? "walk\n" : "rows\n";
  int value = 0;
  for (const TileProgram::Input& input : program.inputs)
    text += concat("%", value++, " = input : ", input.dtype, extent_name(input.extent),
                   input.host ? " from the host" : "", "\n");
  for (const Step& step : program.steps) {
    text += concat("%", value++, " = ", name_of(step), "(");
    bool first = true;
    const auto separate = [&] { text += std::exchange(first, false) ? "" : ", "; };
    for (int operand : step.operands) {
      separate();
      text += operand < 0 ? std::string("none") : concat("%", operand);
    }
    // What comes with the call is not part of a key.
    const bool fixed = step.kind == Step::Kind::reduce || step.kind == Step::Kind::row;
    if (step.op && (fixed || with_attrs))
      if (const auto attrs = free_attrs(*step.op, step.attrs.get()); !attrs.empty()) {
        separate();
        text += tensora::to_string(attrs);
      }
    if (step.kind == Step::Kind::part) text += concat(", ", step.part);
    if (step.kind == Step::Kind::number && with_attrs) append(text, to_attr_value(step.number));
    text += concat(") : ", step.dtype, extent_name(step.extent));
    if (step.kind == Step::Kind::pointwise && step.compute_dtype != step.dtype)
      text += concat(" computed in ", step.compute_dtype);
    text += "\n";
  }
  text += "results";
  for (int result : program.results) text += concat(" %", result);
  return text + "\n";
}

}  // namespace

int TileProgram::add(Input input) {
  ensure(steps.empty(), "jit: inputs of a program come before its steps");
  inputs.push_back(input);
  return input_count() - 1;
}

int TileProgram::add(Step step) {
  steps.push_back(std::move(step));
  return value_count() - 1;
}

void validate(const TileProgram& program) {
  for (int i = 0; i < program.input_count(); ++i) {
    const TileProgram::Input& input = program.inputs[static_cast<size_t>(i)];
    check(contains(kRealDTypes, input.dtype), "jit: input %", i, " cannot be ", input.dtype);
    check(program.kind == TileProgram::Kind::rows || input.extent == Extent::element,
          "jit: input %", i, " has one element per row in a walk");
  }
  int value = program.input_count();
  for (const Step& step : program.steps) validate_step(program, step, value++);
  check(!program.results.empty(), "jit: a program has no results");
  for (int result : program.results)
    check(result >= 0 && result < program.value_count(), "jit: there is no value %", result,
          " to be a result");
}

OpForm form_of(const OpBase& op, const void* attrs, const Shape& sizes) {
  if (op.random) return {find_random_op(op) ? OpForm::Kind::random : OpForm::Kind::none, 0};
  if (op.pointwise) return {OpForm::Kind::pointwise, 0};
  if (&op == &cast_op || &op == &clone_op || &op == &contiguous_op) return {OpForm::Kind::cast, 0};
  if (&op == &copy_op) return {OpForm::Kind::cast, 0, 1};  // input 0 is overwritten
  if (&op == &fill_op) return {OpForm::Kind::number, 0};
  if (const int columns = columns_of(op, attrs, sizes); columns > 0)
    return {OpForm::Kind::columns, columns};
  const RowOp* const row_op = find_row_op(op);
  if (!row_op) return {};
  const int rank = sizes.size();
  for (const auto& [name, value] : op.list_attrs(attrs)) {
    if (name == "normalized_shape") return {row_op->form, static_cast<int>(value.ints.size())};
    if (name != "dim") continue;
    if (value.kind == AttrValue::Kind::integer) {
      const bool last = rank > 0 && (value.integer == -1 || value.integer == rank - 1);
      return last ? OpForm{row_op->form, 1} : OpForm{};
    }
    if (rank == 0) return {};  // dim 0 or -1 of a number: no dim at all
    uint32_t mask = 0;
    for (int64_t dim : value.ints) mask |= 1u << (dim < 0 ? dim + rank : dim);
    if (value.ints.empty()) mask = (1u << rank) - 1;
    int dims = 0;
    while (dims < rank && (mask >> (rank - 1 - dims) & 1)) ++dims;
    const bool trailing = dims > 0 && mask == ((1u << rank) - (1u << (rank - dims)));
    return trailing ? OpForm{row_op->form, dims} : OpForm{};
  }
  return {};
}

CanonicalProgram canonical(const TileProgram& program) { return Numbering(program).run(); }

std::string key_of(const TileProgram& program) { return text_of(program, false); }
std::string to_string(const TileProgram& program) { return text_of(program, true); }

}  // namespace tensora::jit
