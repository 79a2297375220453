#include "tensora/backend/cpu/conv_library.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "tensora/backend/cpu/address_space.h"
#include "tensora/backend/cpu/gemm_installed.h"
#include "tensora/backend/cpu/memory.h"
#include "tensora/backend/cpu/onednn_functions.h"
#include "tensora/base/check.h"
#include "tensora/base/fork.h"
#include "tensora/base/thread_pool.h"

// Note [Convolutions by oneDNN]
// oneDNN's kernels are generated for a shape, and reach the processor's peak for most of them. They
// are called from our pool's threads, each with a part of the work: some images, or some rows of
// one. The parts depend on the shape alone, so the result does not depend on the number of threads.
// A kernel may want its operands in blocks of channels; then they are reordered, the weight once
// per call. What was prepared for a shape is kept. The scratch memory is the caller's, which makes
// a prepared kernel safe to use from several threads at once.

namespace tensora::cpu {
namespace {

using Axes = std::array<LibraryAxis, 3>;

// ---- one part ----------------------------------------------------------------------------------

/// A part of a convolution: `batch` images, and along the first axis the positions that the axes
/// say, with zeros before and behind them.
struct Part {
  int64_t batch = 1;
  Axes axis = {};
  std::array<int64_t, 3> padding_after = {};
};

constexpr int64_t reach(const LibraryAxis& a) { return (a.kernel - 1) * a.dilation + 1; }

int64_t padding_after(const LibraryAxis& a) {
  return std::max<int64_t>(0, (a.small - 1) * a.stride + reach(a) - a.padding - a.large);
}

/// What a prepared part depends on.
using Key = std::array<int64_t, 38>;

Key key_of(const LibraryConvolution& c, const Part& part) {
  Key key{};
  size_t at = 0;
  const auto add = [&](int64_t value) { key[at++] = value; };
  const int64_t numbers[] = {c.transposed,     c.channels_last,  c.spatial, part.batch,
                             c.large_channels, c.small_channels, c.groups,  c.bias != nullptr};
  for (int64_t number : numbers) add(number);
  for (int64_t stride : c.weight_strides) add(stride);
  for (size_t d = 0; d < 3; ++d) {
    const LibraryAxis &a = part.axis[d], &whole = c.axis[d];
    for (int64_t number :
         {a.large, a.small, a.kernel, a.stride, a.padding, a.dilation, part.padding_after[d]})
      add(number);
    add(c.transposed ? whole.small : whole.large);  // the strides of the source
    if (d == 0) add(c.transposed ? whole.large : whole.small);
  }
  return key;
}

/// Strides of N C and `spatial` dims of the whole array.
DnnlDims strides_of(const LibraryConvolution& c, int64_t channels, bool large) {
  DnnlDims strides{};
  int64_t step = c.channels_last ? channels : 1;
  for (int d = c.spatial - 1; d >= 0; --d) {
    strides[static_cast<size_t>(d + 2)] = step;
    const LibraryAxis& a = c.axis[static_cast<size_t>(d)];
    step *= large ? a.large : a.small;
  }
  strides[1] = c.channels_last ? 1 : step;
  strides[0] = c.channels_last ? step : step * channels;
  return strides;
}

struct Array {
  DnnlDims sizes = {}, strides = {};
  int dims = 0;
};

Array array_of(const LibraryConvolution& c, const Part& part, bool large) {
  const int64_t channels = large ? c.large_channels : c.small_channels;
  Array array{{part.batch, channels}, strides_of(c, channels, large), c.spatial + 2};
  for (int d = 0; d < c.spatial; ++d) {
    const LibraryAxis& a = part.axis[static_cast<size_t>(d)];
    array.sizes[static_cast<size_t>(d + 2)] = large ? a.large : a.small;
  }
  return array;
}

Array weight_of(const LibraryConvolution& c) {
  Array array;
  const auto add = [&](int64_t size, int64_t stride) {
    array.sizes[static_cast<size_t>(array.dims)] = size;
    array.strides[static_cast<size_t>(array.dims++)] = stride;
  };
  const int64_t outs = c.small_channels / c.groups;
  if (c.groups > 1) add(c.groups, outs * c.weight_strides[0]);
  add(outs, c.weight_strides[0]);
  add(c.large_channels / c.groups, c.weight_strides[1]);
  for (int d = 0; d < c.spatial; ++d)
    add(c.axis[static_cast<size_t>(d)].kernel, c.weight_strides[static_cast<size_t>(d + 2)]);
  return array;
}

// ---- prepared kernels --------------------------------------------------------------------------

using Owned = std::shared_ptr<void>;

Owned own_description(void* description) {
  return {description, [](void* made) {
            if (made) onednn_functions()->description_destroy(made);
          }};
}

Owned primitive_of(const Owned& description) {
  void* primitive = nullptr;
  if (!description || onednn_functions()->primitive_create(&primitive, description.get()) != 0)
    return nullptr;
  return {primitive, [](void* made) { onednn_functions()->primitive_destroy(made); }};
}

/// Moves an array from one layout to another; does nothing where they are equal.
struct Reorder {
  Owned description, primitive;  // null: the layouts are equal
  size_t bytes = 0;              // of the array as the kernel wants it
  size_t scratch = 0;
};

struct Prepared {
  Owned description, primitive;
  DnnlLayout source, weight, bias, result;                    // the caller's
  const void *source_layout, *weight_layout, *result_layout;  // the kernel's
  Reorder reorder_source, reorder_weight, reorder_result;
  size_t scratch = 0;
};

bool make_reorder(const void* from, const void* to, const void* kernels, Reorder& reorder) {
  const OneDnnFunctions& f = *onednn_functions();
  reorder.bytes = f.layout_size(kernels);
  if (f.layouts_equal(from, to) != 0) return true;
  void* description = nullptr;
  if (f.reorder_describe(&description, from, f.engine, to, f.engine, f.attributes) != 0)
    return false;
  reorder.description = own_description(description);
  reorder.primitive = primitive_of(reorder.description);
  const void* const scratch = f.description_layout(description, kDnnlQueryScratch, 0);
  reorder.scratch = scratch ? f.layout_size(scratch) : 0;
  return reorder.primitive != nullptr;
}

/// Whether the kernel is one of those made for the shape; the others are slower than ours.
bool is_fast(const void* description) {
  const char* name = nullptr;
  const int status =
      onednn_functions()->description_query(description, kDnnlQueryImplementation, 0, &name);
  if (status != 0 || !name) return false;
  const std::string_view text(name);
  const auto has = [&](std::string_view part) { return text.find(part) != text.npos; };
  return (has("jit") || has("brg")) && !has("gemm:");
}

/// Null if oneDNN has nothing fast for it. `in_place`: source and result stay where they are, else
/// the kernel says in which layout it wants them.
std::shared_ptr<const Prepared> prepare(const LibraryConvolution& c, const Part& part,
                                        bool in_place) {
  const OneDnnFunctions& f = *onednn_functions();
  const auto p = std::make_shared<Prepared>();
  const Array large = array_of(c, part, true), small = array_of(c, part, false),
              weight = weight_of(c);
  const auto data = [&](const Array& array) {
    return f.layout(array.dims, array.sizes, in_place ? &array.strides : nullptr);
  };
  DnnlConvolution convolution{.backward_data = c.transposed,
                              .spatial = c.spatial,
                              .large = data(large),
                              .weight = f.layout(weight.dims, weight.sizes, nullptr),
                              .bias = nullptr,
                              .small = data(small)};
  if (c.bias) {
    const DnnlDims size{c.small_channels}, stride{1};
    convolution.bias = p->bias = f.layout(1, size, &stride);
  }
  for (size_t d = 0; d < static_cast<size_t>(c.spatial); ++d) {
    convolution.strides[d] = part.axis[d].stride;
    convolution.dilates[d] = part.axis[d].dilation - 1;
    convolution.padding_before[d] = part.axis[d].padding;
    convolution.padding_after[d] = part.padding_after[d];
  }
  if (!convolution.large || !convolution.weight || !convolution.small) return nullptr;
  p->description = own_description(f.describe(convolution));
  if (!p->description || !is_fast(p->description.get())) return nullptr;
  p->primitive = primitive_of(p->description);
  const Array &from = c.transposed ? small : large, &to = c.transposed ? large : small;
  p->source = f.layout(from.dims, from.sizes, &from.strides);
  p->weight = f.layout(weight.dims, weight.sizes, &weight.strides);
  p->result = f.layout(to.dims, to.sizes, &to.strides);
  if (!p->primitive || !p->source || !p->weight || !p->result) return nullptr;
  const auto wanted = [&](int what) { return f.description_layout(p->description.get(), what, 0); };
  p->source_layout = wanted(c.transposed ? kDnnlQueryDiffTarget : kDnnlQuerySource);
  p->weight_layout = wanted(kDnnlQueryWeight);
  p->result_layout = wanted(c.transposed ? kDnnlQueryDiffSource : kDnnlQueryTarget);
  const void* const scratch = wanted(kDnnlQueryScratch);
  p->scratch = scratch ? f.layout_size(scratch) : 0;
  const bool complete =
      make_reorder(p->source.get(), p->source_layout, p->source_layout, p->reorder_source) &&
      make_reorder(p->weight.get(), p->weight_layout, p->weight_layout, p->reorder_weight) &&
      make_reorder(p->result_layout, p->result.get(), p->result_layout, p->reorder_result);
  return complete ? p : nullptr;
}

/// All shapes so far; a null pointer where oneDNN has nothing.
class Cache {
 public:
  Cache() { hold_over_fork(mutex_); }

