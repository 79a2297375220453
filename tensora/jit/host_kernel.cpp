#include <algorithm>
#include <memory>

#include "tensora/base/thread_pool.h"
#include "tensora/jit/aligned_memory.h"
#include "tensora/jit/host_chain.h"
#include "tensora/jit/host_columns.h"
#include "tensora/jit/host_list.h"
#include "tensora/jit/host_space.h"
#include "tensora/jit/random_ops.h"
#include "tensora/jit/row_ops.h"
#include "tensora/jit/tile_views.h"

namespace tensora::jit {
namespace {

using Step = TileProgram::Step;

constexpr int64_t kTask = 16 * 1024;          // elements worth waking a thread for
constexpr int64_t kLongTask = 64 * 1024;      // of rows, whose ops are called once per tile
constexpr int64_t kBufferBytes = 256 * 1024;  // of a tile: they stay in the L2 cache
constexpr int64_t kFewestTiles = 32;
constexpr int64_t kLongestRow = 64 * 1024;         // from here on reductions split a row
constexpr size_t kStreamBytes = size_t{16} << 20;  // as the eager loops
constexpr size_t kNumberBytes = 16;

/// One call: the space, its tiles, and what every tile shares.
class HostRun {
 public:
  HostRun(const HostPlan& plan, const TileCall& call, const HostSpace& space)
      : plan_(plan),
        program_(plan.program),
        call_(call),
        space_(space),
        rows_(program_.kind == TileProgram::Kind::rows),
        tiling_(space.sizes, wanted(), rows_) {
    const int64_t length = space.sizes[space.sizes.size() - 1];
    adapted_.reserve(program_.steps.size());
    attrs_.reserve(program_.steps.size());
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      const Step& step = program_.steps[i];
      const bool fixed = step.kind == Step::Kind::reduce || step.kind == Step::Kind::row;
      AttrsCopy& copy = adapted_.emplace_back();
      if (fixed) copy = row_attrs(*step.op, step.attrs.get(), length);
      const void* const given = i < call.attrs.size() ? call.attrs[i] : nullptr;
      attrs_.push_back(fixed ? copy.get() : given ? given : step.attrs.get());
    }
    numbers_.resize(program_.steps.size() * kNumberBytes);
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      const Step& step = program_.steps[i];
      if (step.kind != Step::Kind::number) continue;
      const void* const given = i < call.attrs.size() ? call.attrs[i] : nullptr;
      write_number(given ? *static_cast<const Scalar*>(given) : step.number, step.dtype,
                   numbers_.data() + i * kNumberBytes);
    }
    for (const View* result : call.results) streams_.push_back(streams(*result));
    if (!space.columns.empty())
      columns_ = std::make_unique<ColumnSums>(program_, call, space, tiling_.count);
  }

  void run() const {
    if (columns_) return run_chunks();
    const int64_t grain = std::max<int64_t>(1, kTask / std::max<int64_t>(tiling_.elements, 1));
    parallel_for(tiling_.count, grain,
                 [&](int64_t begin, int64_t end) { Worker(*this).run(begin, end); });
  }

 private:
  void run_chunks() const {
    parallel_for(columns_->chunks(), 1, [&](int64_t begin, int64_t end) {
      Worker worker(*this);
      for (int64_t chunk = begin; chunk < end; ++chunk)
        worker.run(columns_->first_tile(chunk), columns_->first_tile(chunk + 1), chunk);
    });
    columns_->finish();
  }

  /// What one thread needs: buffers, and its copy of the chains.
  class Worker {
   public:
    explicit Worker(const HostRun& run) : run_(run) {
      const HostPlan& plan = run.plan_;
      size_t bytes = 0;
      for (size_t i = 0; i < plan.buffers.size(); ++i) {
        buffer_at_.push_back(bytes);
        const int64_t length = run.rows_ ? run.space_.sizes[run.space_.sizes.size() - 1] : 1;
        const bool per_row = run.program_.extent_of(plan.buffers[i]) == Extent::row;
        const int64_t elements =
            per_row ? run.tiling_.elements / std::max<int64_t>(length, 1) : run.tiling_.elements;
        const size_t element = element_size(run.program_.dtype_of(plan.buffers[i]));
        bytes += (static_cast<size_t>(elements) * element + 63) / 64 * 64;
      }
      memory_ = AlignedMemory<std::byte>(bytes);
      for (const Stage& stage : plan.stages)
        chains_.push_back(stage.chained ? std::make_unique<ChainRunner>(stage.chain, run.attrs_)
                                        : nullptr);
    }

    void run(int64_t begin, int64_t end, int64_t chunk = 0) {
      chunk_ = chunk;
      for (int64_t tile = begin; tile < end; ++tile) {
        tile_ = tile;
        box_ = run_.tiling_.sizes_of(run_.space_.sizes, tile);
        for (size_t s = 0; s < run_.plan_.stages.size(); ++s) run_stage(s);
      }
    }

