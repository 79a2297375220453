#include <cstring>

#include "tensora/jit/random_ops.h"
#include "tensora/jit/row_ops.h"
#include "tensora/jit/tile_views.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/reduce/sum.h"

namespace tensora::jit {
namespace {

using Step = TileProgram::Step;

Shape row_sizes(const TileCall& call, const TileProgram& program, int64_t length) {
  if (program.kind == TileProgram::Kind::walk) return call.sizes;
  Shape sizes;
  for (int d = 0; d < call.sizes.size() - call.row_dims; ++d) sizes.push_back(call.sizes[d]);
  sizes.push_back(length);
  return sizes;
}

// The positions of elements in their row, or the numbers of rows.
void fill_positions(const Tensor& to, Extent extent) {
  auto* const data = static_cast<int64_t*>(to.impl().view.data);
  const int64_t length = extent == Extent::row ? 1 : to.sizes()[to.dim() - 1];
  for (int64_t i = 0; i < to.numel(); ++i) data[i] = extent == Extent::row ? i : i % length;
}

// All values as tensors of their own. The dims of a row are one dim.
class Interpreter {
 public:
  Interpreter(const TileProgram& program, const TileCall& call, Device device)
      : program_(program), call_(call), device_(device) {
    const bool rows = program.kind == TileProgram::Kind::rows;
    int64_t length = 1;
    for (int d = 0; rows && d < call.row_dims; ++d) length *= call.sizes[call.sizes.size() - 1 - d];
    full_ = row_sizes(call, program, length);
    per_row_ = row_sizes(call, program, 1);
    find_columns(rows ? call.row_dims : 0);
    length_ = length;
  }

  void run() {
    for (size_t i = 0; i < program_.inputs.size(); ++i) take_input(i);
    for (size_t i = 0; i < program_.steps.size(); ++i) run_step(i);
    for (size_t i = 0; i < program_.results.size(); ++i) {
      const View& out = *call_.results[i];
      View from = view(program_.results[i]);
      const bool number = from.dim() == 0;
      from.sizes = out.sizes;
      from.strides = contiguous_strides(out.sizes);
      for (int64_t& stride : from.strides) stride = number ? 0 : stride;
      from.update();
      copy_view(from, out, device_);
    }
  }

 private:
  const View& view(int value) const { return values_[static_cast<size_t>(value)].impl().view; }
  Tensor make(int value, DType dtype) const {
    const Extent extent = program_.extent_of(value);
    const Shape& sizes = extent == Extent::column ? per_column_
                         : extent == Extent::row  ? per_row_
                                                  : full_;
    return make_tensor(sizes, dtype, device_);
  }

  // The dims of columns are those of a result that has one element per column.
  void find_columns(int row_dims) {
    for (size_t r = 0; r < program_.results.size(); ++r) {
      if (program_.extent_of(program_.results[r]) != Extent::column) continue;
      const Shape& sizes = call_.results[r]->sizes;
      per_column_ = full_;
      for (int d = 0; d < sizes.size() - row_dims; ++d) per_column_[d] = sizes[d];
      return;
    }
  }
  void sum_columns(const Step& step, const Tensor& to) const {
    const View &from = view(step.operands[0]), &out = to.impl().view;
    ReduceAttrs attrs{{}, true, {}};
    for (int d = 0; d < from.dim(); ++d)
      if (from.sizes[d] != out.sizes[d]) attrs.dim.push_back(d);
    // One row is summed too: a sum of -0 is 0.
    if (attrs.dim.empty()) attrs.dim.push_back(0);
    const View *const in[] = {&from}, *const outs[] = {&out};
    sum_op.run_kernel(sum_op, {sum_op.name, in, outs, device_, out.dtype}, &attrs);
  }

  void take_input(size_t i) {
    const View& given = *call_.inputs[i];
    if (program_.inputs[i].host) return take_number(given.data, given.dtype);
    const Tensor tensor = make(static_cast<int>(i), program_.inputs[i].dtype);
    View target = tensor.impl().view;
    target.sizes = call_.sizes;
    if (program_.inputs[i].extent == Extent::row)
      for (int d = 0; d < call_.row_dims; ++d) target.sizes[call_.sizes.size() - 1 - d] = 1;
    target.strides = contiguous_strides(target.sizes);
    target.update();
    View from = given;
    from.strides = broadcast_strides(given.sizes, given.strides, target.sizes);
    from.sizes = target.sizes;
    from.update();
    copy_view(from, target, device_);
    values_.push_back(tensor);
    outputs_.emplace_back();
  }

