#include "tensora/jit/kernel.h"

#include <algorithm>
#include <map>

#include "tensora/autograd/grad_mode.h"
#include "tensora/jit/row_ops.h"

namespace tensora::jit {

using Step = TileProgram::Step;

/// A kernel while it is being recorded. Inputs of a program come before its steps, but loads come
/// when they come: values are numbered at the end.
class Recording {
 public:
  Recording(std::string_view name, std::span<const Tensor> tensors)
      : name_(name), tensors_(tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) arrays_.emplace_back(this, static_cast<int>(i));
  }

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail("kernel ", name_, ": ", parts...);
  }
  std::span<const Array> arrays() const { return arrays_; }
  const Tensor& tensor(int array) const { return tensors_[static_cast<size_t>(array)]; }
  DType dtype_of(int value) const { return values_[static_cast<size_t>(value)].dtype; }
  Extent extent_of(int value) const { return values_[static_cast<size_t>(value)].extent; }

  void begin(int array, int64_t dim) {
    if (rows_of_ >= 0) refuse("program() is called once");
    const Tensor& counted = tensor(array);
    if (dim < 0 || dim >= counted.dim())
      refuse("argument ", array, " has no dim ", dim, ", its shape is ", counted.sizes());
    rows_of_ = array;
    rows_ = counted.sizes()[static_cast<int>(dim)];
  }
  void require_begun() const {
    if (rows_of_ < 0) refuse("program() comes first");
  }

  int load(int array, Extent extent, bool shared) {
    require_begun();
    if (written_.contains(array)) refuse("argument ", array, " is read after it was stored to");
    const auto key = std::make_pair(array, std::make_pair(extent, shared));
    const auto found = loads_.find(key);
    if (found != loads_.end()) return found->second;
    check_shape(array, extent, shared);
    values_.push_back(
        {.input = array, .dtype = tensor(array).dtype(), .extent = extent, .shared = shared});
    return loads_[key] = static_cast<int>(values_.size()) - 1;
  }
  int add(Step step) {
    Value value{.dtype = step.dtype, .extent = step.extent};
    value.step = std::move(step);
    values_.push_back(std::move(value));
    return static_cast<int>(values_.size()) - 1;
  }
  void store(int array, Extent extent, int value) {
    require_begun();
    if (!written_.insert({array, value}).second) refuse("argument ", array, " is stored to twice");
    if (extent_of(value) != extent)
      refuse(extent == Extent::row
                 ? "a row cannot be stored as one element; reduce it first"
                 : "one value cannot be stored as a row; combine it with a row first");
    check_shape(array, extent, false);
    stores_.push_back({array, value});
  }

  void run() const {
    if (stores_.empty()) refuse("nothing is stored");
    const Device device = tensors_[0].device();
    TileProgram program{.kind = TileProgram::Kind::rows};
    std::vector<int> number(values_.size());
    std::vector<View> inputs, results;
    for (size_t i = 0; i < values_.size(); ++i) {
      const Value& value = values_[i];
      if (value.input < 0) continue;
      number[i] = program.add(TileProgram::Input{.dtype = value.dtype, .extent = value.extent});
      inputs.push_back(view_of(value.input, value.extent, value.shared));
    }
    for (size_t i = 0; i < values_.size(); ++i) {
      if (values_[i].input >= 0) continue;
      Step step = values_[i].step;
      for (int& operand : step.operands) operand = number[static_cast<size_t>(operand)];
      number[i] = program.add(std::move(step));
    }
    for (const Store& store : stores_) {
      program.results.push_back(number[static_cast<size_t>(store.value)]);
      results.push_back(view_of(store.array, extent_of(store.value), false));
    }
    const PreparedTile prepared = prepare(program, device);
    std::vector<const View*> in, out;
    for (const View& view : inputs) in.push_back(&view);
    for (const View& view : results) out.push_back(&view);
    prepared.launch(
        {.sizes = {rows_, length_ < 0 ? 1 : length_}, .row_dims = 1, .inputs = in, .results = out});
    for (const Store& store : stores_) tensor(store.array).impl().storage->bump_version();
  }

 private:
  struct Value {
    int input = -1;  // the array, if it was loaded
    DType dtype = DType::float32;
    Extent extent = Extent::element;
    bool shared = false;
    Step step = {};
  };
  struct Store {
    int array, value;
  };

  // Rows, one element per row, or a row for all.
  void check_shape(int array, Extent extent, bool shared) {
    const Tensor& given = tensor(array);
    const int wanted = extent == Extent::element && !shared ? 2 : 1;
    if (given.dim() != wanted)
      refuse("argument ", array, " is used with ", wanted, " dims, got shape ", given.sizes());
    if (!shared && given.sizes()[0] != rows_)
      refuse("argument ", array, " must have ", rows_, " rows, got shape ", given.sizes());
    if (extent == Extent::row) return;
    const int64_t length = given.sizes()[wanted - 1];
    if (length_ >= 0 && length != length_)
      refuse("argument ", array, " must have rows of ", length_, " elements, got shape ",
             given.sizes());
    length_ = length;
  }

  View view_of(int array, Extent extent, bool shared) const {
    const Tensor& given = tensor(array);
    View view = given.impl().view;
    view.data = given.data_ptr();
    if (shared) {
      view.sizes = {1, given.sizes()[0]};
      view.strides = {0, given.strides()[0]};
    } else if (extent == Extent::row) {
      view.sizes = {rows_, 1};
      view.strides = {given.strides()[0], 0};
    }
    view.update();
    return view;
  }

  std::string_view name_;
  std::span<const Tensor> tensors_;
  std::vector<Array> arrays_;
  std::vector<Value> values_;
  std::vector<Store> stores_;
  std::map<std::pair<int, std::pair<Extent, bool>>, int> loads_;
  std::map<int, int> written_;
  int rows_of_ = -1;
  int64_t rows_ = 0, length_ = -1;
};