   private:
    const HostPlan& plan() const { return run_.plan_; }

    Shape box_of(Extent extent) const {
      Shape box = box_;
      if (extent == Extent::row) box[box.size() - 1] = 1;
      return box;
    }
    // An array of the call: input i, or a result after all inputs.
    TileArray array(size_t i, const View& view) const {
      const Strides& strides = run_.space_.strides[i];
      const int64_t offset = run_.tiling_.offset_of(run_.space_.sizes, strides, tile_);
      return {view.as<char>() + offset * static_cast<int64_t>(element_size(view.dtype)), view.dtype,
              strides};
    }
    TileArray result_array(int result) const {
      const auto i = static_cast<size_t>(result);
      TileArray found = array(run_.call_.inputs.size() + i, *run_.call_.results[i]);
      found.stream = run_.streams_[i];
      return found;
    }
    TileArray buffer(int value) const {
      const int index = plan().buffer_of[static_cast<size_t>(value)];
      char* const data =
          reinterpret_cast<char*>(memory_.get()) + buffer_at_[static_cast<size_t>(index)];
      return {data, run_.program_.dtype_of(value),
              contiguous_strides(box_of(run_.program_.extent_of(value)))};
    }
    /// Where a value can be read in this tile.
    TileArray source(int value) const {
      const TileProgram& program = run_.program_;
      if (value < program.input_count())
        return array(static_cast<size_t>(value), *run_.call_.inputs[static_cast<size_t>(value)]);
      const Step& step = *program.step_of(value);
      TileArray found;
      if (step.kind == Step::Kind::number) {
        const auto i = static_cast<size_t>(value - program.input_count());
        found.data = const_cast<char*>(run_.numbers_.data()) + i * kNumberBytes;
        found.dtype = step.dtype;
        found.strides.resize(box_.size());
      } else if (plan().buffer_of[static_cast<size_t>(value)] >= 0) {
        found = buffer(value);
      } else {
        found = result_array(plan().result_of[static_cast<size_t>(value)]);
      }
      // A value per row is repeated along the row.
      if (program.extent_of(value) == Extent::row) found.strides[box_.size() - 1] = 0;
      return found;
    }
    static View view_of(const TileArray& array, const Shape& sizes) {
      View view;
      view.data = array.data;
      view.dtype = array.dtype;
      view.sizes = sizes;
      view.strides = array.strides;
      view.update();
      return view;
    }

    void run_stage(size_t s) {
      const Stage& stage = plan().stages[s];
      if (!stage.chained) return run_single(stage.values[0]);
      std::vector<TileArray> arrays;
      arrays.reserve(stage.chain.externals.size());
      for (const ChainPlan::External& external : stage.chain.externals) {
        if (!external.write)
          arrays.push_back(source(external.value));
        else
          arrays.push_back(external.result >= 0 ? result_array(external.result)
                                                : buffer(external.value));
      }
      chains_[s]->run(box_of(stage.extent), arrays);
    }

    void run_single(int value) {
      const TileProgram& program = run_.program_;
      const Step& step = *program.step_of(value);
      if (step.kind == Step::Kind::position) return fill_positions(value, step);
      if (step.kind == Step::Kind::random) return run_random(value, step);
      if (step.kind == Step::Kind::columns) {
        const int64_t first = run_.tiling_.offset_of(run_.space_.sizes, run_.space_.columns, tile_);
        const View tile = view_of(source(step.operands[0]), box_);
        return run_.columns_->add(value, chunk_, first, tile);
      }
      std::vector<View> in(step.operands.size());
      std::vector<const View*> inputs;
      const bool weights = sees_weights(step);
      for (size_t k = 0; k < step.operands.size(); ++k) {
        const int operand = step.operands[k];
        if (operand >= 0) in[k] = operand_view(operand, step, weights && k > 0);
        inputs.push_back(operand < 0 ? nullptr : &in[k]);
      }
      std::vector<View> out = {view_of(buffer(value), box_of(step.extent))};
      std::vector<View> dummies;
      if (step.kind == Step::Kind::row) add_parts(value, out);
      const int result = plan().result_of[static_cast<size_t>(value)];
      const View target = result < 0 ? View() : view_of(result_array(result), box_of(step.extent));
      // Later stages read the buffer, if there are any.
      const bool in_place =
          result >= 0 && target.contiguous && !plan().is_read[static_cast<size_t>(value)];
      if (in_place) out[0] = target;
      std::vector<const View*> outputs;
      for (const View& view : out) outputs.push_back(&view);
      run_op(step, run_.attrs_[static_cast<size_t>(value - program.input_count())], inputs,
             outputs);
      if (result >= 0 && !in_place) copy_view(out[0], target);
    }

