#include <nanobind/nanobind.h>
#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "python/src/object.h"
#include "tensora/backend/cuda/cuda.h"
#include "tensora/backend/cuda/runtime/capture.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/core/queue.h"

// tensora._cuda: streams, events and graphs. It is a module of its own, because it links
// libtensora_cuda, and is imported when a program first asks for one of them.

namespace {

namespace nb = nanobind;
using namespace tensora;
using python::ReleaseGil;

Device device(int index) { return {DeviceType::cuda, index}; }

cuda::Stream default_stream(Device device) {
  QueueControl* control = queue_control(DeviceType::cuda);
  check(control != nullptr, "default_stream: CUDA is not loaded");
  const Queue before = control->current(device);
  control->set_current({device, nullptr});
  const cuda::Stream stream = cuda::Stream::current(device);
  control->set_current(before);
  return stream;
}

void bind_streams(nb::module_& module) {
  nb::class_<cuda::Stream>(module, "Stream")
      .def("__init__",
           [](cuda::Stream* place, int index) { new (place) cuda::Stream(device(index)); })
      .def_static("current", [](int index) { return cuda::Stream::current(device(index)); })
      .def_static("of_device", [](int index) { return default_stream(device(index)); })
      .def_prop_ro("index", [](const cuda::Stream& stream) { return stream.device().index; })
      .def_prop_ro(
          "handle",
          [](const cuda::Stream& stream) { return reinterpret_cast<uintptr_t>(stream.handle()); })
      .def("synchronize", &cuda::Stream::synchronize, nb::call_guard<ReleaseGil>())
      .def("is_idle", &cuda::Stream::is_idle)
      .def("wait", &cuda::Stream::wait)
      .def(nb::self == nb::self);
  nb::class_<cuda::StreamGuard>(module, "StreamGuard").def(nb::init<cuda::Stream>());
  nb::class_<cuda::Event>(module, "Event")
      .def("__init__",
           [](cuda::Event* place, int index, bool timing) {
             new (place) cuda::Event(device(index),
                                     timing ? cuda::Event::Timing::on : cuda::Event::Timing::off);
           })
      .def("record", [](cuda::Event& event, const cuda::Stream& on) { event.record(on); })
      .def("synchronize", &cuda::Event::synchronize, nb::call_guard<ReleaseGil>())
      .def("is_done", &cuda::Event::is_done)
      .def("milliseconds_since", &cuda::Event::milliseconds_since);
}

void bind_graphs(nb::module_& module) {
  module.def("is_capturing", [] { return cuda::current_capture() != nullptr; });
  nb::class_<cuda::Graph>(module, "Graph")
      .def("__init__",
           [](cuda::Graph* place, int index) { new (place) cuda::Graph(device(index)); })
      .def("begin", &cuda::Graph::begin)
      .def("end", &cuda::Graph::end)
      .def("abandon", &cuda::Graph::abandon)
      .def("replay", &cuda::Graph::replay)
      .def_prop_ro("is_recorded", &cuda::Graph::is_recorded)
      .def_prop_ro("node_count", &cuda::Graph::node_count);
}

void bind_reports(nb::module_& module) {
  module.def("device_info", [](int index) {
    const cuda::DeviceInfo& info = cuda::device_info(index);
    nb::dict result;
    result["name"] = info.name;
    result["major"] = info.major;
    result["minor"] = info.minor;
    result["multi_processor_count"] = info.multiprocessors;
    result["total_memory"] = info.total_bytes;
    result["L2_cache_size"] = info.l2_bytes;
    return result;
  });
  module.def("memory_report", [](int index) {
    const cuda::MemoryReport report = cuda::memory_report(device(index));
    nb::dict result;
    result["requested"] = report.requested;
    result["in_graphs"] = report.in_graphs;
    result["waiting"] = report.waiting;
    result["segments"] = report.segments;
    result["collections"] = report.collections;
    result["fragmentation"] = report.fragmentation;
    return result;
  });
  module.def("wait_count", &cuda::wait_count);
}

}  // namespace

NB_MODULE(_cuda, module) {  // NOLINT: a macro of nanobind
  bind_streams(module);
  bind_graphs(module);
  bind_reports(module);
}
