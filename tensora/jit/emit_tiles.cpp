#include <algorithm>
#include <memory>

#include "tensora/base/thread_pool.h"
#include "tensora/jit/fusion.h"

// Note [Fusing by tiles]
// The program's shape is split into tiles of a few thousand elements. For each tile the ops' own
// kernels run one after the other; intermediate values live in buffers of a tile's size that stay
// in the L1 cache, so only inputs and outputs go through memory. The kernels are the eager ones, on
// the same dtypes, so every intermediate value is rounded as eager ops round it. (Where a tile's
// rows are not whole vectors, the last elements of a row go through the scalar versions of
// functions such as exp, which may differ from the vector ones in the last bit.)

namespace tensora::jit {
namespace {

constexpr int64_t kTileElements = 2048;
constexpr int64_t kTilesPerTask = 8;

/// Splits a shape into tiles that are boxes: a range of one dim with all of the dims inside it.
struct Tiling {
  Shape sizes;
  int dim = 0;          // the dim that is split; dims before it have one index per tile
  int64_t rows = 1;     // of that dim per tile
  int64_t per_dim = 1;  // tiles along it
  int64_t count = 1;    // of all tiles

  explicit Tiling(const Shape& shape) : sizes(shape) {
    int64_t inside = 1;
    dim = sizes.size() - 1;
    while (dim > 0 && inside * sizes[dim] <= kTileElements / 2) inside *= sizes[dim--];
    if (dim < 0) return;
    rows = std::clamp<int64_t>(kTileElements / inside, 1, std::max<int64_t>(sizes[dim], 1));
    per_dim = (sizes[dim] + rows - 1) / rows;
    count = per_dim;
    for (int d = 0; d < dim; ++d) count *= sizes[d];
  }
};

class CpuKernel final : public FusedKernel {
 public:
  explicit CpuKernel(const Program& program) : program_(program) { plan_buffers(); }

  void run(std::span<const View* const> inputs, std::span<const View* const> outputs) override {
    if (program_.sizes.numel() == 0) return;
    // Arrays that are dense with the same order of dims are one long row.
    bool linear = true;
    for (const View* input : inputs)
      linear &= input->numel == 1 || (input->contiguous && input->sizes == program_.sizes);
    for (const View* output : outputs) linear &= output->contiguous;
    const Tiling tiling(linear ? Shape{program_.sizes.numel()} : program_.sizes);
    std::vector<View> in, out;
    for (const View* input : inputs) in.push_back(spread(*input, tiling.sizes));
    for (const View* output : outputs) {
      out.push_back(*output);
      out.back().sizes = tiling.sizes;
      if (linear) out.back().strides = contiguous_strides(tiling.sizes);
    }
    parallel_for(tiling.count, kTilesPerTask,
                 [&](int64_t begin, int64_t end) { run_tiles(tiling, in, out, begin, end); });
  }

 private:
  // Values that are not results share buffers: one is free again after its last reader.
  void plan_buffers() {
    const int inputs = program_.input_count();
    const auto values = program_.dtypes.size();
    std::vector<int> last_use(values, -1);
    for (size_t i = 0; i < program_.instructions.size(); ++i)
      for (int operand : program_.instructions[i].operands)
        last_use[static_cast<size_t>(operand)] = static_cast<int>(i);
    buffer_of_.assign(values, -1);
    std::vector<int> free;
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      const size_t result = static_cast<size_t>(inputs) + i;
      const auto& outputs = program_.outputs;
      if (std::find(outputs.begin(), outputs.end(), static_cast<int>(result)) == outputs.end()) {
        if (free.empty()) free.push_back(buffers_++);
        buffer_of_[result] = free.back();
        free.pop_back();
      }
      for (int operand : program_.instructions[i].operands) {
        const auto id = static_cast<size_t>(operand);
        if (last_use[id] != static_cast<int>(i) || buffer_of_[id] < 0) continue;
        free.push_back(buffer_of_[id]);
        last_use[id] = -1;  // an operand may occur twice
      }
    }
  }

  // An input as a tensor of the program's shape; a single element stays one, because the kernels
  // know best how to repeat it.
  View spread(const View& input, const Shape& sizes) const {
    View view = input;
    const bool single = input.numel == 1;
    const bool same = input.numel == sizes.numel() && sizes != program_.sizes;
    view.strides = single ? Strides{}
                   : same ? contiguous_strides(sizes)
                          : broadcast_strides(input.sizes, input.strides, sizes);
    view.sizes = single ? Shape{} : sizes;
    view.update();
    return view;
  }

  // The part of a tensor that lies in a tile.
  static View part(const Tiling& tiling, const View& whole, int64_t tile) {
    if (whole.dim() == 0) return whole;
    View view = whole;
    int64_t rest = tile / tiling.per_dim;
    const int64_t first = tile % tiling.per_dim * tiling.rows;
    int64_t offset = first * whole.strides[tiling.dim];
    for (int d = tiling.dim - 1; d >= 0; --d) {
      offset += rest % tiling.sizes[d] * whole.strides[d];
      rest /= tiling.sizes[d];
      view.sizes[d] = 1;
    }
    view.sizes[tiling.dim] = std::min(tiling.rows, tiling.sizes[tiling.dim] - first);
    view.data = view.as<char>() + offset * static_cast<int64_t>(element_size(view.dtype));
    view.update();
    return view;
  }

  void run_tiles(const Tiling& tiling, const std::vector<View>& inputs,
                 const std::vector<View>& outputs, int64_t begin, int64_t end) const {
    size_t width = 0;
    for (DType dtype : program_.dtypes) width = std::max(width, element_size(dtype));
    const auto bytes = static_cast<size_t>(std::min(kTileElements, program_.sizes.numel())) * width;
    const auto memory = std::make_unique<std::byte[]>(bytes * static_cast<size_t>(buffers_));
    std::vector<View> values(program_.dtypes.size());
    for (int64_t tile = begin; tile < end; ++tile) {
      for (size_t i = 0; i < inputs.size(); ++i) values[i] = part(tiling, inputs[i], tile);
      Shape sizes;
      for (size_t i = 0; i < outputs.size(); ++i) {
        View& view = values[static_cast<size_t>(program_.outputs[i])];
        view = part(tiling, outputs[i], tile);
        sizes = view.sizes;
      }
      for (size_t id = inputs.size(); id < values.size(); ++id) {
        if (buffer_of_[id] < 0) continue;
        View& view = values[id];
        view.data = memory.get() + bytes * static_cast<size_t>(buffer_of_[id]);
        view.dtype = program_.dtypes[id];
        view.sizes = sizes;
        view.strides = contiguous_strides(sizes);
        view.update();
      }
      execute(values);
    }
  }

  void execute(std::vector<View>& values) const {
    size_t result = static_cast<size_t>(program_.input_count());
    for (const Program::Instruction& instruction : program_.instructions) {
      SmallVector<const View*, 4> in;
      for (int operand : instruction.operands) in.push_back(&values[static_cast<size_t>(operand)]);
      const View* const out = &values[result++];
      const KernelContext context{instruction.op->name,
                                  {in.data(), in.size()},
                                  {&out, 1},
                                  program_.device,
                                  instruction.compute_dtype};
      instruction.op->run_kernel(*instruction.op, context, instruction.attrs.get());
    }
  }

  const Program program_;
  std::vector<int> buffer_of_;  // per value; -1: an input or a result
  int buffers_ = 0;
};

}  // namespace

std::unique_ptr<FusedKernel> emit_cpu(const Program& program) {
  return std::make_unique<CpuKernel>(program);
}

}  // namespace tensora::jit
