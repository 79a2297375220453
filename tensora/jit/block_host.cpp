#include <algorithm>
#include <memory>
#include <mutex>

#include "tensora/base/thread_pool.h"
#include "tensora/core/determinism.h"
#include "tensora/jit/block_program.h"
#include "tensora/jit/row_ops.h"
#include "tensora/jit/tile_views.h"
#include "tensora/ops/matrix/matmul.h"
#include "tensora/ops/pointwise/all.h"
#include "tensora/ops/random/random_values.h"

// Note [Block programs on the CPU]
// A tile is a view of exactly the elements that exist: nothing is masked. Loads are views of the
// array itself unless something may change it. Steps are the library's own kernels on these views,
// which are vectorized; programs run on the threads of the pool, each with buffers of its own.

namespace tensora::jit {
namespace {

using Step = BlockStep;

constexpr size_t kAlignment = 64;

View narrowed(const View& view, int64_t rows, int64_t columns) {
  View result = view;
  result.sizes = {rows, columns};
  result.update();
  return result;
}

/// What all programs of a launch share.
struct HostLaunch {
  HostLaunch(const BlockProgram& of, std::span<const View> with) : program(of), arrays(with) {
    op_registry();  // the CPU's kernels are registered at the first use
    uses.resize(program.values.size());
    for (const Step& step : program.steps)
      for (int operand : step.operands) ++uses[static_cast<size_t>(operand)];
    for (size_t value = 0; value < program.values.size(); ++value) {
      const BlockValue& tile = program.values[value];
      buffer_at.push_back(bytes);
      const auto elements = static_cast<size_t>(std::max<int64_t>(tile.rows * tile.columns, 1));
      bytes += (elements * element_size(tile.dtype) + kAlignment - 1) / kAlignment * kAlignment;
    }
    is_written.resize(arrays.size());
    for (size_t i = 0; i < arrays.size(); ++i)  // also the same memory under another number
      for (int array : program.written)
        if (arrays[i].data == arrays[static_cast<size_t>(array)].data) is_written[i] = true;
    for (const Step& step : program.steps) {
      AttrsCopy& copy = adapted.emplace_back();
      if (step.kind == Step::Kind::reduce) copy = row_attrs(*step.op, step.attrs.get(), 1);
    }
  }

  const BlockProgram& program;
  std::span<const View> arrays;
  std::vector<int> uses;
  std::vector<size_t> buffer_at;
  size_t bytes = 0;
  std::vector<bool> is_written;
  std::vector<AttrsCopy> adapted;  // of reductions, per step
  mutable std::mutex adding;
};

/// Runs programs one after the other.
class HostBlocks {
 public:
  explicit HostBlocks(const HostLaunch& launch)
      : launch_(launch),
        program_(launch.program),
        memory_(std::make_unique_for_overwrite<std::byte[]>(launch.bytes + kAlignment)),
        values_(program_.values.size()),
        loops_(program_.steps.size()) {
    auto at = reinterpret_cast<uintptr_t>(memory_.get());
    start_ = memory_.get() + (kAlignment - at % kAlignment) % kAlignment;
  }

  void run(std::span<const int64_t> programs) {
    programs_ = programs;
    run_steps(0, program_.steps.size());
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail("kernel ", program_.name, ": ", parts...);
  }
  int64_t value_of(int integer) const {
    return evaluate(program_, integer, launch_.arrays, programs_, loops_);
  }
  View& tile(int value) { return values_[static_cast<size_t>(value)]; }

  /// Memory of a value for that many rows and columns. What `set` changes keeps room for all.
  View buffer(int value, int64_t rows, int64_t columns) const {
    const BlockValue& tile = program_.value(value);
    View view;
    view.data = start_ + launch_.buffer_at[static_cast<size_t>(value)];
    view.dtype = tile.dtype;
    view.sizes = {rows, columns};
    view.strides = {tile.changes ? tile.columns : columns, 1};
    view.update();
    return view;
  }

  /// The elements of a place that exist.
  View view_of(const BlockPlace& place) const {
    const View& array = launch_.arrays[static_cast<size_t>(place.array)];
    View view;
    view.dtype = array.dtype;
    int64_t offset = 0;
    Shape sizes;
    Strides strides;
    for (int d = 0; d < array.dim(); ++d) {
      const BlockRange& range = place.ranges[static_cast<size_t>(d)];
      const int64_t start = value_of(range.start), size = array.sizes[d];
      if (start < 0 || (range.single && start >= size))
        refuse("argument ", place.array, ", dim ", d, ": ", range.single ? "index " : "start ",
               start, " is out of range for size ", size);
      int64_t limit = size;
      if (range.limit >= 0) limit = std::min(limit, value_of(range.limit));
      const int64_t count = std::clamp<int64_t>(limit - start, 0, range.extent);
      if (count > 0) offset += start * array.strides[d];
      if (range.single) continue;
      sizes.push_back(count);
      strides.push_back(array.strides[d]);
    }
    while (sizes.size() < 2) {
      sizes.insert(0, 1);
      strides.insert(0, 0);
    }
    view.data =
        static_cast<char*>(array.data) + offset * static_cast<int64_t>(element_size(view.dtype));
    view.sizes = sizes;
    view.strides = strides;
    view.update();
    return view;
  }