    View operand_view(int operand, const Step& step, bool weight) const {
      const TileArray array = source(operand);
      const bool row = run_.program_.extent_of(operand) == Extent::row;
      const bool whole = step.kind == Step::Kind::reduce || step.kind == Step::Kind::row;
      View view = view_of(array, row && !whole ? box_of(Extent::row) : box_);
      if (weight) return as_weight(view);
      // A single element stays one: the kernels know best how to repeat it.
      bool single = !whole;
      for (int d = 0; d < view.dim(); ++d) single &= view.sizes[d] == 1 || view.strides[d] == 0;
      if (single) {
        view.sizes = Shape{};
        view.strides = Strides{};
        view.update();
      }
      return view;
    }

    // The further outputs of a row op; those that nobody asked for go to memory of their own.
    void add_parts(int value, std::vector<View>& out) {
      const TileProgram& program = run_.program_;
      const Step& whole = *program.step_of(value);
      const int outputs = find_row_op(*whole.op)->outputs;
      const bool wide = program.dtype_of(whole.operands[0]) == kFloat64;
      for (int part = 1; part < outputs; ++part) {
        TileArray array;
        for (int v = value + 1; v < program.value_count(); ++v) {
          const Step& step = *program.step_of(v);
          if (step.kind == Step::Kind::part && step.operands[0] == value && step.part == part)
            array = buffer(v);
        }
        if (!array.data) {
          const Shape box = box_of(Extent::row);
          unread_.resize(static_cast<size_t>(outputs));
          auto& memory = unread_[static_cast<size_t>(part)];
          memory.resize(static_cast<size_t>(box.numel()));
          array = {reinterpret_cast<char*>(memory.data()), wide ? kFloat64 : kFloat32,
                   contiguous_strides(box)};
        }
        out.push_back(view_of(array, box_of(Extent::row)));
      }
    }

    void fill_positions(int value, const Step& step) {
      const TileArray array = buffer(value);
      auto* const to = reinterpret_cast<int64_t*>(array.data);
      const Shape box = box_of(step.extent);
      const int64_t length = box[box.size() - 1];
      Strides numbering = contiguous_strides(run_.space_.sizes);
      for (int64_t& stride : numbering)
        stride /= std::max<int64_t>(1, run_.space_.sizes[box.size() - 1]);
      numbering[box.size() - 1] = 0;
      const int64_t first = run_.tiling_.offset_of(run_.space_.sizes, numbering, tile_);
      for (int64_t i = 0; i < box.numel(); ++i)
        to[i] = step.extent == Extent::row ? first + i : i % length;
    }

    void run_random(int value, const Step& step) {
      const int result = plan().result_of[static_cast<size_t>(value)];
      const View target = result < 0 ? View() : view_of(result_array(result), box_);
      const bool in_place =
          result >= 0 && target.contiguous && !plan().is_read[static_cast<size_t>(value)];
      const View out = in_place ? target : view_of(buffer(value), box_);
      if (step.operands.empty()) {
        draw_runs(value, step, nullptr, out);
      } else {
        const TileArray operand = source(step.operands[0]);
        draw_runs(value, step, &operand, out);
      }
      if (result >= 0 && !in_place) copy_view(out, target);
    }

    // Runs of adjacent positions: a whole tile, or the rows of one.
    void draw_runs(int value, const Step& step, const TileArray* in, const View& out) const {
      const void* const attrs =
          run_.attrs_[static_cast<size_t>(value - run_.program_.input_count())];
      const Strides& numbering = run_.space_.numbering;
      int dim = box_.size() - 1;
      int64_t count = box_[dim];
      while (dim > 0 && (box_[dim - 1] == 1 || numbering[dim - 1] == count)) count *= box_[--dim];
      Shape sizes;
      TileArray from, to{out.as<char>(), out.dtype, {}};
      if (in) from.dtype = in->dtype;
      for (int d = dim; d < box_.size(); ++d) {
        sizes.push_back(box_[d]);
        to.strides.push_back(out.strides[d]);
        if (in) from.strides.push_back(in->strides[d]);
      }
      const int64_t first = run_.tiling_.offset_of(run_.space_.sizes, numbering, tile_);
      int64_t index[kMaxDims] = {}, number = 0, offset = 0;
      for (int64_t done = 0; done < box_.numel(); done += count) {
        if (in) from.data = in->data + offset * static_cast<int64_t>(element_size(in->dtype));
        const View part = in ? view_of(from, sizes) : View();
        draw(step, attrs, first + number, in ? &part : nullptr, view_of(to, sizes));
        to.data += count * static_cast<int64_t>(element_size(out.dtype));
        for (int d = dim - 1; d >= 0; --d) {
          const bool more = ++index[d] < box_[d];
          number += numbering[d] * (more ? 1 : 1 - box_[d]);
          if (in) offset += in->strides[d] * (more ? 1 : 1 - box_[d]);
          if (more) break;
          index[d] = 0;
        }
      }
    }