  // As pointwise ops take it: a 0-dim tensor of the host.
  void take_number(const void* element, DType dtype) {
    const Tensor tensor = make_tensor(Shape{}, dtype, Device());
    std::memcpy(tensor.impl().view.data, element, element_size(dtype));
    values_.push_back(tensor);
    outputs_.emplace_back();
  }

  void run_step(size_t index) {
    const Step& step = program_.steps[index];
    const int value = program_.input_count() + static_cast<int>(index);
    const void* const given = index < call_.attrs.size() ? call_.attrs[index] : nullptr;
    if (step.kind == Step::Kind::number) {
      alignas(16) char bytes[16];
      write_number(given ? *static_cast<const Scalar*>(given) : step.number, step.dtype, bytes);
      return take_number(bytes, step.dtype);
    }
    std::vector<Tensor>& all = outputs_.emplace_back();
    if (step.kind == Step::Kind::part) {
      values_.push_back(
          outputs_[static_cast<size_t>(step.operands[0])][static_cast<size_t>(step.part)]);
      return;
    }
    all.push_back(make(value, step.dtype));
    values_.push_back(all[0]);
    if (step.kind == Step::Kind::position) {
      check(device_.is_cpu(), "jit: positions cannot be interpreted on ", device_);
      return fill_positions(all[0], step.extent);
    }
    if (step.kind == Step::Kind::columns) return sum_columns(step, all[0]);
    if (step.kind == Step::Kind::random) {
      check(device_.is_cpu(), "jit: random numbers cannot be interpreted on ", device_);
      const View* const in = step.operands.empty() ? nullptr : &view(step.operands[0]);
      return draw(step, given ? given : step.attrs.get(), 0, in, all[0].impl().view);
    }
    if (all[0].numel() == 0) return add_statistics(step, all);
    add_statistics(step, all);
    std::vector<View> in(step.operands.size());
    std::vector<const View*> inputs, outputs;
    for (size_t k = 0; k < step.operands.size(); ++k) {
      if (step.operands[k] >= 0) {
        in[k] = view(step.operands[k]);
        if (k > 0 && sees_weights(step)) in[k] = as_weight(in[k]);
      }
      inputs.push_back(step.operands[k] < 0 ? nullptr : &in[k]);
    }
    for (const Tensor& output : all) outputs.push_back(&output.impl().view);
    const bool fixed = step.kind == Step::Kind::reduce || step.kind == Step::Kind::row;
    const AttrsCopy adapted = fixed ? row_attrs(*step.op, step.attrs.get(), length_) : AttrsCopy();
    run_op(step,
           fixed   ? adapted.get()
           : given ? given
                   : step.attrs.get(),
           inputs, outputs, device_);
  }

  void add_statistics(const Step& step, std::vector<Tensor>& all) const {
    if (step.kind != Step::Kind::row) return;
    const int outputs = find_row_op(*step.op)->outputs;
    const bool wide = program_.dtype_of(step.operands[0]) == kFloat64;
    for (int k = 1; k < outputs; ++k)
      all.push_back(make_tensor(per_row_, wide ? kFloat64 : kFloat32, device_));
  }

  const TileProgram& program_;
  const TileCall& call_;
  const Device device_;
  Shape full_, per_row_, per_column_;
  int64_t length_ = 1;
  std::vector<Tensor> values_;
  std::vector<std::vector<Tensor>> outputs_;  // of row ops
};

}  // namespace

void copy_view(const View& from, const View& to, Device device) {
  const View *const in[] = {&from}, *const out[] = {&to};
  const CastAttrs attrs{to.dtype};
  cast_op.run_kernel(cast_op, {cast_op.name, in, out, device, to.dtype}, &attrs);
}

void write_number(Scalar number, DType dtype, void* to) {
  visit_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
      *static_cast<T*>(to) = T(number.to<float>());
    else
      *static_cast<T*>(to) = number.to<T>();
  });
}

void run_op(const Step& step, const void* attrs, std::span<const View* const> in,
            std::span<const View* const> out, Device device) {
  if (step.kind == Step::Kind::cast) return copy_view(*in[0], *out[0], device);
  const KernelContext context{step.op->name, in, out, device, step.compute_dtype};
  step.op->run_kernel(*step.op, context, attrs);
}

bool sees_weights(const Step& step) {
  if (step.kind != Step::Kind::row) return false;
  for (const auto& [name, value] : step.op->list_attrs(step.attrs.get()))
    if (name == "normalized_shape") return true;
  return false;
}

View as_weight(const View& view) {
  View row = view;
  row.sizes = Shape{view.sizes[view.dim() - 1]};
  row.strides = Strides{view.strides[view.dim() - 1]};
  row.update();
  return row;
}

void interpret(const TileProgram& program, const TileCall& call, Device device) {
  validate(program);
  Interpreter(program, call, device).run();
}

}  // namespace tensora::jit
