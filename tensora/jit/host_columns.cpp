#include "tensora/jit/host_columns.h"

#include <algorithm>

#include "tensora/jit/tile_views.h"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/reduce/sum.h"

namespace tensora::jit {
namespace {

constexpr int64_t kMostChunks = 16;
constexpr int64_t kChunk = 32 * 1024;  // elements worth waking a thread for

View view_of(void* data, DType dtype, const Shape& sizes) {
  View view;
  view.data = data;
  view.dtype = dtype;
  view.sizes = sizes;
  view.strides = contiguous_strides(sizes);
  view.update();
  return view;
}

// Adds contiguous values of a box to sums that lie by `strides`.
template <class T>
void add_values(const T* from, const Shape& box, const Strides& strides, double* to) {
  const int last = box.size() - 1;
  const int64_t count = box[last], step = strides[last];
  int64_t index[kMaxDims] = {}, rows = 1;
  for (int d = 0; d < last; ++d) rows *= box[d];
  for (int64_t row = 0; row < rows; ++row, from += count) {
    if (step == 1)
      for (int64_t i = 0; i < count; ++i) to[i] += static_cast<double>(from[i]);
    else
      for (int64_t i = 0; i < count; ++i) to[i * step] += static_cast<double>(from[i]);
    for (int d = last - 1; d >= 0; --d) {
      to += strides[d];
      if (++index[d] < box[d]) break;
      to -= strides[d] * box[d];
      index[d] = 0;
    }
  }
}

}  // namespace

ColumnSums::ColumnSums(const TileProgram& program, const TileCall& call, const HostSpace& space,
                       int64_t tiles)
    : space_(space), tiles_(tiles) {
  chunks_ = std::clamp<int64_t>(space.sizes.numel() / kChunk, 1, std::min(kMostChunks, tiles));
  for (int d = 0; d < space.sizes.size(); ++d)
    if (space.columns[d] != 0) columns_ *= space.sizes[d];
  for (size_t r = 0; r < program.results.size(); ++r) {
    const int value = program.results[r];
    if (program.extent_of(value) != Extent::column) continue;
    sums_.push_back(
        {value, call.results[r], std::vector<double>(static_cast<size_t>(chunks_ * columns_))});
  }
}

void ColumnSums::add(int value, int64_t chunk, int64_t offset, const View& tile) {
  const auto sum = std::find_if(sums_.begin(), sums_.end(),
                                [&](const Sum& each) { return each.value == value; });
  Shape kept = tile.sizes;
  ReduceAttrs attrs{{}, true, {}};
  for (int d = 0; d < tile.dim(); ++d) {
    if (space_.columns[d] != 0 || tile.sizes[d] == 1) continue;
    kept[d] = 1;
    attrs.dim.push_back(d);
  }
  double* const to = sum->chunks.data() + chunk * columns_ + offset;
  const bool wide = tile.dtype == kFloat64;
  std::vector<double> memory(static_cast<size_t>(kept.numel()));
  const View out = view_of(memory.data(), wide ? kFloat64 : kFloat32, kept);
  if (attrs.dim.empty()) {
    copy_view(tile, out);
  } else {
    const View *const inputs[] = {&tile}, *const outputs[] = {&out};
    sum_op.run_kernel(sum_op, {sum_op.name, inputs, outputs, Device(), out.dtype}, &attrs);
  }
  if (wide)
    add_values(out.as<double>(), kept, space_.columns, to);
  else
    add_values(out.as<float>(), kept, space_.columns, to);
}

void ColumnSums::finish() {
  for (Sum& sum : sums_) {
    for (int64_t chunk = 1; chunk < chunks_; ++chunk)
      for (int64_t i = 0; i < columns_; ++i)
        sum.chunks[static_cast<size_t>(i)] += sum.chunks[static_cast<size_t>(chunk * columns_ + i)];
    copy_view(view_of(sum.chunks.data(), kFloat64, sum.result->sizes), *sum.result);
  }
}

}  // namespace tensora::jit
