#include "tensora/jit/kernel.h"

#include <algorithm>

#include "tensora/jit/kernel_recording.h"
#include "tensora/jit/row_ops.h"

namespace tensora::jit {
namespace {

using Integer = BlockInteger;
using Step = BlockStep;

Index combine(Integer::Kind kind, const Index& a, const Index& b) {
  KernelRecording* const recording = a.recording() ? a.recording() : b.recording();
  if (!recording) {  // two constants
    BlockProgram none{.name = "constant"};
    none.integers = {{.value = a.value()}, {.value = b.value()}, {.kind = kind, .a = 0, .b = 1}};
    return evaluate(none, 2, {}, {}, {});
  }
  const int first = recording->integer(a), second = recording->integer(b);
  return {recording, recording->add_integer({.kind = kind, .a = first, .b = second})};
}

// The extent of a pointwise result along an axis.
int64_t broadcast(const KernelRecording& recording, std::string_view name, int64_t a, int64_t b,
                  int axis) {
  if (a != b && a != 1 && b != 1)
    recording.refuse(name, ": tiles of ", a, " and ", b, axis == 0 ? " rows" : " columns",
                     " do not fit");
  return a == 1 ? b : a;
}

Tile pointwise(std::string_view name, std::span<const Tile> operands) {
  KernelRecording& recording = *operands[0].recording();
  const OpBase* const found = op_registry().find(name);
  if (!found || !found->pointwise || found->random)
    recording.refuse("there is no pointwise op '", name, "'");
  if (operands.size() < found->inputs.least() || operands.size() > found->inputs.most())
    recording.refuse(name, " takes ", found->inputs.least(), " operands, got ", operands.size());
  // The dtypes follow from what the op itself says about tensors of one element.
  std::vector<Tensor> samples;
  SmallVector<Arg, 4> args;
  BlockValue value;
  for (const Tile& operand : operands) {
    recording.require(operand);
    const BlockValue& shape = recording.value(operand.value());
    samples.push_back(make_tensor(Shape{1}, operand.dtype(), Device()));
    value.rows = broadcast(recording, name, value.rows, shape.rows, 0);
    value.columns = broadcast(recording, name, value.columns, shape.columns, 1);
    value.rank = std::max(value.rank, shape.rank);
  }
  for (const Tensor& sample : samples) args.emplace_back(sample);
  std::optional<Tile> result;
  found->with_attrs(*found, {}, [&](const void* attrs) {
    Infer infer(found->name, {args.data(), args.size()}, Device());
    found->infer(*found, infer, attrs);
    value.dtype = infer.outputs[0].dtype;
    Step step{.kind = Step::Kind::pointwise,
              .op = found,
              .attrs = AttrsCopy(*found, attrs),
              .compute_dtype = infer.compute_dtype};
    for (const Tile& operand : operands) step.operands.push_back(operand.value());
    result = recording.add(std::move(step), value);
  });
  return *result;
}

Tile filled(KernelRecording& recording, BlockPlace place, BlockValue value, Scalar number,
            DType dtype) {
  if (!contains(kRealDTypes, dtype)) recording.refuse("a tile cannot be ", dtype);
  value.dtype = dtype;
  return recording.add(Step{.kind = Step::Kind::fill, .place = std::move(place), .number = number},
                       value);
}

Tile random(Step::Kind kind, const Place& place, uint64_t seed, uint64_t offset) {
  BlockValue value = place.recording->shape_of(place.place);
  value.dtype = kFloat32;
  return place.recording->add(
      Step{.kind = kind, .place = place.place, .seed = seed, .offset = offset}, value);
}

}  // namespace

Tile number_beside(Scalar number, const Tile& tile) {
  const bool fraction = number.is_floating() && !is_floating_point(tile.dtype());
  const DType dtype = fraction ? kFloat32 : tile.dtype() == kBool ? kInt64 : tile.dtype();
  return tile.recording()->add(Step{.kind = Step::Kind::fill, .number = number},
                               BlockValue{.dtype = dtype});
}

Index operator+(const Index& a, const Index& b) { return combine(Integer::Kind::add, a, b); }
Index operator-(const Index& a, const Index& b) { return combine(Integer::Kind::subtract, a, b); }
Index operator*(const Index& a, const Index& b) { return combine(Integer::Kind::multiply, a, b); }
Index operator/(const Index& a, const Index& b) { return combine(Integer::Kind::divide, a, b); }
Index operator%(const Index& a, const Index& b) { return combine(Integer::Kind::remainder, a, b); }
Index smaller(const Index& a, const Index& b) { return combine(Integer::Kind::smaller, a, b); }
Index larger(const Index& a, const Index& b) { return combine(Integer::Kind::larger, a, b); }
Index ceil_div(const Index& a, const Index& b) { return (a + b - 1) / b; }

Index Array::size(int64_t dim) const {
  const View& view = recording_->array(number_);
  if (dim < -view.dim() || dim >= view.dim())
    recording_->refuse("argument ", number_, " has no dim ", dim, ", its shape is ", view.sizes);
  const int wrapped = static_cast<int>(dim < 0 ? dim + view.dim() : dim);
  return {recording_,
          recording_->add_integer({.kind = Integer::Kind::size, .a = number_, .b = wrapped})};
}
int Array::dim() const { return recording_->array(number_).dim(); }
DType Array::dtype() const { return recording_->array(number_).dtype; }
Place Array::place(std::span<const Span> spans) const { return recording_->place(number_, spans); }

Tile Tile::zeros(int64_t rows, int64_t columns, DType dtype) {
  return full(rows, columns, 0, dtype);
}
Tile Tile::zeros(const Place& place, DType dtype) { return full(place, 0, dtype); }
Tile Tile::full(int64_t rows, int64_t columns, Scalar number, DType dtype) {
  KernelRecording& recording = KernelRecording::current("Tile::full");
  if (rows < 1 || columns < 1) recording.refuse("a tile cannot be ", rows, " x ", columns);
  const int rank = rows > 1 ? 2 : columns > 1 ? 1 : 0;
  return filled(recording, {}, {.rows = rows, .columns = columns, .rank = rank}, number, dtype);
}
Tile Tile::full(const Place& place, Scalar number, DType dtype) {
  return filled(*place.recording, place.place, place.recording->shape_of(place.place), number,
                dtype);
}

DType Tile::dtype() const { return recording_->value(value_).dtype; }
int64_t Tile::rows() const { return recording_->value(value_).rows; }
int64_t Tile::columns() const { return recording_->value(value_).columns; }

Tile Tile::as(DType dtype) const {
  recording_->require(*this);
  if (dtype == this->dtype()) return *this;
  if (!contains(kRealDTypes, dtype)) recording_->refuse("a tile cannot be ", dtype);
  BlockValue value = recording_->value(value_);
  value.changes = false;
  value.dtype = dtype;
  return recording_->add(Step{.kind = Step::Kind::cast, .operands = {value_}}, value);
}

void Tile::set(const Tile& value) const { recording_->set(*this, value); }
const Tile& Tile::operator+=(const Tile& value) const {
  set(*this + value);
  return *this;
}
const Tile& Tile::operator-=(const Tile& value) const {
  set(*this - value);
  return *this;
}
const Tile& Tile::operator*=(const Tile& value) const {
  set(*this * value);
  return *this;
}

Index program(const Index& count) {
  KernelRecording& recording =
      count.recording() ? *count.recording() : KernelRecording::current("program");
  return recording.begin_program(count);
}

Tile load(const Place& place) { return place.recording->load(place); }
void store(const Place& place, const Tile& value) {
  place.recording->store(place, value, Step::Kind::store);
}
void atomic_add(const Place& place, const Tile& value) {
  place.recording->store(place, value, Step::Kind::atomic_add);
}

void loop(const Index& begin, const Index& end, const Index& step,
          const std::function<void(Index)>& body) {
  KernelRecording& recording = KernelRecording::current("loop");
  body(recording.begin_loop(begin, end, step));
  recording.end_loop();
}

int64_t tunable(std::string_view name, std::span<const int64_t> candidates) {
  return KernelRecording::current("tunable").tunable(name, candidates);
}
int64_t tunable(std::string_view name, std::initializer_list<int64_t> candidates) {
  return tunable(name, std::span(candidates.begin(), candidates.size()));
}

Tile positions(const Tile& tile, int axis) {
  KernelRecording& recording = *tile.recording();
  recording.require(tile);
  if (axis < 0) axis += 2;
  if (axis < 0 || axis > 1) recording.refuse("positions: axis is 0 or 1, got ", axis);
  const BlockValue& shape = recording.value(tile.value());
  BlockValue value{.dtype = kInt64, .rank = axis == 0 ? 2 : 1};
  (axis == 0 ? value.rows : value.columns) = shape.extent(axis);
  return recording.add(Step{.kind = Step::Kind::position, .operands = {tile.value()}, .axis = axis},
                       value);
}

Tile as_tile(const Index& index) {
  KernelRecording& recording = KernelRecording::current("as_tile");
  return recording.add(Step{.kind = Step::Kind::integer, .integer = recording.integer(index)},
                       BlockValue{.dtype = kInt64});
}

Tile dot(const Tile& a, const Tile& b) {
  KernelRecording& recording = *a.recording();
  recording.require(a);
  recording.require(b);
  const BlockValue left = recording.value(a.value()), right = recording.value(b.value());
  if (left.dtype != right.dtype)
    recording.refuse("dot: expected tiles of one dtype, got ", left.dtype, " and ", right.dtype);
  if (left.dtype == kBool) recording.refuse("dot: not supported for bool; convert it");
  if (left.columns != right.rows)
    recording.refuse("dot: ", left.rows, " x ", left.columns, " times ", right.rows, " x ",
                     right.columns, " do not fit: ", left.columns, " columns, ", right.rows,
                     " rows");
  const DType dtype = left.dtype == kFloat64          ? kFloat64
                      : is_floating_point(left.dtype) ? kFloat32
                      : left.dtype == kInt64          ? kInt64
                                                      : kInt32;
  return recording.add(Step{.kind = Step::Kind::dot, .operands = {a.value(), b.value()}},
                       {.dtype = dtype, .rows = left.rows, .columns = right.columns, .rank = 2});
}

Tile transposed(const Tile& tile) {
  KernelRecording& recording = *tile.recording();
  recording.require(tile);
  const BlockValue shape = recording.value(tile.value());
  return recording.add(Step{.kind = Step::Kind::transpose, .operands = {tile.value()}},
                       {.dtype = shape.dtype,
                        .rows = shape.columns,
                        .columns = shape.rows,
                        .rank = shape.rank == 2 && shape.columns == 1 ? 1 : 2});
}

Tile column(const Tile& row) {
  if (row.rows() != 1) row.recording()->refuse("column: expected a row, got ", row.rows(), " rows");
  return transposed(row);
}

Tile uniform(const Place& place, uint64_t seed, uint64_t offset) {
  return random(Step::Kind::uniform, place, seed, offset);
}
Tile normal(const Place& place, uint64_t seed, uint64_t offset) {
  return random(Step::Kind::normal, place, seed, offset);
}

Tile op(std::string_view name, std::span<const Tile> operands) {
  check(!operands.empty(), "jit: ", name, " needs a tile");
  return pointwise(name, operands);
}
Tile op(std::string_view name, std::initializer_list<Tile> operands) {
  return op(name, std::span(operands.begin(), operands.size()));
}
Tile op(std::string_view name, const Tile& operand, Scalar number) {
  return op(name, {operand, number_beside(number, operand)});
}
Tile op(std::string_view name, Scalar number, const Tile& operand) {
  return op(name, {number_beside(number, operand), operand});
}

Tile reduce(std::string_view name, const Tile& tile, int axis) {
  KernelRecording& recording = *tile.recording();
  recording.require(tile);
  const OpBase* const found = op_registry().find(name);
  const RowOp* const row_op = found ? find_row_op(*found) : nullptr;
  if (!row_op || row_op->form != OpForm::Kind::reduce)
    recording.refuse("there is no reduction '", name, "'");
  const BlockValue shape = recording.value(tile.value());
  if (shape.rank == 0) recording.refuse(name, " reduces a row, and got one value");
  if (axis < 0) axis += 2;
  if (axis < 0 || axis > 1 || (axis == 0 && shape.rank == 1))
    recording.refuse(name, ": axis is 1", shape.rank == 2 ? " or 0" : "", ", got ", axis);
  const Tensor sample = make_tensor(Shape{1}, tile.dtype(), Device());
  const Arg args[] = {sample};
  std::optional<Tile> result;
  found->with_attrs(*found, {}, [&](const void* attrs) {
    Infer infer(found->name, args, Device());
    found->infer(*found, infer, attrs);
    BlockValue value = shape;
    value.changes = false;
    (axis == 0 ? value.rows : value.columns) = 1;
    value.rank = shape.rank == 1 ? 0 : axis == 0 ? 1 : 2;
    value.dtype = infer.outputs[0].dtype;
    result = recording.add(Step{.kind = Step::Kind::reduce,
                                .operands = {tile.value()},
                                .op = found,
                                .attrs = AttrsCopy(*found, attrs),
                                .axis = axis},
                           value);
  });
  return *result;
}

}  // namespace tensora::jit
