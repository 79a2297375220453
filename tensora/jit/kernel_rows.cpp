#include "tensora/jit/kernel_recording.h"
#include "tensora/jit/tile_kernel.h"

// Note [Row kernels]
// A kernel that runs once per row, reads and writes whole rows and elements of them, and has no
// loops is a tile program of rows (Note [Tile programs]), the same as a fused group of ops: on the
// CPU it becomes chains of vector code over many rows, on CUDA a kernel that holds rows of any
// length in registers. All other kernels run by blocks.

namespace tensora::jit {
namespace {

using Step = BlockStep;
using RowStep = TileProgram::Step;

class RowLowering {
 public:
  RowLowering(const BlockProgram& program, std::span<const View> arrays)
      : program_(program), arrays_(arrays), number_(program.values.size(), -1) {}

  /// False if the program is not one of rows.
  bool run(Device device) {
    if (program_.grid.size() != 1) return false;
    rows_ = evaluate(program_, program_.grid[0], arrays_, {}, {});
    for (const Step& step : program_.steps)
      if (!fits(step)) return false;
    TileProgram rows{.kind = TileProgram::Kind::rows};
    std::vector<View> inputs, results;
    for (const Step& step : program_.steps)
      if (step.kind == Step::Kind::load) {
        const BlockValue& value = program_.value(step.value);
        // What is loaded twice is one input.
        const auto [known, is_new] = inputs_.try_emplace({step.place.array, value.rank}, -1);
        if (is_new) {
          known->second =
              rows.add(TileProgram::Input{.dtype = value.dtype, .extent = extent_of(value)});
          inputs.push_back(view_of(step.place));
        }
        number_[static_cast<size_t>(step.value)] = known->second;
      }
    for (const Step& step : program_.steps) {
      if (step.kind == Step::Kind::load) continue;
      if (step.kind == Step::Kind::store) {
        rows.results.push_back(number(step.operands[0]));
        results.push_back(view_of(step.place));
        continue;
      }
      number_[static_cast<size_t>(step.value)] = rows.add(converted(step));
    }
    if (!why_not(rows, device).empty()) return false;
    std::vector<const View*> in, out;
    for (const View& view : inputs) in.push_back(&view);
    for (const View& view : results) out.push_back(&view);
    prepare(rows, device)
        .launch({.sizes = {rows_, length_ < 0 ? 1 : length_},
                 .row_dims = 1,
                 .inputs = in,
                 .results = out});
    return true;
  }

 private:
  int number(int value) const { return number_[static_cast<size_t>(value)]; }
  static Extent extent_of(const BlockValue& value) {
    return value.rank == 0 ? Extent::row : Extent::element;
  }

  bool is_row(const BlockRange& range) const {
    return range.single && program_.integer(range.start).kind == BlockInteger::Kind::program;
  }
  bool fits_row(const BlockPlace& place, int dim) {
    const BlockRange& range = place.ranges[static_cast<size_t>(dim)];
    if (!range.whole) return false;
    if (length_ >= 0 && length_ != range.extent) return false;
    length_ = range.extent;
    return true;
  }
  // (row, all), (row), and for loads (all).
  bool fits(const BlockPlace& place, bool written) {
    const View& view = arrays_[static_cast<size_t>(place.array)];
    const bool by_row = !place.ranges.empty() && is_row(place.ranges[0]);
    if (by_row && view.sizes[0] != rows_) return false;
    if (view.dim() == 1) return by_row || (!written && fits_row(place, 0));
    return view.dim() == 2 && by_row && fits_row(place, 1);
  }
  bool fits(const Step& step) {
    if (step.value >= 0) {
      const BlockValue& value = program_.value(step.value);
      if (value.rank > 1 || value.changes) return false;
    }
    switch (step.kind) {
      case Step::Kind::load:
        return fits(step.place, false);
      case Step::Kind::store:
        return stored_.insert(step.place.array).second && fits(step.place, true);
      case Step::Kind::fill:
        return step.place.array < 0 && program_.value(step.value).rank == 0;
      case Step::Kind::position:
        return step.axis == 1 && program_.value(step.operands[0]).rank == 1;
      case Step::Kind::pointwise:
      case Step::Kind::cast:
      case Step::Kind::reduce:
        return true;
      default:
        return false;
    }
  }

  RowStep converted(const Step& step) const {
    const BlockValue& value = program_.value(step.value);
    RowStep result{.op = step.op,
                   .attrs = step.attrs,
                   .dtype = value.dtype,
                   .compute_dtype = step.compute_dtype,
                   .extent = extent_of(value),
                   .number = step.number};
    switch (step.kind) {
      case Step::Kind::fill:
        result.kind = RowStep::Kind::number;
        break;
      case Step::Kind::cast:
        result.kind = RowStep::Kind::cast;
        break;
      case Step::Kind::reduce:
        result.kind = RowStep::Kind::reduce;
        break;
      case Step::Kind::position:
        result.kind = RowStep::Kind::position;
        return result;
      default:
        break;
    }
    for (int operand : step.operands) result.operands.push_back(number(operand));
    return result;
  }

  View view_of(const BlockPlace& place) const {
    View view = arrays_[static_cast<size_t>(place.array)];
    if (view.dim() == 2) return view;
    const int64_t size = view.sizes[0], stride = view.strides[0];
    const bool by_row = is_row(place.ranges[0]);
    view.sizes = by_row ? Shape{size, 1} : Shape{1, size};
    view.strides = by_row ? Strides{stride, 0} : Strides{0, stride};
    view.update();
    return view;
  }

  const BlockProgram& program_;
  std::span<const View> arrays_;
  std::vector<int> number_;                    // of each value in the program of rows
  std::map<std::pair<int, int>, int> inputs_;  // by array and rank
  std::set<int> stored_;
  int64_t rows_ = 0, length_ = -1;
};

}  // namespace

void run_recorded(const BlockProgram& program, std::span<const View> arrays, Device device) {
  if (!RowLowering(program, arrays).run(device)) launch(program, arrays, device);
}

}  // namespace tensora::jit
