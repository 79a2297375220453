#include "tensora/jit/host_chain.h"

#include <algorithm>
#include <cstring>

#include "tensora/base/kept_by_thread.h"

namespace tensora::jit {
namespace {

// A thread's blocks, for its next chain: calls on small arrays would mostly allocate.
constexpr size_t kMostSpareFloats = size_t{1} << 18;
struct SpareBlocks {
  AlignedMemory<float> memory;
  size_t size = 0;
};
thread_local constinit KeptByThread<SpareBlocks> spare_blocks;

const cpu::ChainFunctions& functions() { return cpu::chain_functions(); }

int64_t bytes_of_element(DType dtype) { return static_cast<int64_t>(element_size(dtype)); }

// Elements of a box in its order, between an array and contiguous floats.
template <class Run>
void each_row(const Shape& sizes, int first_dim, const Strides& strides, Run&& run) {
  const int last = sizes.size() - 1;
  int64_t index[kMaxDims] = {};
  int64_t offset = 0, rows = 1;
  for (int d = first_dim; d < last; ++d) rows *= sizes[d];
  for (int64_t row = 0; row < rows; ++row) {
    run(row, offset);
    for (int d = last - 1; d >= first_dim; --d) {
      offset += strides[d];
      if (++index[d] < sizes[d]) break;
      offset -= strides[d] * sizes[d];
      index[d] = 0;
    }
  }
}

bool is_repeated(const Strides& strides, const Shape& sizes, int first_dim) {
  for (int d = first_dim; d < sizes.size(); ++d)
    if (sizes[d] > 1 && strides[d] != 0) return false;
  return true;
}

bool is_linear(const Strides& strides, const Shape& sizes, int first_dim) {
  int64_t expected = 1;
  for (int d = sizes.size() - 1; d >= first_dim; --d) {
    if (sizes[d] > 1 && strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

}  // namespace

ChainRunner::ChainRunner(const ChainPlan& plan, std::span<const void* const> attrs)
    : plan_(plan),
      uses_(plan.externals.size()),
      loaded_(plan.externals.size(), true),
      access_(plan.externals.size()),
      places_(plan.externals.size()),
      converted_(plan.externals.size()) {
  const auto strip = static_cast<size_t>(functions().strip);
  // Apart by other than multiples of 4096 bytes, where a load would wait for a store nearby.
  block_floats_ = static_cast<size_t>(std::max(kBlock, kFlatTile)) + strip + 16;
  slots_ = AlignedMemory<float>(static_cast<size_t>(plan.slots) * strip);
  splats_ = AlignedMemory<float>(plan.externals.size() * strip);
  steps_.reserve(plan.items.size());
  for (size_t i = 0; i < plan.items.size(); ++i) {
    const ChainPlan::Item& item = plan.items[i];
    cpu::ChainStep step{.run = item.code};
    if (item.step >= 0) {
      step.functor = attrs[static_cast<size_t>(item.step)];
      step.run = functions().code_for(item.code, step.functor);
    }
    for (int k = 0; k < cpu::kChainOperands; ++k) {
      const ChainPlace& place = item.memory[static_cast<size_t>(k)];
      if (place.kind == ChainPlace::Kind::slot)
        step.memory[k] =
            reinterpret_cast<char*>(slots_.get() + static_cast<size_t>(place.index) * strip);
      if (place.kind != ChainPlace::Kind::external) continue;
      const auto external = static_cast<size_t>(place.index);
      uses_[external].push_back({i, k});
      if (item.step >= 0) loaded_[external] = false;
    }
    steps_.push_back(step);
  }
}

void ChainRunner::set_attrs(std::span<const void* const> attrs) {
  for (size_t i = 0; i < plan_.items.size(); ++i)
    if (plan_.items[i].step >= 0)
      steps_[i].functor = attrs[static_cast<size_t>(plan_.items[i].step)];
}

ChainRunner::~ChainRunner() {
  const size_t floats = uses_.size() * block_floats_;
  if (!blocks_.get() || floats > kMostSpareFloats) return;
  SpareBlocks& spare = spare_blocks.get();
  if (floats >= spare.size) spare = {std::move(blocks_), floats};
}

// Most chains read and write their arrays where they lie.
float* ChainRunner::block(size_t external) {
  if (!blocks_.get()) {
    const size_t floats = uses_.size() * block_floats_;
    SpareBlocks& spare = spare_blocks.get();
    if (std::exchange(spare.size, 0) >= floats)
      blocks_ = std::move(spare.memory);
    else
      blocks_ = AlignedMemory<float>(floats);
  }
  return blocks_.get() + external * block_floats_;
}

ChainRunner::Access ChainRunner::access_of(size_t external, const TileArray& array,
                                           int64_t stride) const {
  if (stride == 0 && !plan_.externals[external].write) return Access::repeated;
  if (stride != 1) return Access::block;
  if (array.dtype == kFloat32) return Access::direct;
  return loaded_[external] && functions().load_narrow(array.dtype) ? Access::narrow : Access::block;
}

void ChainRunner::set_access(size_t external, Access access, DType dtype) {
  access_[external] = access;
  const bool narrow = access == Access::narrow;
  for (const Use& use : uses_[external]) {
    cpu::ChainStep& step = steps_[use.item];
    step.mask[use.operand] = access == Access::repeated ? 0 : -1;
    if (plan_.items[use.item].store >= 0)
      step.run = narrow ? functions().store_narrow(dtype) : functions().store;
    else if (plan_.items[use.item].step < 0)
      step.run = narrow ? functions().load_narrow(dtype) : functions().load;
  }
}

// Of a result that is stored as floats where it lies.
void ChainRunner::set_stream(size_t external, bool stream) {
  for (const Use& use : uses_[external])
    steps_[use.item].run = stream ? functions().stream : functions().store;
  streamed_ |= stream;
}

void ChainRunner::run(const Shape& sizes, std::span<const TileArray> arrays) {
  int first_dim = 0;
  while (first_dim + 1 < sizes.size() && sizes[first_dim] == 1) ++first_dim;
  const int last = sizes.size() - 1;
  streamed_ = false;
  bool panels = false;
  for (size_t k = 0; k < arrays.size(); ++k)
    panels |= !plan_.externals[k].write && panel_rows(arrays[k], sizes) > 0;
  if (sizes[last] < kFlatRow && first_dim < last)
    run_flat(sizes, arrays, first_dim);
  else if (panels)
    run_panels(sizes, arrays);
  else
    run_rows(sizes, arrays, first_dim);
  if (streamed_) functions().finish_streaming();
}

int64_t ChainRunner::panel_rows(const TileArray& array, const Shape& sizes) {
  const int last = sizes.size() - 1;
  if (last < 1 || sizes[last - 1] < 4 || sizes[last] < kFlatRow) return 0;
  if (array.strides[last - 1] != 1 || array.strides[last] == 0 || array.strides[last] == 1)
    return 0;
  return kPanelBytes / bytes_of_element(array.dtype);
}

void ChainRunner::run_rows(const Shape& sizes, std::span<const TileArray> arrays, int first_dim) {
  const int last = sizes.size() - 1;
  std::vector<int64_t> strides(arrays.size());
  bool converts = false;
  for (size_t k = 0; k < arrays.size(); ++k) {
    strides[k] = arrays[k].strides[last];
    set_access(k, access_of(k, arrays[k], strides[k]), arrays[k].dtype);
    converts |= access_[k] == Access::block;
  }
  std::vector<int64_t> offsets(arrays.size(), 0);
  int64_t index[kMaxDims] = {};
  int64_t rows = 1;
  for (int d = first_dim; d < last; ++d) rows *= sizes[d];
  // What is converted stays in blocks, and serves all rows if it is the same for them. Without
  // anything to convert, one part is as good as many.
  const int64_t part = converts ? kBlock : sizes[last];
  for (int64_t start = 0; start < sizes[last]; start += part) {
    std::fill(converted_.begin(), converted_.end(), nullptr);
    for (int64_t row = 0; row < rows; ++row) {
      for (size_t k = 0; k < arrays.size(); ++k)
        places_[k] =
            arrays[k].data + (offsets[k] + start * strides[k]) * bytes_of_element(arrays[k].dtype);
      run_part(arrays, strides.data(), std::min(part, sizes[last] - start));
      for (int d = last - 1; d >= first_dim; --d) {
        const bool more = ++index[d] < sizes[d];
        for (size_t k = 0; k < arrays.size(); ++k)
          offsets[k] += arrays[k].strides[d] * (more ? 1 : 1 - sizes[d]);
        if (more) break;
        index[d] = 0;
      }
    }
  }
}

// Transposed operands: a box of some rows by some columns at a time. Every line of the cache that
// one of its columns touches is then used as a whole.
void ChainRunner::run_panels(const Shape& sizes, std::span<const TileArray> arrays) {
  const int last = sizes.size() - 1;
  constexpr int64_t kPanel = kPanelBytes * (kPanelColumns + 16);
  if (!panels_.get()) panels_ = AlignedMemory<char>(arrays.size() * static_cast<size_t>(kPanel));
  int64_t step = kPanelBytes;
  for (size_t k = 0; k < arrays.size(); ++k)
    if (const int64_t rows = panel_rows(arrays[k], sizes); rows > 0 && !plan_.externals[k].write)
      step = std::min(step, rows);
  Shape outer = sizes, box = sizes;
  outer[last - 1] = outer[last] = 1;
  for (int d = 0; d < last - 1; ++d) box[d] = 1;
  std::vector<TileArray> moved(arrays.begin(), arrays.end());
  int64_t index[kMaxDims] = {};
  for (int64_t count = outer.numel(); count > 0; --count) {
    for (int64_t column = 0; column < sizes[last]; column += kPanelColumns)
      for (int64_t row = 0; row < sizes[last - 1]; row += step) {
        box[last - 1] = std::min(step, sizes[last - 1] - row);
        box[last] = std::min(kPanelColumns, sizes[last] - column);
        for (size_t k = 0; k < arrays.size(); ++k) {
          const TileArray& array = arrays[k];
          int64_t offset = row * array.strides[last - 1] + column * array.strides[last];
          for (int d = 0; d < last - 1; ++d) offset += index[d] * array.strides[d];
          moved[k] = array;
          moved[k].data += offset * bytes_of_element(array.dtype);
          if (plan_.externals[k].write || panel_rows(array, sizes) == 0) continue;
          char* const panel = panels_.get() + static_cast<int64_t>(k) * kPanel;
          const int64_t width = kPanelColumns + 16;
          functions().transpose(bytes_of_element(array.dtype), moved[k].data, array.strides[last],
                                box[last - 1], box[last], panel, width);
          moved[k].data = panel;
          moved[k].strides[last] = 1;
          moved[k].strides[last - 1] = width;
        }
        run_rows(box, moved, last - 1);
      }
    for (int d = last - 2; d >= 0 && ++index[d] == sizes[d]; --d) index[d] = 0;
  }
}

void ChainRunner::run_part(std::span<const TileArray> arrays, const int64_t* strides, int64_t n) {
  const int64_t strip = functions().strip, whole = n / strip * strip;
  for (size_t k = 0; k < arrays.size(); ++k) {
    const bool write = plan_.externals[k].write;
    if (is_placed(k)) {
      bind(k, places_[k]);
      if (write && access_[k] == Access::direct)
        set_stream(k, arrays[k].stream && reinterpret_cast<uintptr_t>(places_[k]) % 64 == 0);
      continue;
    }
    const bool repeated = access_[k] == Access::repeated;
    float* const floats = repeated ? splats_.get() + k * static_cast<size_t>(strip) : block(k);
    bind(k, floats);
    if (write || converted_[k] == places_[k]) continue;
    functions().load_of(arrays[k].dtype)(places_[k], strides[k], repeated ? strip : n, floats);
    converted_[k] = places_[k];
  }
  if (whole > 0) functions().run(steps_.data(), whole / strip);
  if (n > whole) run_rest(arrays, whole, n - whole);
  for (size_t k = 0; k < arrays.size(); ++k)
    if (plan_.externals[k].write && access_[k] == Access::block)
      functions().store_of(arrays[k].dtype)(block(k), places_[k], strides[k], n);
}

// The last elements, as a strip of their own that may be read and written beyond its end.
void ChainRunner::run_rest(std::span<const TileArray> arrays, int64_t whole, int64_t rest) {
  for (size_t k = 0; k < arrays.size(); ++k) {
    if (access_[k] == Access::repeated) continue;
    if (access_[k] == Access::block) {
      bind(k, block(k) + whole);
      continue;
    }
    const int64_t element = bytes_of_element(arrays[k].dtype);
    bind(k, block(k));
    if (!plan_.externals[k].write)
      std::memcpy(block(k), places_[k] + whole * element, static_cast<size_t>(rest * element));
    else if (access_[k] == Access::direct)
      set_stream(k, false);
  }
  functions().run(steps_.data(), 1);
  for (size_t k = 0; k < arrays.size(); ++k) {
    if (!plan_.externals[k].write || !is_placed(k)) continue;
    const int64_t element = bytes_of_element(arrays[k].dtype);
    std::memcpy(places_[k] + whole * element, block(k), static_cast<size_t>(rest * element));
  }
}

// Short rows: what is not contiguous is gathered, so that strips are full.
void ChainRunner::run_flat(const Shape& sizes, std::span<const TileArray> arrays, int first_dim) {
  const int last = sizes.size() - 1;
  const int64_t n = sizes[last], total = sizes.numel(), strip = functions().strip;
  // Pieces of whole rows.
  if (total > kFlatTile) {
    const int64_t inside = total / sizes[first_dim];
    const int64_t step = std::max<int64_t>(1, kFlatTile / inside);
    Shape part = sizes;
    std::vector<TileArray> moved(arrays.begin(), arrays.end());
    for (int64_t i = 0; i < sizes[first_dim]; i += step) {
      part[first_dim] = std::min(step, sizes[first_dim] - i);
      for (size_t k = 0; k < arrays.size(); ++k)
        moved[k].data =
            arrays[k].data + i * arrays[k].strides[first_dim] * bytes_of_element(arrays[k].dtype);
      run(part, moved);
    }
    return;
  }
  for (size_t k = 0; k < arrays.size(); ++k) {
    const TileArray& array = arrays[k];
    const bool repeated = !plan_.externals[k].write && is_repeated(array.strides, sizes, first_dim);
    set_access(k, repeated ? Access::repeated : Access::block, array.dtype);
    if (plan_.externals[k].write) {
      bind(k, block(k));
      continue;
    }
    const auto load = functions().load_of(array.dtype);
    if (repeated) {
      float* const splat = splats_.get() + k * static_cast<size_t>(strip);
      load(array.data, 0, strip, splat);
      bind(k, splat);
      continue;
    }
    bind(k, block(k));
    if (is_linear(array.strides, sizes, first_dim))
      load(array.data, 1, total, block(k));
    else
      each_row(sizes, first_dim, array.strides, [&](int64_t row, int64_t offset) {
        load(array.data + offset * bytes_of_element(array.dtype), array.strides[last], n,
             block(k) + row * n);
      });
  }
  functions().run(steps_.data(), (total + strip - 1) / strip);
  for (size_t k = 0; k < arrays.size(); ++k) {
    if (!plan_.externals[k].write) continue;
    const TileArray& array = arrays[k];
    const auto store = functions().store_of(array.dtype);
    if (is_linear(array.strides, sizes, first_dim))
      store(block(k), array.data, 1, total);
    else
      each_row(sizes, first_dim, array.strides, [&](int64_t row, int64_t offset) {
        store(block(k) + row * n, array.data + offset * bytes_of_element(array.dtype),
              array.strides[last], n);
      });
  }
}

}  // namespace tensora::jit
