#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "tensora/backend/cuda/loops/launch_walk.cuh"
#include "tensora/backend/cuda/loops/tile.cuh"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/jit/cuda_code.h"
#include "tensora/jit/tile_kernel.h"
#include "tensora/jit/tile_text.h"
#include "tensora/jit/tile_views.h"

namespace tensora::jit {
namespace {

using Step = TileProgram::Step;

constexpr size_t kFunctorAlignment = 16;
constexpr int kMaxPacks = 8;  // of a row per thread; more would not stay in registers
constexpr int kMaxRowThreads = 1024;
constexpr int kWarp = 32;

int64_t bytes_of_element(const View& view) {
  return static_cast<int64_t>(element_size(view.dtype));
}

/// A view without the dims of the row.
View without_row(const View& view, const TileCall& call) {
  View outer = view;
  const Strides strides = broadcast_strides(view.sizes, view.strides, call.sizes);
  outer.sizes = Shape{};
  outer.strides = Strides{};
  for (int d = 0; d < call.sizes.size() - call.row_dims; ++d) {
    outer.sizes.push_back(call.sizes[d]);
    outer.strides.push_back(strides[d]);
  }
  if (outer.sizes.empty()) {
    outer.sizes.push_back(1);
    outer.strides.push_back(0);
  }
  outer.update();
  return outer;
}

/// Elements between the elements of a row; false if there is no one number.
bool row_step(const View& view, const TileCall& call, int64_t& step) {
  const Strides strides = broadcast_strides(view.sizes, view.strides, call.sizes);
  step = 0;
  int64_t size = 1;
  bool any = false;
  for (int d = call.sizes.size() - 1; d >= call.sizes.size() - call.row_dims; --d) {
    if (call.sizes[d] == 1) continue;
    if (any && strides[d] != step * size) return false;
    if (!any) step = strides[d];
    size *= call.sizes[d];
    any = true;
  }
  return true;
}

class CudaTile final : public TileKernel {
 public:
  explicit CudaTile(const TileProgram& program)
      : given_(program), printable_(printable(program)), program_(printable_.program) {
    size_t bytes = 0;
    for (const Step& step : program_.steps) {
      offsets_.push_back(bytes);
      if (step.kind != Step::Kind::pointwise) continue;
      bytes +=
          (step.op->attrs_size + kFunctorAlignment - 1) / kFunctorAlignment * kFunctorAlignment;
    }
    functor_bytes_ = bytes + kFunctorAlignment;
    for (const Step& step : program_.steps) {
      AttrsCopy& copy = defaults_.emplace_back();
      if (step.kind == Step::Kind::pointwise)
        step.op->with_attrs(*step.op, {},
                            [&](const void* attrs) { copy = AttrsCopy(*step.op, attrs); });
    }
    for (const TileProgram::Input& input : program_.inputs) arrays_ += !input.host;
    arrays_ += static_cast<int>(program_.results.size());
  }

  void launch(const TileCall& call, Device device) const override {
    if (call.sizes.numel() == 0 && program_.kind == TileProgram::Kind::walk) return;
    std::vector<const View*> views;
    for (const View* result : call.results) views.push_back(result);
    for (size_t i = 0; i < program_.inputs.size(); ++i)
      if (!program_.inputs[i].host)
        views.push_back(call.inputs[static_cast<size_t>(printable_.inputs[i])]);
    if (arrays_ <= 4)
      run<4>(call, views, device);
    else if (arrays_ <= 8)
      run<8>(call, views, device);
    else
      run<cuda::kMaxArrays>(call, views, device);
  }

  std::string describe() const override {
    std::string text = to_string(program_);
    const std::lock_guard lock(mutex_);
    for (const auto& [layout, loaded] : kernels_)
      text += concat("kernel ", layout, ": ", loaded.registers, " registers, ",
                     loaded.spilled_bytes, " bytes spilled\n");
    return text;
  }

