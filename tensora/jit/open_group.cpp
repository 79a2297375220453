#include "tensora/jit/open_group.h"

#include <algorithm>

#include "tensora/jit/random_ops.h"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/reduce/sum.h"

namespace tensora::jit {
namespace {

using Kind = TileProgram::Step::Kind;

constexpr size_t kMostInputs = 24, kMostSteps = 64;
// A row stays on the chip.
constexpr int64_t kLongestRow = 8192, kLongestRowOnDevice = 4096;
// Fewer rows than this do not occupy the device if they are long.
constexpr int64_t kFewestRows = 32, kSmall = 32768;
constexpr int64_t kCachedBytes = int64_t{4} << 20;
// Sums of columns, in double precision, stay in the cache. Their array does not: measured with 32
// MiB of L3, whose bandwidth is that of several passes.
constexpr int64_t kMostColumns = 8192, kFewestSummedBytes = int64_t{8} << 20;

Kind step_kind(OpForm::Kind kind) {
  switch (kind) {
    case OpForm::Kind::cast:
      return Kind::cast;
    case OpForm::Kind::reduce:
      return Kind::reduce;
    case OpForm::Kind::row:
      return Kind::row;
    default:
      return Kind::pointwise;
  }
}

// Whether the CPU's engine follows a copy's source as fast as the op itself: along the rows of the
// copy, or in panels across them.
bool follows(const Strides& from, const Strides& to, const Shape& space) {
  int64_t inner = -1, next = -1;  // the dims in which neighbours of the copy lie
  for (int d = 0; d < space.size(); ++d) {
    if (space[d] == 1) continue;
    if (inner < 0 || to[d] < to[static_cast<int>(inner)]) {
      next = inner;
      inner = d;
    } else if (next < 0 || to[d] < to[static_cast<int>(next)]) {
      next = d;
    }
  }
  if (inner < 0 || from[static_cast<int>(inner)] == 0 || from[static_cast<int>(inner)] == 1)
    return true;
  return next >= 0 && from[static_cast<int>(next)] == 1;
}

bool reduces(const OpForm& form) {
  return form.kind == OpForm::Kind::reduce || form.kind == OpForm::Kind::row;
}

}  // namespace

Shape OpenGroup::outer() const {
  Shape sizes;
  for (int d = 0; d < space_.size() - row_dims_; ++d) sizes.push_back(space_[d]);
  return sizes;
}

// Which part of the space an output of these sizes covers.
std::string OpenGroup::place_of(const Shape& sizes, Place& place) const {
  if (sizes == space_) {
    place = Place::element;
    return {};
  }
  if (row_dims_ > 0) {
    Shape expected = outer();
    place = Place::row_before;
    if (sizes == expected) return {};
    for (int d = 0; d < row_dims_; ++d) expected.push_back(1);
    place = Place::row;
    if (sizes == expected) return {};
  }
  return concat("its shape ", sizes, " is not that of the group, ", space_);
}

// Why a row op costs more in a group than alone; empty if it does not. Measured on a CPU with
// AVX-512: kernels of softmax and norms already pass over a row in cache, and are faster on many
// rows at once; reductions gain as soon as the array does not stay in the second-level cache.
std::string OpenGroup::price_of_rows(const OpForm& form, int64_t length, int64_t rows,
                                     int64_t element, uint32_t outputs) const {
  if (length > kLongestRow) return concat("rows of ", length, " elements do not stay on the chip");
  if (rows < kFewestRows && rows * length > kSmall) return concat("there are only ", rows, " rows");
  if (!device_.is_cpu()) {
    // Measured on an H200: norms, which keep statistics, and long rows.
    if (outputs > 1) return "its own kernel is faster on the device";
    if (length > kLongestRowOnDevice)
      return concat("rows of ", length, " elements take too many registers");
    return {};
  }
  if (form.kind == OpForm::Kind::row) return "its own kernel is faster on the cpu";
  if (rows * length * element < kCachedBytes) return "an array of that size stays in the cache";
  return {};
}

// The first node decides the space; the first that works on rows decides what a row is.
std::string OpenGroup::start(const TapeNode& node, const OpForm& form) {
  const bool of_input = reduces(form) || form.kind == OpForm::Kind::columns;
  const Shape& sizes =
      of_input ? tape_->inputs(node)[0].view.sizes : tape_->outputs(node)[0].view.sizes;
  if (nodes_.empty() && !is_fixed_) space_ = sizes;
  if (!reduces(form)) return {};
  if (sizes != space_) return concat("its rows are of shape ", sizes, ", not ", space_);
  if (row_dims_ != 0 && row_dims_ != form.row_dims)
    return concat("it works on the last ", form.row_dims, " dims, the group on ", row_dims_);
  if (column_dims_ != 0 && column_dims_ < form.row_dims)
    return "the group sums columns that are parts of its rows";
  int64_t length = 1;
  for (int d = 0; d < form.row_dims; ++d) length *= sizes[sizes.size() - 1 - d];
  const int64_t rows = length == 0 ? 0 : sizes.numel() / length;
  const auto element = static_cast<int64_t>(element_size(tape_->inputs(node)[0].view.dtype));
  if (length == 0) return "its rows are empty";
  if (fuse_ != Fuse::everything)
    if (std::string reason = price_of_rows(form, length, rows, element, node.outputs);
        !reason.empty())
      return reason;
  row_dims_ = form.row_dims;
  return {};
}

std::optional<ElementMap> OpenGroup::map_of(const Operand& operand, Place place) const {
  const View& view = operand.view;
  ElementMap map{operand.memory, operand.offset_bytes, view.dtype, {}};
  const Shape target = place == Place::row_before ? outer() : space_;
  if (!can_broadcast_to(view.sizes, target)) return {};
  map.strides = broadcast_strides(view.sizes, view.strides, target);
  while (map.strides.size() < space_.size()) map.strides.push_back(0);
  const int rows_end = space_.size() - row_dims_;
  for (int d = 0; d < space_.size(); ++d) {
    if (space_[d] == 1) map.strides[d] = 0;
    // One element per row: the op itself has no more.
    if (place != Place::element && d >= rows_end && map.strides[d] != 0) return {};
  }
  return map;
}

const OpenGroup::Step* OpenGroup::definition(int memory) const {
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step)
    if (step->map.memory == memory) return &*step;
  return nullptr;
}