  void run_steps(size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const Step& step = program_.steps[i];
      if (step.kind == Step::Kind::loop) {
        run_loop(i, step);
        i = static_cast<size_t>(step.partner);
      } else if (step.kind == Step::Kind::pointwise && i + 1 < end &&
                 becomes(step, program_.steps[i + 1])) {
        run_pointwise(step, program_.steps[++i].operands[0]);
      } else {
        run_step(i, step);
      }
    }
  }
  // Whether a `set` takes a result that nothing else reads: it is computed in place.
  bool becomes(const Step& step, const Step& next) const {
    return next.kind == Step::Kind::set && next.operands[1] == step.value &&
           launch_.uses[static_cast<size_t>(step.value)] == 1 &&
           program_.value(step.value).rows == program_.value(next.operands[0]).rows &&
           program_.value(step.value).columns == program_.value(next.operands[0]).columns;
  }

  void run_loop(size_t at, const Step& step) {
    const int64_t end = value_of(step.end), by = value_of(step.by);
    if (by < 1) refuse("a loop's step is at least 1, got ", by);
    for (int64_t i = value_of(step.begin); i < end; i += by) {
      loops_[at] = i;
      run_steps(at + 1, static_cast<size_t>(step.partner));
    }
  }

  void run_step(size_t at, const Step& step) {
    switch (step.kind) {
      case Step::Kind::load: {
        const View view = view_of(step.place);
        const bool stays = !launch_.is_written[static_cast<size_t>(step.place.array)] &&
                           !program_.value(step.value).changes;
        return stays ? hold(step.value, view) : keep(step.value, view);
      }
      case Step::Kind::store:
        return copy(tile(step.operands[0]), view_of(step.place));
      case Step::Kind::atomic_add:
        return add_to(view_of(step.place), tile(step.operands[0]));
      case Step::Kind::pointwise:
        return run_pointwise(step, -1);
      case Step::Kind::cast:
        return keep(step.value, tile(step.operands[0]));
      case Step::Kind::reduce:
        return run_reduce(step, launch_.adapted[at].get());
      case Step::Kind::dot:
        return run_dot(step);
      case Step::Kind::transpose: {
        View view = tile(step.operands[0]);
        std::swap(view.sizes[0], view.sizes[1]);
        std::swap(view.strides[0], view.strides[1]);
        view.update();
        const bool stays =
            !program_.value(step.operands[0]).changes && !program_.value(step.value).changes;
        return stays ? hold(step.value, view) : keep(step.value, view);
      }
      case Step::Kind::fill:
        return fill(step);
      case Step::Kind::integer:
        tile(step.value) = buffer(step.value, 1, 1);
        *tile(step.value).as<int64_t>() = value_of(step.integer);
        return;
      case Step::Kind::position:
        return fill_positions(step);
      case Step::Kind::uniform:
        return draw(step, Uniform{.seed = step.seed, .offset = step.offset});
      case Step::Kind::normal:
        return draw(step, Normal{.seed = step.seed, .offset = step.offset});
      case Step::Kind::set:
        return set(step.operands[0], step.operands[1]);
      default:
        fail_internal("jit: a step of a block program that the CPU does not know");
    }
  }

  void hold(int value, const View& view) { tile(value) = view; }
  /// Copies and converts to the value's own memory.
  void keep(int value, const View& view) {
    tile(value) = buffer(value, view.sizes[0], view.sizes[1]);
    copy(view, tile(value));
  }
  static void copy(const View& from, const View& to) {
    const int64_t rows = std::min(from.sizes[0], to.sizes[0]);
    const int64_t columns = std::min(from.sizes[1], to.sizes[1]);
    if (rows > 0 && columns > 0)
      copy_view(narrowed(from, rows, columns), narrowed(to, rows, columns));
  }
  // A dim of extent 1 is repeated.
  View repeated(int value, int64_t rows, int64_t columns) {
    View view = tile(value);
    const BlockValue& type = program_.value(value);
    if (type.rows == 1) view.strides[0] = 0;
    if (type.columns == 1) view.strides[1] = 0;
    return narrowed(view, rows, columns);
  }