 private:
  template <int K>
  void run(const TileCall& call, const std::vector<const View*>& views, Device device) const {
    cuda::TileParams<K> params{};
    write_numbers(call, params.numbers);
    std::vector<char> functors(functor_bytes_);
    std::string defaults(program_.steps.size(), '-');
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      const Step& step = program_.steps[i];
      if (step.kind != Step::Kind::pointwise) continue;
      const int origin = printable_.steps[i];
      const void* const attrs =
          origin < 0 ? step.attrs.get() : call.attrs[static_cast<size_t>(origin)];
      std::memcpy(functors.data() + offsets_[i], attrs, step.op->attrs_size);
      if (attrs_equal(*step.op, attrs, defaults_[i].get())) defaults[i] = 'd';
    }
    if (program_.kind == TileProgram::Kind::walk)
      run_walk(params, views, functors, defaults, device);
    else
      run_rows(params, call, views, functors, defaults, device);
  }

  void write_numbers(const TileCall& call, unsigned long long* numbers) const {
    int next = 0;
    for (size_t i = 0; i < program_.inputs.size(); ++i)
      if (program_.inputs[i].host) {
        const View& view = *call.inputs[static_cast<size_t>(printable_.inputs[i])];
        std::memcpy(&numbers[next++], view.data, element_size(view.dtype));
      }
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      const Step& step = program_.steps[i];
      if (step.kind != Step::Kind::number) continue;
      const int origin = printable_.steps[i];
      const void* const given = origin < 0 ? nullptr : call.attrs[static_cast<size_t>(origin)];
      write_number(given ? *static_cast<const Scalar*>(given) : step.number, step.dtype,
                   &numbers[next++]);
    }
  }

  static bool passes(const std::vector<const View*>& views, Device device) {
    return views[0]->bytes() > cuda::device_info(device.index).l2_bytes;
  }

  // ---- walks -----------------------------------------------------------------------------------

  template <int K>
  void run_walk(cuda::TileParams<K>& params, const std::vector<const View*>& views,
                std::vector<char>& functors, const std::string& defaults, Device device) const {
    cuda::HostWalk walk = cuda::make_walk(views);
    TileLayout layout;
    layout.arrays = K;
    layout.defaults = defaults;
    layout.once = passes(views, device);
    layout.pack = walk_pack(walk, views);
    for (size_t k = 0; k < views.size(); ++k)
      layout.access += walk_access(walk, views, static_cast<int>(k), layout.pack);
    const int64_t tail = layout.pack > 1 ? walk.sizes[0] % layout.pack : 0;
    for (size_t k = 0; k < views.size(); ++k)
      params.steps[k] = static_cast<int>(walk.strides[k][0]);
    if (layout.pack > 1) cuda::group_inner(walk, layout.pack);
    const LoadedKernel loaded = kernel_for(layout, device);
    cuda::each_part(walk, [&](const cuda::HostWalk& part, bool is_last) {
      cuda::fill_walk(params.walk, part);
      for (int k = 0; k < part.arrays; ++k) params.data[k] = part.data[k];
      params.count = static_cast<unsigned>(part.count());
      params.tail = is_last ? static_cast<unsigned>(tail) : 0;
      const unsigned groups = params.count + (params.tail != 0);
      const auto per_block = static_cast<unsigned>(layout.threads * layout.packs);
      void* args[] = {&params, functors.data()};
      cuda::Launch{kName, device.index}.run(loaded.kernel,
                                            dim3((groups + per_block - 1) / per_block),
                                            dim3(static_cast<unsigned>(layout.threads)), args);
    });
  }

  // Elements per access: 16 bytes of the widest array, if the first result can be accessed so.
  int walk_pack(const cuda::HostWalk& walk, const std::vector<const View*>& views) const {
    int64_t widest = 1;
    for (size_t k = 0; k < views.size(); ++k)
      if (walk.strides[k][0] == bytes_of_element(*views[k]))
        widest = std::max(widest, bytes_of_element(*views[k]));
    const int64_t pack = std::min<int64_t>(8, 16 / widest);
    const bool whole = walk.dims == 1 || walk.sizes[0] % pack == 0;
    const bool fits = whole && cuda::has_groups(walk, 0, bytes_of_element(*views[0]), pack);
    return fits ? static_cast<int>(pack) : 1;
  }
  char walk_access(const cuda::HostWalk& walk, const std::vector<const View*>& views, int k,
                   int pack) const {
    const bool result = k < static_cast<int>(program_.results.size());
    const View& view = *views[static_cast<size_t>(k)];
    if (!result && walk.strides[k][0] == 0) return 'r';
    return cuda::has_groups(walk, k, bytes_of_element(view), pack) ? 'v' : 's';
  }