bool OpenGroup::writes(int memory) const { return definition(memory) != nullptr; }

bool OpenGroup::reads(int memory) const {
  return std::any_of(inputs_.begin(), inputs_.end(),
                     [&](const Input& input) { return input.map.memory == memory; });
}

// Finds the value that an operand is, or makes it an input.
std::string OpenGroup::read(uint32_t index, Place place, const TapeNode& node,
                            std::optional<Ref>& ref) {
  const Operand& operand = tape_->operand(index);
  if (operand.memory < 0) return {};
  if (!contains(kRealDTypes, operand.view.dtype))
    return concat("an operand is ", operand.view.dtype);
  const std::optional<ElementMap> map = map_of(operand, place);
  if (!map) return concat("an operand of shape ", operand.view.sizes, " does not fit the group's");
  if (const Step* step = definition(operand.memory)) {
    if (step->step.kind == Kind::columns)
      return "it reads a sum that is complete when the group has run";
    if (!(step->map == *map) && !is_anywhere(*step))
      return "it reads a result of the group in another order";
    ref = Ref{true, static_cast<int>(step - steps_.data())};
    return {};
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    // What was read along with elements has one per element, even if they are equal.
    const bool fits = place == Place::element || inputs_[i].form.extent == Extent::row;
    if (!fits || !(inputs_[i].map == *map)) continue;
    ref = Ref{false, static_cast<int>(i)};
    return {};
  }
  if (inputs_.size() == kMostInputs) return "the group has too many inputs";
  bool per_row = row_dims_ > 0;
  for (int d = space_.size() - row_dims_; d < space_.size(); ++d) per_row &= map->strides[d] == 0;
  const bool host = operand.view.device.is_cpu() && !node.device.is_cpu();
  if (host && operand.view.numel != 1) return "an operand is on the cpu";
  ref = Ref{false, static_cast<int>(inputs_.size())};
  inputs_.push_back(
      {index, *map, {operand.view.dtype, per_row ? Extent::row : Extent::element, host}});
  return {};
}

Extent OpenGroup::extent_of(const Ref& ref) const {
  const auto i = static_cast<size_t>(ref.number);
  return ref.is_step ? steps_[i].step.extent : inputs_[i].form.extent;
}

bool OpenGroup::is_number(const Ref& ref) const {
  return ref.is_step && steps_[static_cast<size_t>(ref.number)].step.kind == Kind::number;
}

