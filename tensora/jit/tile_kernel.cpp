#include "tensora/jit/tile_kernel.h"

#include <array>
#include <map>
#include <mutex>

#include "tensora/base/fork.h"
#include "tensora/jit/row_ops.h"

namespace tensora::jit {
namespace {

/// The kernels of this process, by device and program.
class Kernels {
 public:
  static Kernels& instance() {
    static constinit MadeOnce<Kernels> kernels;
    return kernels.get();
  }
  Kernels() { hold_over_fork(mutex_); }
  TileBackend backend(DeviceType type) {
    const std::lock_guard lock(mutex_);
    return type == DeviceType::cpu ? cpu_tile_backend() : backends_[static_cast<size_t>(type)];
  }
  void set_backend(DeviceType type, TileBackend backend) {
    const std::lock_guard lock(mutex_);
    backends_[static_cast<size_t>(type)] = backend;
  }
  std::shared_ptr<const TileKernel> find_or_make(const TileProgram& program, Device device) {
    const TileBackend functions = backend(device.type);
    const std::string key = concat(device, "\n", key_of(program));
    const std::lock_guard lock(mutex_);
    std::shared_ptr<const TileKernel>& kernel = kernels_[key];
    if (!kernel) kernel = functions.make(program, device);
    return kernel;
  }

 private:
  Mutex mutex_;
  std::array<TileBackend, kDeviceTypeCount> backends_ = {};
  std::map<std::string, std::shared_ptr<const TileKernel>, std::less<>> kernels_;
};

}  // namespace

void set_tile_backend(DeviceType device, TileBackend backend) {
  Kernels::instance().set_backend(device, backend);
}

std::string why_not(const TileProgram& program, Device device) {
  const TileBackend backend = Kernels::instance().backend(device.type);
  if (!backend.make) return concat("there is no code generator for ", device);
  return backend.why_not(program);
}

PreparedTile prepare(const TileProgram& program, Device device) {
  op_registry();  // the CPU's kernels are registered at the first use
  validate(program);
  const std::string reason = why_not(program, device);
  check(reason.empty(), "jit: a program cannot run on ", device, ": ", reason);
  CanonicalProgram ordered = canonical(program);
  PreparedTile result;
  result.kernel_ = Kernels::instance().find_or_make(ordered.program, device);
  result.inputs_ = std::move(ordered.inputs);
  result.steps_ = std::move(ordered.steps);
  result.program_ = std::make_shared<TileProgram>(program);
  result.device_ = device;
  return result;
}

void PreparedTile::launch(const TileCall& call) const {
  Ordered ordered;
  order(call, ordered);
  kernel_->launch(ordered.call, device_);
}

void PreparedTile::launch_list(std::span<const std::pair<const PreparedTile*, TileCall>> calls) {
  std::vector<Ordered> ordered(calls.size());
  std::vector<TileCall> list;
  list.reserve(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    calls[i].first->order(calls[i].second, ordered[i]);
    list.push_back(ordered[i].call);
  }
  calls[0].first->kernel_->launch_list(list, calls[0].first->device_);
}

void PreparedTile::order(const TileCall& call, Ordered& ordered) const {
  const TileProgram& program = *program_;
  check(call.inputs.size() == program.inputs.size(), "jit: a program takes ", program.inputs.size(),
        " inputs, got ", call.inputs.size());
  check(call.results.size() == program.results.size(), "jit: a program makes ",
        program.results.size(), " results, got ", call.results.size());
  check(call.attrs.empty() || call.attrs.size() == program.steps.size(), "jit: a program has ",
        program.steps.size(), " steps, got the attributes of ", call.attrs.size());
  for (size_t i = 0; i < call.inputs.size(); ++i)
    check(call.inputs[i]->dtype == program.inputs[i].dtype, "jit: input ", i, " of a program is ",
          program.inputs[i].dtype, ", got ", call.inputs[i]->dtype);
  for (size_t i = 0; i < call.results.size(); ++i)
    check(call.results[i]->dtype == program.dtype_of(program.results[i]), "jit: result ", i,
          " of a program is ", program.dtype_of(program.results[i]), ", got ",
          call.results[i]->dtype);
  for (int i : inputs_) ordered.inputs.push_back(call.inputs[static_cast<size_t>(i)]);
  for (int i : steps_) {
    const auto index = static_cast<size_t>(i);
    const void* const given = call.attrs.empty() ? nullptr : call.attrs[index];
    // Numbers, which are not the attributes of an op, come with the program.
    const TileProgram::Step& step = program.steps[index];
    const bool number = step.kind == TileProgram::Step::Kind::number;
    ordered.attrs.push_back(given ? given : number ? &step.number : step.attrs.get());
  }
  ordered.call = call;
  ordered.call.inputs = {ordered.inputs.data(), ordered.inputs.size()};
  ordered.call.attrs = {ordered.attrs.data(), ordered.attrs.size()};
}

}  // namespace tensora::jit