namespace {

// A pointwise op of a kernel; operands are in the dtype in which they meet.
Tile pointwise(std::string_view name, std::span<const Tile> operands) {
  Recording& recording = *operands[0].recording();
  const OpBase* const found = op_registry().find(name);
  if (!found || !found->pointwise || found->random)
    recording.refuse("there is no pointwise op '", name, "'");
  if (operands.size() < found->inputs.least() || operands.size() > found->inputs.most())
    recording.refuse(name, " takes ", found->inputs.least(), " operands, got ", operands.size());
  // The dtypes follow from what the op itself says about tensors of one element.
  std::vector<Tensor> samples;
  SmallVector<Arg, 4> args;
  Extent extent = Extent::row;
  for (const Tile& operand : operands) {
    samples.push_back(make_tensor(Shape{1}, operand.dtype(), Device()));
    if (recording.extent_of(operand.value()) == Extent::element) extent = Extent::element;
  }
  for (const Tensor& sample : samples) args.emplace_back(sample);
  int value = -1;
  found->with_attrs(*found, {}, [&](const void* attrs) {
    Infer infer(found->name, {args.data(), args.size()}, Device());
    found->infer(*found, infer, attrs);
    Step step{.kind = Step::Kind::pointwise,
              .op = found,
              .attrs = AttrsCopy(*found, attrs),
              .dtype = infer.outputs[0].dtype,
              .compute_dtype = infer.compute_dtype,
              .extent = extent};
    for (const Tile& operand : operands) step.operands.push_back(operand.value());
    value = recording.add(std::move(step));
  });
  return {&recording, value};
}

// A number beside a tile: of the tile's dtype, but a fraction beside integers is a float.
Tile number_beside(Scalar number, const Tile& tile) {
  const bool fraction = number.is_floating() && !is_floating_point(tile.dtype());
  const DType dtype = fraction ? kFloat32 : tile.dtype() == kBool ? kInt64 : tile.dtype();
  Recording& recording = *tile.recording();
  return {
      &recording,
      recording.add(Step{
          .kind = Step::Kind::number, .dtype = dtype, .extent = Extent::row, .number = number})};
}

}  // namespace

