#include "python/src/bindings.h"
#include "tensora/core/deferred.h"
#include "tensora/core/pinned.h"
#include "tensora/core/queue.h"
#include "tensora/dispatch/deferral.h"
#include "tensora/jit/compile.h"
#include "tensora/jit/source_line.h"
#include "tensora/jit/stats.h"
#include "tensora/ops/random/random_mt19937.h"
#include "tensora/tensora.h"

// The state of the process: random numbers, threads, devices, modes, printing.

namespace tensora::python {
namespace {

namespace nb = nanobind;

void bind_random(nb::module_& module) {
  module.def("_use_pytorch_numbers", &use_pytorch_numbers);
  nb::class_<Generator>(module, "Generator", "A stream of random numbers.")
      .def(
          "__init__",
          [](Generator* place, const nb::object&) {
            new (place) Generator();
            if (uses_pytorch_numbers())
              place->manual_seed(67280421310721);  // that of PyTorch's generators
            else
              place->seed();
          },
          nb::arg("device") = nb::none())
      .def(
          "manual_seed",
          [](nb::object self, const nb::int_& seed) {
            const bool negative = seed < nb::int_(0);
            nb::cast<Generator&>(self).manual_seed(
                negative ? static_cast<uint64_t>(nb::cast<int64_t>(seed))
                         : nb::cast<uint64_t>(seed));
            return self;
          },
          nb::arg("seed"))
      .def("seed", [](Generator& g) { return static_cast<int64_t>(g.seed() >> 1); })
      .def("initial_seed", &Generator::initial_seed)
      .def("get_state", &Generator::get_state)
      .def("set_state",
           [](Generator& g, const Tensor& state) {
             g.set_state(state);
             return &g;
           })
      .def_prop_ro("device", [](Generator&) { return Device(); })
      .def_prop_ro("_address", [](Generator& g) { return reinterpret_cast<uintptr_t>(&g); });
  module.attr("default_generator") = nb::cast(&default_generator(), nb::rv_policy::reference);
}

void bind_devices(nb::module_& module) {
  module.def("_is_available",
             [](const std::string& kind) { return is_available(Device(kind).type); });
  module.def("_unavailable_reason",
             [](const std::string& kind) { return unavailable_reason(Device(kind).type); });
  module.def("_device_count", [](const std::string& kind) {
    const DeviceType type = Device(kind).type;
    return is_available(type) ? backend(type).device_count() : 0;
  });
  module.def("_synchronize", [](Device device) {
    const ReleaseGil free;
    synchronize(device);
  });
  module.def("_empty_cache", [](Device device) { empty_cache(device); });
  module.def("_set_memory_limit", &set_memory_limit);
  module.def("_reset_peaks", [](Device device) { allocator(device).reset_peaks(); });
  module.def("_memory_stats", [](Device device) {
    const MemoryStats stats = memory_stats(device);
    nb::dict result;
    result["allocated"] = stats.allocated;
    result["reserved"] = stats.reserved;
    result["peak_allocated"] = stats.peak_allocated;
    result["peak_reserved"] = stats.peak_reserved;
    result["limit"] = stats.limit;
    result["allocations"] = stats.allocations;
    return result;
  });
}

/// Page-locked memory and the queues of a GPU, as far as tensors are concerned.
void bind_queues(nb::module_& module) {
  module.def("_pin", [](const Tensor& tensor) {
    const PinnedMemory* memory = pinned_memory(DeviceType::cuda);
    check(memory != nullptr, "pin_memory: this device has no page-locked memory");
    const Tensor pinned = memory->empty(tensor.sizes(), tensor.dtype());
    const no_grad silent;
    pinned.copy_(tensor);
    return pinned;
  });
  module.def("_is_pinned", [](const Tensor& tensor) {
    const PinnedMemory* memory = pinned_memory(DeviceType::cuda);
    return memory != nullptr && memory->holds(tensor);
  });
  module.def("_copy_async", [](const Tensor& to, const Tensor& from) {
    const PinnedMemory* memory = pinned_memory(DeviceType::cuda);
    check(memory != nullptr, "copy_async: this device has no page-locked memory");
    memory->copy_async(to, from);
  });
  module.def("_keep_for", [](const Tensor& tensor, uintptr_t stream) {
    QueueControl* control = queue_control(tensor.device().type);
    check(control != nullptr, "record_stream: expected a tensor on a GPU, got one on ",
          tensor.device());
    flush_deferred();
    control->keep_for(tensor.impl().storage->data(),
                      Queue{tensor.device(), reinterpret_cast<void*>(stream)});
  });
}

/// A Python function with `replay`. Its body returns its tensors, and a number that says how they
/// are put together.
class PythonReplay {
 public:
  PythonReplay(const std::string& name, bool strict, int verify, bool wide)
      : options_{.name = name, .strict = strict, .wide = wide}, replay_(name, verify) {
    check(verify >= 0, "compile: verify must not be negative, got ", verify);
  }