// Whether a step has the operands that its place asks for.
std::string OpenGroup::why_not_operands(const Step& step, Place place, const OpForm& form) const {
  if (row_dims_ == 0) return {};
  if (reduces(form)) {
    if (step.operands[0] && is_number(*step.operands[0])) return "its operand is a number";
    return step.operands[0] && extent_of(*step.operands[0]) == Extent::element
               ? ""
               : "its operand has one element per row";
  }
  const bool any_element = std::any_of(
      step.operands.begin(), step.operands.end(),
      [&](const std::optional<Ref>& ref) { return ref && extent_of(*ref) == Extent::element; });
  if (any_element == (place == Place::element)) return {};
  return any_element ? "an operand has one element per element of the rows"
                     : "its operands have one element per row";
}

// Whether an output can be written by this group, and where its elements lie.
std::string OpenGroup::write(uint32_t index, Place place, ElementMap& map) const {
  const Operand& operand = tape_->operand(index);
  if (!contains(kRealDTypes, operand.view.dtype)) return concat("a result is ", operand.view.dtype);
  const std::optional<ElementMap> found = map_of(operand, place);
  if (!found) return "a result does not fit the group's shape";
  map = *found;
  for (int d = 0; d < space_.size(); ++d) {
    const bool in_row = d >= space_.size() - row_dims_ && place != Place::element;
    if (map.strides[d] == 0 && space_[d] != 1 && !in_row) return "a result is broadcast";
  }
  const Step* earlier = definition(map.memory);
  if (earlier && !(earlier->map == map)) return "it overwrites another part of a result";
  for (const Input& input : inputs_)
    if (input.map.memory == map.memory && !(input.map == map))
      return "it overwrites what the group reads in another order";
  return {};
}

// A kernel stores a result as soon as it is computed. A result that overwrites an input must
// therefore depend on everything else that uses the input.
bool OpenGroup::overwrites_too_early(const Step& made) const {
  std::vector<bool> before(steps_.size(), false);
  const auto mark = [&](const Step& step) {
    for (const std::optional<Ref>& ref : step.operands)
      if (ref && ref->is_step) before[static_cast<size_t>(ref->number)] = true;
  };
  mark(made);
  for (size_t i = steps_.size(); i-- > 0;)
    if (before[i]) mark(steps_[i]);
  for (size_t i = 0; i < steps_.size(); ++i)
    for (const std::optional<Ref>& ref : steps_[i].operands)
      if (ref && !ref->is_step && !before[i] &&
          inputs_[static_cast<size_t>(ref->number)].map.memory == made.map.memory)
        return true;
  return false;
}

std::string OpenGroup::add_steps(uint32_t index, const OpForm& form) {
  const TapeNode& node = tape_->nodes()[index];
  Place place = Place::element;
  if (!reduces(form))
    if (std::string reason = place_of(tape_->outputs(node)[0].view.sizes, place); !reason.empty())
      return reason;
  const bool casts = form.kind == OpForm::Kind::cast;
  Step step{.step = {.kind = step_kind(form.kind), .op = casts ? nullptr : node.op},
            .operands = {},
            .map = {}};
  step.step.compute_dtype = node.compute_dtype;
  const uint32_t first = casts ? form.operand : 0, count = casts ? 1 : node.inputs;
  step.operands.resize(count);
  for (uint32_t i = 0; i < count; ++i)
    if (std::string reason = read(node.first + first + i, place, node, step.operands[i]);
        !reason.empty())
      return reason;
  if (std::string reason = why_not_operands(step, place, form); !reason.empty()) return reason;
  if (form.kind == OpForm::Kind::pointwise)
    step.node = static_cast<int>(index);
  else if (!casts)
    step.step.attrs = AttrsCopy(*node.op, node.attrs.get());
  const auto main = static_cast<int>(steps_.size());
  for (uint32_t i = 0; i < node.outputs; ++i) {
    const uint32_t operand = node.first + node.inputs + i;
    const Operand& output = tape_->operand(operand);
    if (reduces(form))
      if (std::string reason = place_of(output.view.sizes, place); !reason.empty()) return reason;
    if (form.kind == OpForm::Kind::reduce && place == Place::element && row_dims_ > 0 &&
        output.view.numel != 1)
      return "its rows have one element";
    if (form.kind == OpForm::Kind::reduce && place == Place::element) place = Place::row;
    Step made = step;
    if (std::string reason = write(operand, place, made.map); !reason.empty()) return reason;
    if (i > 0) {
      made.step = {.kind = Kind::part, .part = static_cast<int>(i)};
      made.operands = {Ref{true, main}};
      made.node = -1;
    }
    if (overwrites_too_early(made)) return "it overwrites what the group still reads";
    if (casts && fuse_ != Fuse::everything && device_.is_cpu() && !step.operands[0]->is_step) {
      const Input& source = inputs_[static_cast<size_t>(step.operands[0]->number)];
      if (!follows(source.map.strides, made.map.strides, space_))
        return "a copy in another order is faster by itself";
    }
    made.operand = operand;
    made.step.dtype = output.view.dtype;
    made.step.extent = place == Place::element ? Extent::element : Extent::row;
    steps_.push_back(std::move(made));
  }
  if (steps_.size() > kMostSteps) return "the group has too many ops";
  return {};
}