  void set(int target, int value) {
    const View &to = tile(target), &from = tile(value);
    const BlockValue &wide = program_.value(target), &given = program_.value(value);
    if (from.numel == 0) return;
    const bool rows_repeat = given.rows == 1 && wide.rows > 1;
    const bool columns_repeat = given.columns == 1 && wide.columns > 1;
    const int64_t rows = rows_repeat ? to.sizes[0] : std::min(from.sizes[0], to.sizes[0]);
    const int64_t columns = columns_repeat ? to.sizes[1] : std::min(from.sizes[1], to.sizes[1]);
    if (rows > 0 && columns > 0)
      copy_view(repeated(value, rows, columns), narrowed(to, rows, columns));
  }

  /// Into the value's own memory, or into a tile that takes its place.
  void run_pointwise(const Step& step, int target) {
    const BlockValue& type = program_.value(step.value);
    int64_t bounds[2] = {type.rows, type.columns};
    for (int operand : step.operands)
      for (int axis : {0, 1}) {
        const int64_t has = tile(operand).sizes[axis];
        if (program_.value(operand).extent(axis) != 1 || has == 0)
          bounds[axis] = std::min(bounds[axis], has);
      }
    View out = buffer(step.value, bounds[0], bounds[1]);
    if (target >= 0) {
      const View& taken = tile(target);
      out =
          narrowed(taken, std::min(bounds[0], taken.sizes[0]), std::min(bounds[1], taken.sizes[1]));
    } else {
      tile(step.value) = out;
    }
    if (out.numel == 0) return;
    std::vector<View> in;
    std::vector<const View*> inputs;
    for (int operand : step.operands) {
      View view = repeated(operand, out.sizes[0], out.sizes[1]);
      const BlockValue& given = program_.value(operand);
      if (given.rows == 1 && given.columns == 1) {  // the kernels know best how to repeat it
        view.sizes = Shape{};
        view.strides = Strides{};
        view.update();
      }
      in.push_back(view);
    }
    for (const View& view : in) inputs.push_back(&view);
    const View* const outputs[] = {&out};
    step.op->run_kernel(*step.op, {step.op->name, inputs, outputs, Device(), step.compute_dtype},
                        step.attrs.get());
  }

  void run_reduce(const Step& step, const void* attrs) {
    View from = tile(step.operands[0]);
    const int64_t kept = from.sizes[1 - step.axis], length = from.sizes[step.axis];
    const bool columns = step.axis == 0;
    View out = buffer(step.value, columns ? 1 : kept, columns ? kept : 1);
    tile(step.value) = out;
    if (kept == 0) return;
    if (length == 0 && (step.op->name == "amax" || step.op->name == "amin"))
      refuse(step.op->name, " of a tile without elements");
    if (columns) {
      std::swap(from.sizes[0], from.sizes[1]);
      std::swap(from.strides[0], from.strides[1]);
      from.update();
      out.sizes = {kept, 1};
      out.strides = {1, 1};
      out.update();
    }
    const View *const in[] = {&from}, *const outs[] = {&out};
    step.op->run_kernel(*step.op, {step.op->name, in, outs, Device(), from.dtype}, attrs);
  }

  void run_dot(const Step& step) {
    const View &a = tile(step.operands[0]), &b = tile(step.operands[1]);
    const int64_t inner = std::min(a.sizes[1], b.sizes[0]);
    const View out = tile(step.value) = buffer(step.value, a.sizes[0], b.sizes[1]);
    if (out.numel == 0) return;
    if (inner == 0) return write_all(out, 0);
    const View left = wide(narrowed(a, a.sizes[0], inner), out.dtype, wide_[0]);
    const View right = wide(narrowed(b, inner, b.sizes[1]), out.dtype, wide_[1]);
    const View *const in[] = {&left, &right}, *const outs[] = {&out};
    const NoAttrs none;
    matmul_op.run_kernel(matmul_op, {matmul_op.name, in, outs, Device(), out.dtype}, &none);
  }
  // A factor in the dtype in which products are added.
  static View wide(const View& view, DType dtype, std::vector<std::byte>& memory) {
    if (view.dtype == dtype) return view;
    memory.resize(static_cast<size_t>(view.numel) * element_size(dtype));
    View result;
    result.data = memory.data();
    result.dtype = dtype;
    result.sizes = view.sizes;
    result.strides = contiguous_strides(view.sizes);
    result.update();
    copy_view(view, result);
    return result;
  }