  std::pair<std::vector<Tensor>, uint64_t> call(const nb::callable& body,
                                                const std::vector<Tensor>& tensors,
                                                uint64_t signature) {
    using Results = std::pair<std::vector<Tensor>, uint64_t>;
    if (!jit::Replay::is_possible()) return nb::cast<Results>(body());
    jit::ReplayCall call;
    call.add(tensors);
    call.add(signature);
    if (auto found = run(call)) return {std::move(found->results), found->form};
    jit::Recording recording(call);
    const LazyScope scope(options_, nullptr, &recording);
    Results made = nb::cast<Results>(body());
    recording.finish(made.first, made.second);
    replay_.keep(call, recording);
    return made;
  }
  const jit::Replay& replay() const { return replay_; }

 private:
  // Other threads may wait for this one's kernels: they must be able to run meanwhile.
  std::optional<jit::Replayed> run(jit::ReplayCall& call) {
    const nb::gil_scoped_release released;
    return replay_.run(call);
  }

  const JitOptions options_;
  jit::Replay replay_;
};

/// A host step that is written in Python.
struct PythonStep {
  nb::callable run, settings;
};

void host_step(const nb::callable& run, const nb::callable& settings) {
  static const auto forever = std::make_shared<const bool>(true);
  if (!thread_state.deferral) {
    run();
    return;
  }
  const std::shared_ptr<const PythonStep> step(new PythonStep{run, settings},
                                               [](const PythonStep* gone) {
                                                 const nb::gil_scoped_acquire held;
                                                 delete gone;
                                               });
  thread_state.deferral->host_step({.run =
                                        [step] {
                                          const nb::gil_scoped_acquire held;
                                          step->run();
                                        },
                                    .settings =
                                        [step] {
                                          const nb::gil_scoped_acquire held;
                                          return nb::cast<std::string>(step->settings());
                                        },
                                    .owner = forever});
}

/// The innermost line that is not the package's own, such as "train.py:12".
std::string python_line() {
  if (!PyGILState_Check()) return {};
  const nb::object path = nb::module_::import_("tensora").attr("__path__").attr("__getitem__")(0);
  const std::string package = nb::cast<std::string>(path) + "/";
  nb::object frame = nb::module_::import_("sys").attr("_getframe")();
  for (; !frame.is_none(); frame = frame.attr("f_back")) {
    const auto file = nb::cast<std::string>(frame.attr("f_code").attr("co_filename"));
    if (!file.starts_with(package))
      return concat(file.substr(file.rfind('/') + 1), ":", nb::cast<int>(frame.attr("f_lineno")));
  }
  return {};
}

/// Lazy scopes, and what they did. A scope belongs to the thread that made it.
void bind_jit(nb::module_& module) {
  jit::set_source_line(python_line);
  nb::class_<jit::Report>(module, "_JitReport")
      .def("__init__", [](jit::Report* place) { (new (place) jit::Report)->describes = true; })
      .def("summary", [](jit::Report& report, const std::string& name) {
        return report.description + jit::summary(name, report);
      });
  nb::class_<LazyScope>(module, "_LazyScope")
      .def(
          "__init__",
          [](LazyScope* place, const std::string& name, bool strict, jit::Report* report,
             bool wide) {
            new (place) LazyScope({.name = name, .strict = strict, .wide = wide}, report);
          },
          nb::arg("name") = "", nb::arg("strict") = false, nb::arg("report").none() = nb::none(),
          nb::arg("wide") = false, nb::keep_alive<1, 4>())
      .def("flush", [](const LazyScope& scope) { scope.flush(); });
  nb::class_<PythonReplay>(module, "_Replay")
      .def(nb::init<const std::string&, bool, int, bool>())
      .def("call", &PythonReplay::call)
      .def("replayed", [](const PythonReplay& self) { return self.replay().replayed(); })
      .def("describe", [](const PythonReplay& self) { return self.replay().describe(); });
  module.def("_is_deferring", [] { return thread_state.deferral != nullptr; });
  module.def("_note_host_work", [](const std::string& reason) { note_host_work(reason); });
  module.def("_host_step", host_step);
  module.def("_jit_stats", [] {
    const jit::Stats stats = jit::stats();
    nb::dict result;
    result["tapes"] = stats.tapes;
    result["plans"] = stats.plans;
    result["followed"] = stats.followed;
    result["ops"] = stats.ops;
    result["launches"] = stats.launches;
    result["fused_ops"] = stats.fused_ops;
    result["failures"] = stats.failures;
    result["bytes"] = stats.bytes;
    result["eager_bytes"] = stats.eager_bytes;
    return result;
  });
}

/// Autocast is a scope in C++; in Python the modes are saved and restored by hand.
void bind_modes(nb::module_& module) {
  nb::class_<autocast>(module, "_Autocast")
      .def("__init__", [](autocast* place, const std::string& device, DType dtype, bool enabled,
                          bool cached) {
        new (place) autocast(AutocastOptions{
            .device = Device(device), .dtype = dtype, .enabled = enabled, .cache_enabled = cached});
      });
  module.def("_is_autocast_enabled",
             [](const std::string& device) { return is_autocast_enabled(Device(device).type); });
  module.def("_autocast_dtype",
             [](const std::string& device) { return autocast_dtype(Device(device).type); });
  module.def("get_default_dtype", &default_dtype);
  module.def("set_default_dtype", &set_default_dtype, nb::arg("d"));
  module.def("promote_types", &promote_types, nb::arg("type1"), nb::arg("type2"));
  module.def("_set_deterministic", &set_deterministic);
  module.def("are_deterministic_algorithms_enabled", &is_deterministic);
  module.def("_set_detect_anomaly", &set_detect_anomaly);
  module.def("is_anomaly_enabled", &is_anomaly_enabled);
  module.def("get_num_threads", &get_num_threads);
  module.def("set_num_threads", [](int threads) {
    const ReleaseGil free;  // waits for a computation, which may wait for the GIL
    set_num_threads(threads);
  });
  module.def("_wrap_number",
             [](nb::handle number) { return wrap_number(get<Scalar>(number.ptr())); });
  module.def("_set_printoptions", [](int precision, int64_t threshold, int64_t edgeitems,
                                     int64_t linewidth, std::optional<bool> sci_mode) {
    set_printoptions({.precision = precision,
                      .threshold = threshold,
                      .edgeitems = edgeitems,
                      .linewidth = linewidth,
                      .sci_mode = sci_mode});
  });
}

}  // namespace

void bind_runtime(nb::module_& module) {
  module.attr("__version__") = TENSORA_VERSION;
  bind_random(module);
  bind_devices(module);
  bind_queues(module);
  bind_jit(module);
  bind_modes(module);
  nb::class_<Profiler>(module, "_Profiler")
      .def(nb::init<>())
      .def("table", &Profiler::table, nb::arg("rows") = 20)
      .def("write_chrome_trace", &Profiler::write_chrome_trace);
}

}  // namespace tensora::python