// Every element is the same number, which comes with the call.
std::string OpenGroup::add_number(uint32_t index) {
  const TapeNode& node = tape_->nodes()[index];
  const uint32_t operand = node.first + node.inputs;
  const Operand& output = tape_->operand(operand);
  Place place;
  if (std::string reason = place_of(output.view.sizes, place); !reason.empty()) return reason;
  Step step{.step = {.kind = Kind::number, .dtype = output.view.dtype},
            .operands = {},
            .node = static_cast<int>(index),
            .operand = operand,
            .map = {}};
  if (std::string reason = write(operand, place, step.map); !reason.empty()) return reason;
  if (overwrites_too_early(step)) return "it overwrites what the group still reads";
  step.step.extent = place == Place::element ? Extent::element : Extent::row;
  steps_.push_back(std::move(step));
  return steps_.size() > kMostSteps ? "the group has too many ops" : "";
}

// Whether it does not matter which element of a result is read: all are one number.
bool OpenGroup::is_anywhere(const Step& step) const {
  const View& view = tape_->operand(step.operand).view;
  const Memory& memory = tape_->memories()[static_cast<size_t>(step.map.memory)];
  return step.step.kind == Kind::number && step.map.offset_bytes == 0 && memory.made_here &&
         memory.storage->bytes() == view.bytes();
}

// Numbers belong to the elements of the space in row-major order.
std::string OpenGroup::add_random(uint32_t index) {
  const TapeNode& node = tape_->nodes()[index];
  const uint32_t operand = node.first + node.inputs;
  const Operand& output = tape_->operand(operand);
  if (output.view.sizes != space_)
    return concat("it draws numbers of shape ", output.view.sizes, ", not ", space_);
  Step step{.step = {.kind = Kind::random, .op = node.op, .dtype = output.view.dtype},
            .operands = {},
            .node = static_cast<int>(index),
            .operand = operand,
            .map = {}};
  if (find_random_op(*node.op)->reads) {
    std::optional<Ref>& ref = step.operands.emplace_back();
    if (std::string reason = read(node.first, Place::element, node, ref); !reason.empty())
      return reason;
    if (ref && extent_of(*ref) == Extent::row) return "its operand has one element per row";
    if (ref && is_number(*ref)) return "its operand is a number";
  }
  if (std::string reason = write(operand, Place::element, step.map); !reason.empty()) return reason;
  if (overwrites_too_early(step)) return "it overwrites what the group still reads";
  steps_.push_back(std::move(step));
  return steps_.size() > kMostSteps ? "the group has too many ops" : "";
}

// A sum over all dims before the last ones.
std::string OpenGroup::add_columns(uint32_t index, const OpForm& form) {
  const TapeNode& node = tape_->nodes()[index];
  const uint32_t operand = node.first + node.inputs;
  const Operand &from = tape_->operand(node.first), &to = tape_->operand(operand);
  if (from.view.sizes != space_)
    return concat("it sums an array of shape ", from.view.sizes, ", not ", space_);
  if (column_dims_ != 0 && column_dims_ != form.row_dims)
    return concat("it keeps the last ", form.row_dims, " dims, the group ", column_dims_);
  if (form.row_dims < row_dims_) return "its columns are parts of the group's rows";
  if (from.view.dtype != to.view.dtype || !is_floating_point(to.view.dtype))
    return concat("it sums ", from.view.dtype, " as ", to.view.dtype);
  if (from.view.numel == 0) return "its columns are empty";
  if (definition(to.memory) || reads(to.memory)) return "it overwrites what the group uses";
  const int64_t columns = to.view.numel, bytes = static_cast<int64_t>(from.view.bytes());
  if (fuse_ != Fuse::everything) {
    if (columns > kMostColumns)
      return concat("sums of ", columns, " columns do not stay on the chip");
    if (bytes < kFewestSummedBytes) return "an array of that size stays in the cache";
  }
  const ReduceAttrs attrs;
  Step sum{.step = {.kind = Kind::columns,
                    .op = &sum_op,
                    .attrs = AttrsCopy(sum_op, &attrs),
                    .dtype = to.view.dtype,
                    .extent = Extent::column},
           .operands = {std::nullopt},
           .operand = operand,
           .map = {to.memory, to.offset_bytes, to.view.dtype, {}}};
  if (std::string reason = read(node.first, Place::element, node, sum.operands[0]); !reason.empty())
    return reason;
  if (sum.operands[0] && extent_of(*sum.operands[0]) == Extent::row)
    return "its operand has one element per row";
  if (sum.operands[0] && is_number(*sum.operands[0])) return "its operand is a number";
  sum.map.strides.resize(space_.size());
  for (int d = 1; d <= form.row_dims; ++d)
    if (space_[space_.size() - d] != 1)
      sum.map.strides[space_.size() - d] = to.view.strides[to.view.dim() - d];
  column_dims_ = form.row_dims;
  steps_.push_back(std::move(sum));
  return steps_.size() > kMostSteps ? "the group has too many ops" : "";
}