  static void write_all(const View& to, Scalar number) {
    alignas(16) char bytes[16];
    write_number(number, to.dtype, bytes);
    View one;
    one.data = bytes;
    one.dtype = to.dtype;
    one.sizes = to.sizes;
    one.strides = {0, 0};
    one.update();
    copy_view(one, to);
  }

  void fill(const Step& step) {
    const BlockValue& type = program_.value(step.value);
    int64_t bounds[2] = {type.rows, type.columns};
    if (step.place.array >= 0) {
      const View place = view_of(step.place);
      bounds[0] = place.sizes[0];
      bounds[1] = place.sizes[1];
    }
    tile(step.value) = buffer(step.value, bounds[0], bounds[1]);
    if (tile(step.value).numel > 0) write_all(tile(step.value), step.number);
  }

  void fill_positions(const Step& step) {
    const int64_t count = tile(step.operands[0]).sizes[step.axis];
    View& to = tile(step.value);
    to = step.axis == 0 ? buffer(step.value, count, 1) : buffer(step.value, 1, count);
    auto* const data = to.as<int64_t>();
    const int64_t stride = to.strides[step.axis];
    for (int64_t i = 0; i < count; ++i) data[i * stride] = i;
  }

  // See Note [Lanes]: element i of the array has a counter and a place among its values.
  template <class Distribution>
  void draw(const Step& step, const Distribution& distribution) {
    const View& array = launch_.arrays[static_cast<size_t>(step.place.array)];
    const Strides numbering = contiguous_strides(array.sizes);
    int64_t first = 0, strides[2] = {0, 0};
    int dims = 0;
    for (int d = 0; d < array.dim(); ++d) {
      const BlockRange& range = step.place.ranges[static_cast<size_t>(d)];
      first += value_of(range.start) * numbering[d];
      if (!range.single) {
        strides[0] = strides[1];
        strides[1] = numbering[d];
        ++dims;
      }
    }
    const View place = view_of(step.place);
    View& to = tile(step.value);
    to = buffer(step.value, place.sizes[0], place.sizes[1]);
    for (int64_t r = 0; r < to.sizes[0]; ++r)
      for (int64_t c = 0; c < to.sizes[1]; ++c) {
        const int64_t element = first + r * strides[0] + c * strides[1];
        constexpr int64_t kBlock = kPhiloxLanes * 4;
        const auto counter =
            static_cast<uint64_t>(element / kBlock * kPhiloxLanes + element % kPhiloxLanes);
        const PhiloxWords words = philox(distribution.seed, distribution.offset + counter);
        float values[4];
        distribution.values(words.word, values);
        to.as<float>()[r * to.strides[0] + c] = values[element % kBlock / kPhiloxLanes];
      }
  }

  void add_to(const View& place, const View& from) {
    const int64_t rows = std::min(from.sizes[0], place.sizes[0]);
    const int64_t columns = std::min(from.sizes[1], place.sizes[1]);
    if (rows == 0 || columns == 0) return;
    const View out = narrowed(place, rows, columns), added = narrowed(from, rows, columns);
    const View *const in[] = {&out, &added}, *const outs[] = {&out};
    const functors::Add add{};
    const OpBase& op = pointwise_op<functors::Add>();
    const std::lock_guard lock(launch_.adding);
    op.run_kernel(op, {op.name, in, outs, Device(), out.dtype}, &add);
  }

  const HostLaunch& launch_;
  const BlockProgram& program_;
  std::unique_ptr<std::byte[]> memory_;
  std::byte* start_;
  std::vector<View> values_;
  std::vector<int64_t> loops_;  // counters, by the step that begins the loop
  std::span<const int64_t> programs_;
  std::vector<std::byte> wide_[2];
};

}  // namespace

void run_on_host(const BlockProgram& program, std::span<const View> arrays) {
  const HostLaunch launch(program, arrays);
  int64_t counts[3] = {1, 1, 1}, total = 1;
  for (size_t dim = 0; dim < program.grid.size(); ++dim) {
    counts[dim] = evaluate(program, program.grid[dim], arrays, {}, {});
    total *= counts[dim];
  }
  const auto run = [&](int64_t begin, int64_t end) {
    HostBlocks blocks(launch);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t programs[] = {i / (counts[1] * counts[2]), i / counts[2] % counts[1],
                                  i % counts[2]};
      blocks.run({programs, program.grid.size()});
    }
  };
  const bool adds = std::any_of(program.steps.begin(), program.steps.end(), [](const Step& step) {
    return step.kind == Step::Kind::atomic_add;
  });
  if (total == 0) return;
  if (adds && is_deterministic()) return run(0, total);
  parallel_for(total, 1, run);
}

}  // namespace tensora::jit
