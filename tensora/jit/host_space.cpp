#include "tensora/jit/host_space.h"

#include <algorithm>
#include <numeric>

namespace tensora::jit {
namespace {

// Dims of a space with the strides of all arrays.
struct Dims {
  std::vector<int64_t> sizes;
  std::vector<std::vector<int64_t>> strides;  // per dim, per array

  void push(int64_t size, std::vector<int64_t> of_arrays) {
    if (size == 1) return;
    // The dim before it goes on where this one ends?
    if (!sizes.empty()) {
      bool merges = true;
      for (size_t k = 0; k < of_arrays.size(); ++k)
        merges &= strides.back()[k] == of_arrays[k] * size;
      if (merges) {
        sizes.back() *= size;
        strides.back() = std::move(of_arrays);
        return;
      }
    }
    sizes.push_back(size);
    strides.push_back(std::move(of_arrays));
  }
};

// Of the first result with one element per column; null if there is none.
const Shape* sizes_of_columns(const TileProgram& program, const TileCall& call) {
  for (size_t r = 0; r < program.results.size(); ++r)
    if (program.extent_of(program.results[r]) == Extent::column) return &call.results[r]->sizes;
  return nullptr;
}

// Whether every array is a row-major one of the call's sizes, or one number: they are one long run.
bool is_one_run(const TileCall& call) {
  const auto is_whole = [&](const View* view) {
    return view->contiguous && view->sizes == call.sizes;
  };
  return call.sizes.numel() > 1 &&
         std::all_of(call.results.begin(), call.results.end(), is_whole) &&
         std::all_of(call.inputs.begin(), call.inputs.end(),
                     [&](const View* view) { return view->numel == 1 || is_whole(view); });
}

HostSpace run_of(const TileCall& call) {
  HostSpace space;
  space.sizes = {call.sizes.numel()};
  space.strides.reserve(call.inputs.size() + call.results.size());
  for (const View* input : call.inputs) space.strides.push_back({input->numel == 1 ? 0 : 1});
  for (size_t i = 0; i < call.results.size(); ++i) space.strides.push_back({1});
  space.rows_are_one = true;
  return space;
}

}  // namespace

HostSpace make_space(const TileProgram& program, const TileCall& call) {
  if (program.kind == TileProgram::Kind::walk && is_one_run(call) &&
      std::none_of(program.steps.begin(), program.steps.end(), [](const auto& step) {
        return step.kind == TileProgram::Step::Kind::random ||
               step.kind == TileProgram::Step::Kind::columns;
      }))
    return run_of(call);
  const bool rows = program.kind == TileProgram::Kind::rows;
  const int rank = call.sizes.size(), row = rows ? call.row_dims : 0;
  std::vector<Strides> all;
  all.reserve(call.inputs.size() + call.results.size() + 2);
  for (const auto views : {call.inputs, call.results})
    for (const View* view : views)
      all.push_back(broadcast_strides(view->sizes, view->strides, call.sizes));
  const bool numbered =
      std::any_of(program.steps.begin(), program.steps.end(),
                  [](const auto& step) { return step.kind == TileProgram::Step::Kind::random; });
  const Shape* const column_sizes = sizes_of_columns(program, call);
  if (column_sizes) {
    Strides& columns = all.emplace_back(contiguous_strides(*column_sizes));
    for (int d = 0; d < rank; ++d)
      if ((*column_sizes)[d] == 1) columns[d] = 0;
  }
  if (numbered || column_sizes) all.push_back(contiguous_strides(call.sizes));
  // In the order in which the first result lies in memory. Random numbers and sums of columns ask
  // for row-major order.
  const Strides& leading = numbered || column_sizes ? all.back() : all[call.inputs.size()];
  std::vector<int> order(static_cast<size_t>(rank - row));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return std::abs(leading[a]) > std::abs(leading[b]); });
  const auto strides_of = [&](int d) {
    std::vector<int64_t> of_arrays;
    for (const Strides& strides : all) of_arrays.push_back(strides[d]);
    return of_arrays;
  };
  Dims outer, inner;
  for (int d : order) outer.push(call.sizes[d], strides_of(d));
  for (int d = rank - row; d < rank; ++d) inner.push(call.sizes[d], strides_of(d));
  HostSpace space;
  space.rows_are_one = inner.sizes.size() <= 1;
  const std::vector<int64_t> none(all.size(), 0);
  if (outer.sizes.empty()) {
    outer.sizes.push_back(1);
    outer.strides.push_back(none);
  }
  if (rows && inner.sizes.empty()) {
    inner.sizes.push_back(1);
    inner.strides.push_back(none);
  }
  space.strides.resize(all.size());
  for (const Dims* dims : {&outer, &inner})
    for (size_t d = 0; d < dims->sizes.size(); ++d) {
      space.sizes.push_back(dims->sizes[d]);
      for (size_t k = 0; k < all.size(); ++k) space.strides[k].push_back(dims->strides[d][k]);
    }
  if (numbered || column_sizes) {
    space.numbering = space.strides.back();
    space.strides.pop_back();
  }
  if (column_sizes) {
    space.columns = space.strides.back();
    space.strides.pop_back();
  }
  return space;
}

Tiling::Tiling(const Shape& sizes, int64_t wanted, bool rows) {
  int64_t inside = 1;
  dim = sizes.size() - 1;
  if (rows) inside = sizes[dim--];
  while (dim > 0 && inside * sizes[dim] <= wanted / 2) inside *= sizes[dim--];
  per_tile = std::clamp<int64_t>(wanted / std::max<int64_t>(inside, 1), 1,
                                 std::max<int64_t>(sizes[dim], 1));
  // Whole cache lines where the split dim is the innermost.
  if (per_tile >= 64) per_tile = per_tile / 64 * 64;
  per_dim = (sizes[dim] + per_tile - 1) / per_tile;
  count = per_dim;
  for (int d = 0; d < dim; ++d) count *= sizes[d];
  elements = inside * per_tile;
}

Shape Tiling::sizes_of(const Shape& sizes, int64_t tile) const {
  Shape box = sizes;
  for (int d = 0; d < dim; ++d) box[d] = 1;
  const int64_t first = tile % per_dim * per_tile;
  box[dim] = std::min(per_tile, sizes[dim] - first);
  return box;
}

int64_t Tiling::offset_of(const Shape& sizes, const Strides& strides, int64_t tile) const {
  int64_t offset = tile % per_dim * per_tile * strides[dim];
  int64_t rest = tile / per_dim;
  for (int d = dim - 1; d >= 0; --d) {
    offset += rest % sizes[d] * strides[d];
    rest /= sizes[d];
  }
  return offset;
}

}  // namespace tensora::jit