std::string OpenGroup::add_form(uint32_t node, const OpForm& form) {
  switch (form.kind) {
    case OpForm::Kind::random:
      return add_random(node);
    case OpForm::Kind::columns:
      return add_columns(node, form);
    case OpForm::Kind::number:
      return add_number(node);
    default:
      return add_steps(node, form);
  }
}

std::string OpenGroup::add(uint32_t node, const OpForm& form) {
  const size_t inputs = inputs_.size(), steps = steps_.size();
  const int row_dims = row_dims_, column_dims = column_dims_;
  std::string reason = start(tape_->nodes()[node], form);
  if (reason.empty()) reason = add_form(node, form);
  if (reason.empty()) {
    nodes_.push_back(node);
    return {};
  }
  inputs_.erase(inputs_.begin() + static_cast<std::ptrdiff_t>(inputs), inputs_.end());
  steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(steps), steps_.end());
  row_dims_ = row_dims;
  column_dims_ = column_dims;
  return reason;
}

std::string OpenGroup::add_again(uint32_t index, const OpForm& form) {
  const size_t steps = steps_.size();
  const TapeNode& node = tape_->nodes()[index];
  const Operand& output = tape_->outputs(node)[0];
  if (form.kind == OpForm::Kind::number && output.view.sizes != space_) {
    // Wherever its elements are, they are not stored.
    Step step{.step = {.kind = Kind::number, .dtype = output.view.dtype},
              .operands = {},
              .node = static_cast<int>(index),
              .operand = node.first + node.inputs,
              .map = {output.memory, output.offset_bytes, output.view.dtype, {}}};
    if (!is_anywhere(step)) return "it is part of a tensor";
    step.step.extent = row_dims_ > 0 ? Extent::row : Extent::element;
    steps_.push_back(std::move(step));
  } else {
    if (std::string reason = add(index, form); !reason.empty()) return reason;
    nodes_.pop_back();
  }
  for (size_t i = steps; i < steps_.size(); ++i) steps_[i].again = true;
  return {};
}

bool OpenGroup::can_take(const OpenGroup& other) const {
  if (space_ != other.space_ || device_ != other.device_) return false;
  if (row_dims_ != 0 && other.row_dims_ != 0 && row_dims_ != other.row_dims_) return false;
  const int columns = std::max(column_dims_, other.column_dims_);
  if (column_dims_ != 0 && other.column_dims_ != 0 && column_dims_ != other.column_dims_)
    return false;
  if (columns != 0 && columns < std::max(row_dims_, other.row_dims_)) return false;
  return inputs_.size() + other.inputs_.size() <= kMostInputs &&
         steps_.size() + other.steps_.size() <= kMostSteps;
}

void OpenGroup::take(const OpenGroup& other) {
  std::vector<int> numbers;
  for (const Input& input : other.inputs_) {
    const auto same = std::find_if(inputs_.begin(), inputs_.end(), [&](const Input& mine) {
      return mine.map == input.map && mine.form.extent == input.form.extent;
    });
    numbers.push_back(static_cast<int>(same - inputs_.begin()));
    if (same == inputs_.end()) inputs_.push_back(input);
  }
  const auto first = static_cast<int>(steps_.size());
  for (Step step : other.steps_) {
    for (std::optional<Ref>& ref : step.operands)
      if (ref)
        ref->number =
            ref->is_step ? first + ref->number : numbers[static_cast<size_t>(ref->number)];
    steps_.push_back(std::move(step));
  }
  nodes_.insert(nodes_.end(), other.nodes_.begin(), other.nodes_.end());
  std::sort(nodes_.begin(), nodes_.end());
  row_dims_ = std::max(row_dims_, other.row_dims_);
  column_dims_ = std::max(column_dims_, other.column_dims_);
}

}  // namespace tensora::jit