  // ---- rows ------------------------------------------------------------------------------------

  template <int K>
  void run_rows(cuda::TileParams<K>& params, const TileCall& call,
                const std::vector<const View*>& views, std::vector<char>& functors,
                const std::string& defaults, Device device) const {
    int64_t length = 1;
    for (int d = 0; d < call.row_dims; ++d) length *= call.sizes[call.sizes.size() - 1 - d];
    std::vector<View> outer;
    std::vector<int64_t> steps(views.size());
    bool one_step = true;
    for (size_t k = 0; k < views.size(); ++k) {
      one_step &= row_step(*views[k], call, steps[k]);
      outer.push_back(without_row(*views[k], call));
    }
    std::vector<const View*> walked;
    for (const View& view : outer) walked.push_back(&view);
    cuda::HostWalk walk = cuda::make_walk(walked);
    TileLayout layout;
    layout.arrays = K;
    layout.defaults = defaults;
    layout.once = passes(views, device);
    layout.pack = row_pack(walk, views, steps, length);
    if (!one_step || !place_rows(layout, length)) return interpret(given_, call, device);
    int weights = 0, held = 0;
    for (size_t k = 0; k < views.size(); ++k) {
      const char access = row_access(walk, views, steps, static_cast<int>(k));
      layout.access += access;
      weights += access == 'w';
      held += access == 'v' && k >= program_.results.size();
      params.steps[k] = static_cast<int>(steps[k] * bytes_of_element(*views[k]));
    }
    const int items = layout.packs * layout.pack;
    // Many rows of many elements would not stay in registers.
    if (items > 16 && layout.group > kWarp && held + weights > 1)
      return interpret(given_, call, device);
    // Weights are kept in registers beside 32-bit rows, and where they are few. Rows of 16 bits
    // need more threads than that leaves room for: they read weights again, from the cache.
    const bool keeps_weights = weights > 0 && (layout.pack <= 4 || weights * items <= 16);
    if (!keeps_weights) std::replace(layout.access.begin(), layout.access.end(), 'w', 'm');
    layout.full = length == int64_t{items} * layout.group;
    params.length = static_cast<int>(length);
    const LoadedKernel loaded = kernel_for(layout, device);
    const int per_block = layout.threads / layout.group;
    // With weights in registers a block takes many rows.
    const unsigned most = static_cast<unsigned>(cuda::device_info(device.index).multiprocessors *
                                                2048 / layout.threads);
    cuda::each_part(walk, [&](const cuda::HostWalk& part, bool) {
      cuda::fill_walk(params.walk, part);
      for (int k = 0; k < part.arrays; ++k) params.data[k] = part.data[k];
      params.count = static_cast<unsigned>(part.count());
      unsigned blocks =
          (params.count + static_cast<unsigned>(per_block) - 1) / static_cast<unsigned>(per_block);
      if (keeps_weights) blocks = std::min(blocks, most);
      void* args[] = {&params, functors.data()};
      cuda::Launch{kName, device.index}.run(loaded.kernel, dim3(blocks),
                                            dim3(static_cast<unsigned>(layout.threads)), args);
    });
  }

  int row_pack(const cuda::HostWalk& walk, const std::vector<const View*>& views,
               const std::vector<int64_t>& steps, int64_t length) const {
    int64_t widest = 1;
    for (size_t k = 0; k < views.size(); ++k)
      if (steps[k] == 1 && !is_repeated(walk, static_cast<int>(k)))
        widest = std::max(widest, bytes_of_element(*views[k]));
    const int64_t pack = std::min<int64_t>(8, 16 / widest);
    if (length % pack != 0) return 1;
    for (size_t k = 0; k < views.size(); ++k) {
      if (steps[k] != 1) continue;
      const int64_t alignment = std::min<int64_t>(16, pack * bytes_of_element(*views[k]));
      if (reinterpret_cast<uintptr_t>(walk.data[k]) % static_cast<uintptr_t>(alignment) != 0)
        return 1;
      for (int d = 0; d < walk.dims; ++d)
        if (walk.sizes[d] > 1 && walk.strides[k][d] % alignment != 0) return 1;
    }
    return static_cast<int>(pack);
  }