  std::shared_ptr<const Prepared> get(const LibraryConvolution& c, const Part& part) {
    const Key key = key_of(c, part);
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(key);
    if (found != known_.end()) return found->second;
    constexpr size_t kMost = 256;
    if (known_.size() >= kMost) known_.clear();
    if (!has_address_space(kOneDnnAddressSpace)) return nullptr;
    const OneDnnOnThisThread scope;  // a kernel is made for the number of threads at this moment
    std::shared_ptr<const Prepared> prepared;
    if (c.channels_last) prepared = prepare(c, part, true);
    if (!prepared) prepared = prepare(c, part, false);
    return known_.emplace(key, std::move(prepared)).first->second;
  }

 private:
  Mutex mutex_;
  std::map<Key, std::shared_ptr<const Prepared>> known_;
};

Cache& cache() {
  static constinit MadeOnce<Cache> all;
  return all.get();
}

// ---- execution ---------------------------------------------------------------------------------

void* stream_of_thread() {
  thread_local void* stream = [] {
    void* made = nullptr;
    check(onednn_functions()->stream_create(&made, onednn_functions()->engine, 1) == 0,
          "convolution: oneDNN could not make a stream");
    return made;
  }();
  return stream;
}

class Block {
 public:
  explicit Block(size_t bytes) : bytes_(bytes), data_(host_allocator().allocate(bytes)) {}
  ~Block() { host_allocator().free(data_, bytes_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  void* data() const { return data_; }

 private:
  size_t bytes_;
  void* data_;
};

/// The arguments of one execution.
class Arguments {
 public:
  ~Arguments() {
    for (int i = 0; i < count_; ++i) onednn_functions()->memory_destroy(args_[i].memory);
  }
  void add(int index, const void* layout, const void* data) {
    void* memory = nullptr;
    const int status = onednn_functions()->memory_create(
        &memory, layout, onednn_functions()->engine, const_cast<void*>(data));
    check(status == 0, "convolution: oneDNN could not use an array (status ", status, ")");
    args_[count_++] = {index, memory};
  }
  void execute(const Owned& primitive) const {
    const int status =
        onednn_functions()->primitive_execute(primitive.get(), stream_of_thread(), count_, args_);
    check(status == 0, "convolution: oneDNN failed (status ", status, ")");
  }

 private:
  DnnlArg args_[6] = {};
  int count_ = 0;
};

const void* scratch_layout(const Owned& description) {
  return onednn_functions()->description_layout(description.get(), kDnnlQueryScratch, 0);
}

void run(const Reorder& reorder, const void* from_layout, const void* from, const void* to_layout,
         void* to) {
  const Block scratch(reorder.scratch);
  Arguments args;
  args.add(kDnnlArgSource, from_layout, from);
  args.add(kDnnlArgTarget, to_layout, to);
  if (reorder.scratch > 0)
    args.add(kDnnlArgScratch, scratch_layout(reorder.description), scratch.data());
  args.execute(reorder.primitive);
}

void run_part(const LibraryConvolution& c, const Prepared& p, const float* source,
              const void* weight, float* result) {
  const OneDnnOnThisThread scope;
  const Block source_block(p.reorder_source.primitive ? p.reorder_source.bytes : 0),
      result_block(p.reorder_result.primitive ? p.reorder_result.bytes : 0), scratch(p.scratch);
  const void* from = source;
  if (p.reorder_source.primitive) {
    run(p.reorder_source, p.source.get(), source, p.source_layout, source_block.data());
    from = source_block.data();
  }
  void* const to = p.reorder_result.primitive ? result_block.data() : result;
  {
    Arguments args;
    args.add(c.transposed ? kDnnlArgDiffTarget : kDnnlArgSource, p.source_layout, from);
    args.add(kDnnlArgWeight, p.weight_layout, weight);
    if (c.bias) args.add(kDnnlArgBias, p.bias.get(), c.bias);
    args.add(c.transposed ? kDnnlArgDiffSource : kDnnlArgTarget, p.result_layout, to);
    if (p.scratch > 0) args.add(kDnnlArgScratch, scratch_layout(p.description), scratch.data());
    args.execute(p.primitive);
  }
  if (p.reorder_result.primitive)
    run(p.reorder_result, p.result_layout, to, p.result.get(), result);
}

// ---- parts -------------------------------------------------------------------------------------

/// Rows [begin, end) of the result's first axis, and what they need of the source.
struct RowPart {
  Part part;
  int64_t source_row = 0, result_row = 0;
};

/// False where the rows cannot be described by zeros before and behind.
bool rows_of(const LibraryConvolution& c, int64_t begin, int64_t end, RowPart& rows) {
  const LibraryAxis& whole = c.axis[0];
  LibraryAxis& a = rows.part.axis[0];
  rows.result_row = begin;
  if (c.transposed) {
    const int64_t first = begin + whole.padding - (reach(whole) - 1);
    const int64_t from = first <= 0 ? 0 : (first + whole.stride - 1) / whole.stride;
    const int64_t to = std::min(whole.small, (end - 1 + whole.padding) / whole.stride + 1);
    a.large = end - begin;
    a.small = to - from;
    a.padding = whole.padding + begin - from * whole.stride;
    rows.source_row = from;
  } else {
    const int64_t from = std::max<int64_t>(0, begin * whole.stride - whole.padding);
    const int64_t to =
        std::min(whole.large, (end - 1) * whole.stride - whole.padding + reach(whole));
    a.small = end - begin;
    a.large = to - from;
    a.padding = std::max<int64_t>(0, whole.padding - begin * whole.stride);
    rows.source_row = from;
  }
  const int64_t after = (a.small - 1) * a.stride + reach(a) - a.padding - a.large;
  rows.part.padding_after[0] = std::max<int64_t>(0, after);
  return a.large > 0 && a.small > 0 && a.padding >= 0 && after > -a.stride;
}

double work_of(const LibraryConvolution& c) {  // multiplications of one image
  double work = static_cast<double>(c.small_channels) * static_cast<double>(c.large_channels) /
                static_cast<double>(c.groups);
  for (int d = 0; d < c.spatial; ++d) {
    const LibraryAxis& a = c.axis[static_cast<size_t>(d)];
    work *= static_cast<double>(a.small * a.kernel);
  }
  return work;
}

constexpr double kPartWork = 2e6;  // multiplications worth a call
constexpr int64_t kParts = 16;     // of one convolution, if its images are fewer

/// How the work is divided: `images` at once, each cut into the rows listed.
struct Division {
  int64_t images = 1;
  std::vector<RowPart> rows;
};

bool divide(const LibraryConvolution& c, Division& division) {
  const double work = work_of(c);
  // A kernel of one element does too little with an array to pay for reordering it.
  bool one_element = true;
  for (const LibraryAxis& a : c.axis) one_element &= a.kernel == 1;
  if (one_element) return false;
  if (work * static_cast<double>(c.batch) < kPartWork / 4) return false;
  Part whole{1, c.axis, {}};
  for (size_t d = 0; d < 3; ++d) whole.padding_after[d] = padding_after(c.axis[d]);
  int64_t images = std::clamp<int64_t>(static_cast<int64_t>(kPartWork / work), 1, c.batch);
  while (c.batch % images != 0) --images;
  whole.batch = division.images = images;
  const int64_t height = c.transposed ? c.axis[0].large : c.axis[0].small;
  int64_t cuts = 1;
  if (images == 1 && c.batch < kParts)
    cuts = std::clamp<int64_t>(static_cast<int64_t>(work / kPartWork), 1,
                               std::min((kParts + c.batch - 1) / c.batch, (height + 3) / 4));
  const int64_t rows = (height + cuts - 1) / cuts;
  for (int64_t begin = 0; begin < height; begin += rows) {
    RowPart& part = division.rows.emplace_back();
    part.part = whole;
    if (cuts > 1 && !rows_of(c, begin, std::min(begin + rows, height), part)) return false;
  }
  return true;
}

}  // namespace

bool convolve_by_library(const LibraryConvolution& c) {
  const OneDnnFunctions* const functions = onednn_functions();
  Division division;
  if (!functions || (c.transposed && c.bias) || !divide(c, division)) return false;
  std::vector<std::shared_ptr<const Prepared>> prepared;
  for (const RowPart& rows : division.rows) {
    prepared.push_back(cache().get(c, rows.part));
    // One weight serves all parts.
    if (!prepared.back() ||
        functions->layouts_equal(prepared[0]->weight_layout, prepared.back()->weight_layout) == 0)
      return false;
  }
  const Prepared& first = *prepared[0];
  const Block weight(first.reorder_weight.primitive ? first.reorder_weight.bytes : 0);
  if (first.reorder_weight.primitive) {
    const OneDnnOnThisThread scope;
    run(first.reorder_weight, first.weight.get(), c.weight, first.weight_layout, weight.data());
  }
  const void* const packed = first.reorder_weight.primitive ? weight.data() : c.weight;
  const DnnlDims large = strides_of(c, c.large_channels, true),
                 small = strides_of(c, c.small_channels, false);
  const DnnlDims &source = c.transposed ? small : large, &result = c.transposed ? large : small;
  const auto parts = static_cast<int64_t>(prepared.size());
  parallel_for(c.batch / division.images * parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t image = task / parts * division.images;
      const auto index = static_cast<size_t>(task % parts);
      const RowPart& rows = division.rows[index];
      run_part(c, *prepared[index], c.source + image * source[0] + rows.source_row * source[2],
               packed, c.result + image * result[0] + rows.result_row * result[2]);
    }
  });
  return true;
}

}  // namespace tensora::cpu