DType Array::dtype() const { return recording_->tensor(number_).dtype(); }

Place Array::make(const Index& row, Place::Kind kind) const {
  if (row.recording_ != recording_) recording_->refuse("an index of another kernel");
  return {recording_, number_, kind};
}

DType Tile::dtype() const { return recording_->dtype_of(value_); }

Tile Tile::as(DType dtype) const {
  if (dtype == this->dtype()) return *this;
  return {recording_, recording_->add(Step{.kind = Step::Kind::cast,
                                           .operands = {value_},
                                           .dtype = dtype,
                                           .extent = recording_->extent_of(value_)})};
}

Index program(const Size& rows) {
  rows.recording_->begin(rows.array_, rows.dim_);
  return Index(rows.recording_);
}

Tile load(const Place& place) {
  const bool one = place.kind_ == Place::Kind::element_of_row;
  return {place.recording_,
          place.recording_->load(place.array_, one ? Extent::row : Extent::element,
                                 place.kind_ == Place::Kind::shared_row)};
}

void store(const Place& place, const Tile& value) {
  Recording& recording = *place.recording_;
  if (place.kind_ == Place::Kind::shared_row)
    recording.refuse("rows cannot all store to the same place");
  const Tile stored = value.as(recording.tensor(place.array_).dtype());
  const bool one = place.kind_ == Place::Kind::element_of_row;
  recording.store(place.array_, one ? Extent::row : Extent::element, stored.value());
}

Tile positions(const Tile& row) {
  Recording& recording = *row.recording();
  return {&recording, recording.add(Step{.kind = Step::Kind::position, .dtype = kInt64})};
}

Tile op(std::string_view name, std::initializer_list<Tile> operands) {
  ensure(operands.size() > 0, "jit: an op of a kernel needs a tile");
  return pointwise(name, {operands.begin(), operands.size()});
}
Tile op(std::string_view name, const Tile& operand, Scalar number) {
  return op(name, {operand, number_beside(number, operand)});
}
Tile op(std::string_view name, Scalar number, const Tile& operand) {
  return op(name, {number_beside(number, operand), operand});
}

Tile reduce(std::string_view name, const Tile& row) {
  Recording& recording = *row.recording();
  const OpBase* const found = op_registry().find(name);
  const RowOp* const row_op = found ? find_row_op(*found) : nullptr;
  if (!row_op || row_op->form != OpForm::Kind::reduce)
    recording.refuse("there is no reduction '", name, "'");
  if (recording.extent_of(row.value()) != Extent::element)
    recording.refuse(name, " reduces a row, and got one value");
  const Tensor sample = make_tensor(Shape{1}, row.dtype(), Device());
  const Arg args[] = {sample};
  int value = -1;
  found->with_attrs(*found, {}, [&](const void* attrs) {
    Infer infer(found->name, args, Device());
    found->infer(*found, infer, attrs);
    value = recording.add(Step{.kind = Step::Kind::reduce,
                               .op = found,
                               .attrs = AttrsCopy(*found, attrs),
                               .operands = {row.value()},
                               .dtype = infer.outputs[0].dtype,
                               .extent = Extent::row});
  });
  return {&recording, value};
}

namespace detail {

void run_kernel(std::string_view name, std::span<const Tensor> tensors,
                const std::function<void(std::span<const Array>)>& body) {
  check(!tensors.empty(), "kernel ", name, ": needs a tensor");
  for (size_t i = 0; i < tensors.size(); ++i) {
    check(tensors[i].defined(), "kernel ", name, ": argument ", i, " is undefined");
    check(tensors[i].device() == tensors[0].device(), "kernel ", name, ": argument ", i, " is on ",
          tensors[i].device(), ", argument 0 on ", tensors[0].device());
    check(!thread_state.grad_enabled || !tensors[i].requires_grad(), "kernel ", name, ": argument ",
          i, " requires grad, and a kernel has no gradient; use no_grad or detach it");
  }
  Recording recording(name, tensors);
  body(recording.arrays());
  recording.run();
}

}  // namespace detail

}  // namespace tensora::jit