    const HostRun& run_;
    std::vector<size_t> buffer_at_;
    AlignedMemory<std::byte> memory_;
    std::vector<std::unique_ptr<ChainRunner>> chains_;
    std::vector<std::vector<double>> unread_;
    int64_t tile_ = 0, chunk_ = 0;
    Shape box_;
  };

  int64_t wanted() const {
    int64_t per_element = 0;
    bool all_chained = true;
    for (int value : plan_.buffers) {
      // What only the caller reads is written to its array.
      const auto id = static_cast<size_t>(value);
      const bool unused = plan_.result_of[id] >= 0 && !plan_.is_read[id];
      if (program_.extent_of(value) == Extent::element && !unused)
        per_element += static_cast<int64_t>(element_size(program_.dtype_of(value)));
    }
    for (const Stage& stage : plan_.stages) {
      const Step& step = *program_.step_of(stage.values[0]);
      all_chained &=
          stage.chained || step.kind == Step::Kind::random || step.kind == Step::Kind::columns;
    }
    // Ops' own kernels read whole tiles from the L1 cache.
    if (!all_chained && !rows_) return 2048;
    if (per_element != 0)
      return std::clamp<int64_t>(kBufferBytes / per_element, 2048,
                                 rows_ || !space_.columns.empty() ? kLongTask : kTask);
    // Whole panels of operands that are transposed, in tiles enough for all threads.
    int64_t wanted = kTask;
    for (size_t i = 0; i < call_.inputs.size(); ++i) {
      const TileArray array{nullptr, call_.inputs[i]->dtype, space_.strides[i]};
      const int64_t panel =
          ChainRunner::panel_rows(array, space_.sizes) * space_.sizes[space_.sizes.size() - 1];
      wanted = std::max(wanted, std::min(2 * panel, space_.sizes.numel() / kFewestTiles));
    }
    return wanted;
  }

  // Written past the cache if it is large and nothing reads it.
  bool streams(const View& result) const {
    if (result.bytes() < kStreamBytes) return false;
    return std::none_of(call_.inputs.begin(), call_.inputs.end(),
                        [&](const View* input) { return input->data == result.data; });
  }

  const HostPlan& plan_;
  const TileProgram& program_;
  const TileCall& call_;
  const HostSpace& space_;
  const bool rows_;
  const Tiling tiling_;
  std::vector<AttrsCopy> adapted_;
  std::vector<const void*> attrs_;
  std::vector<char> numbers_;
  std::vector<bool> streams_;
  std::unique_ptr<ColumnSums> columns_;  // of programs with column steps
};

class HostKernel final : public TileKernel {
 public:
  explicit HostKernel(const TileProgram& program)
      : program_(program), plan_(make_host_plan(program)) {}

  void launch(const TileCall& call, Device) const override {
    if (call.sizes.numel() == 0 && program_.kind == TileProgram::Kind::walk) return;
    const HostSpace space = make_space(program_, call);
    const int64_t length = space.sizes[space.sizes.size() - 1];
    const bool rows = program_.kind == TileProgram::Kind::rows;
    // Nothing is summed where there is one row.
    if (sums_one_row(space)) return interpret(program_, call);
    // Empty rows have sums; long ones are reduced in parts, as the ops themselves do.
    if (rows && (!space.rows_are_one || length >= kLongestRow || call.sizes.numel() == 0))
      return interpret(program_, call);
    HostRun(plan_, call, space).run();
  }
  void launch_list(std::span<const TileCall> calls, Device device) const override {
    if (!run_list(plan_, calls)) TileKernel::launch_list(calls, device);
  }
  std::string describe() const override { return to_string(plan_); }

 private:
  static bool sums_one_row(const HostSpace& space) {
    bool sums = space.columns.empty();
    for (int d = 0; d < space.columns.size(); ++d)
      sums |= space.sizes[d] > 1 && space.columns[d] == 0;
    return !sums;
  }

  const TileProgram program_;
  const HostPlan plan_;
};

std::string cpu_why_not(const TileProgram& program) {
  for (const Step& step : program.steps)
    if (step.op && !step.op->has_kernel(DeviceType::cpu))
      return concat(step.op->name, " has no kernel on the CPU");
  return {};
}

}  // namespace

TileBackend cpu_tile_backend() {
  return {.why_not = cpu_why_not,
          .make = [](const TileProgram& program, Device) -> std::shared_ptr<const TileKernel> {
            return std::make_shared<HostKernel>(program);
          }};
}

}  // namespace tensora::jit