  // A warp per row where four packs per thread are enough, else a block.
  static bool place_rows(TileLayout& layout, int64_t length) {
    const int64_t packs = std::max<int64_t>(1, (length + layout.pack - 1) / layout.pack);
    layout.group = kWarp;
    layout.threads = 256;
    const int64_t held = 32 / layout.pack;  // packs that make up 32 elements
    if (packs <= kWarp * std::max<int64_t>(1, std::min<int64_t>(held, kMaxPacks))) {
      layout.packs = static_cast<int>((packs + kWarp - 1) / kWarp);
      return true;
    }
    for (int threads = 128; threads <= kMaxRowThreads; threads *= 2) {
      layout.group = layout.threads = threads;
      layout.packs = static_cast<int>((packs + threads - 1) / threads);
      const int items = layout.packs * layout.pack;
      if (items <= 16 || (threads == kMaxRowThreads && items <= 32)) return true;
    }
    return false;
  }

  char row_access(const cuda::HostWalk& walk, const std::vector<const View*>& views,
                  const std::vector<int64_t>& steps, int k) const {
    const auto index = static_cast<size_t>(k);
    const bool result = index < program_.results.size();
    const int value = result ? program_.results[index] : input_of_array(k);
    if (program_.extent_of(value) == Extent::row) return 'r';
    if (steps[index] != 1) return 's';
    return !result && is_repeated(walk, k) ? 'w' : 'v';
  }
  // The same for every row.
  static bool is_repeated(const cuda::HostWalk& walk, int k) {
    bool repeated = walk.count() > 1;
    for (int d = 0; d < walk.dims; ++d) repeated &= walk.sizes[d] == 1 || walk.strides[k][d] == 0;
    return repeated;
  }
  int input_of_array(int array) const {
    int at = static_cast<int>(program_.results.size());
    for (int i = 0; i < program_.input_count(); ++i) {
      if (program_.inputs[static_cast<size_t>(i)].host) continue;
      if (at++ == array) return i;
    }
    fail_internal("jit: there is no array ", array);
  }

  LoadedKernel kernel_for(const TileLayout& layout, Device device) const {
    const std::string key = concat(device.index, " ", layout.key());
    {
      const std::lock_guard lock(mutex_);
      const auto found = kernels_.find(key);
      if (found != kernels_.end()) return found->second;
    }
    const LoadedKernel loaded = load_kernel(cuda_text(program_, layout), device.index);
    const std::lock_guard lock(mutex_);
    return kernels_.emplace(key, loaded).first->second;
  }

  static constexpr std::string_view kName = "a fused kernel";

  const TileProgram given_;
  const PrintableProgram printable_;
  const TileProgram& program_;
  std::vector<size_t> offsets_;  // of the steps' functors
  std::vector<AttrsCopy> defaults_;
  size_t functor_bytes_ = 0;
  int arrays_ = 0;
  mutable std::mutex mutex_;
  mutable std::map<std::string, LoadedKernel> kernels_;  // by device and layout
};

std::string cuda_why_not(const TileProgram& program) {
  if (std::string reason = why_not_printable(program); !reason.empty()) return reason;
  size_t arrays = program.results.size();
  for (const TileProgram::Input& input : program.inputs) arrays += !input.host;
  if (arrays > cuda::kMaxArrays)
    return concat("it has ", arrays, " arrays; a kernel takes ", cuda::kMaxArrays);
  const int numbers = number_count(printable(program).program);
  if (numbers > cuda::kMaxTileNumbers)
    return concat("it has ", numbers, " numbers; a kernel takes ", cuda::kMaxTileNumbers);
  return {};
}

}  // namespace

void register_tile_cuda() {
  set_tile_backend(DeviceType::cuda, {.why_not = cuda_why_not,
                                      .make = [](const TileProgram& program,
                                                 Device) -> std::shared_ptr<const TileKernel> {
                                        return std::make_shared<CudaTile>(program);
                                      }});
}

}  // namespace tensora::jit
