#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "python/src/tensor_object.h"
#include "tensora/base/error_kinds.h"
#include "tensora/dispatch/data_of.h"
#include "tensora/distributed/data_parallel.h"
#include "tensora/distributed/init.h"
#include "tensora/tensora.h"

// tensora._distributed: groups of processes, over which tensora.distributed has PyTorch's
// functions. It is a module of its own, because it links libtensora_distributed, and is imported
// when a program makes a group.

namespace tensora::python {
namespace {

/// tensora.Tensor. The type belongs to the extension _C, whose symbols are not visible here.
PyObject* tensor_class = nullptr;

}  // namespace
}  // namespace tensora::python

namespace nanobind::detail {

template <>
struct type_caster<tensora::Tensor> {
  NB_TYPE_CASTER(tensora::Tensor, const_name("tensora.Tensor"))
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    if (PyObject_IsInstance(source.ptr(), tensora::python::tensor_class) != 1) {
      PyErr_Clear();
      return false;
    }
    value = tensora::python::tensor_of(source.ptr());
    return true;
  }
};

}  // namespace nanobind::detail

namespace tensora::python {
namespace {

namespace nb = nanobind;
using Group = std::shared_ptr<ProcessGroup>;
using Unlocked = nb::call_guard<ReleaseGil>;

CallMode mode_of(bool asynchronous) {
  return asynchronous ? CallMode::asynchronous : CallMode::blocking;
}

/// The tensors of a call live as long as any rank may use them.
WorkPtr keeping(WorkPtr work, std::vector<Tensor> tensors) {
  work->keep(std::make_shared<const std::vector<Tensor>>(std::move(tensors)));
  return work;
}

Group init_world(const std::string& backend, std::optional<int> rank, std::optional<int> ranks,
                 const std::string& master, double limit) {
  distributed::InitOptions options;
  options.backend = backend;
  options.rank = rank;
  options.ranks = ranks;
  options.master = master;
  options.group.limit = limit;
  options.join_limit = limit;
  return distributed::init(options);
}

/// The gradients of a Python module, averaged over the ranks while backward runs.
class Averaged {
 public:
  using Named = std::vector<std::pair<std::string, Tensor>>;

  Averaged(const Named& parameters, const std::vector<Tensor>& buffers, Group group,
           int64_t first_bucket_bytes, int64_t bucket_bytes) {
    for (const auto& [name, tensor] : parameters) module_.register_parameter(name, tensor);
    for (size_t i = 0; i < buffers.size(); ++i)
      module_.register_buffer(concat("buffer", i), buffers[i]);
    distributed::DataParallelOptions options;
    options.group = std::move(group);
    options.first_bucket_bytes = first_bucket_bytes;
    options.bucket_bytes = bucket_bytes;
    parallel_.emplace(module_, options);
  }
  ~Averaged() {
    while (!scopes_.empty()) scopes_.pop_back();
  }
  Averaged(const Averaged&) = delete;
  Averaged& operator=(const Averaged&) = delete;

  void enter_no_sync() {
    scopes_.push_back(std::make_unique<distributed::DataParallel::NoSync>(*parallel_));
  }
  void leave_no_sync() {
    check(!scopes_.empty(), "no_sync: no scope is open");
    scopes_.pop_back();
  }

 private:
  nn::Module module_;
  std::optional<distributed::DataParallel> parallel_;
  std::vector<std::unique_ptr<distributed::DataParallel::NoSync>> scopes_;
};

void bind_calls(nb::module_& module) {
  nb::class_<Work>(module, "Work")
      .def("wait", &Work::wait, Unlocked())
      .def("wait_for", &Work::wait_for, Unlocked())
      .def("done", &Work::done);
  nb::enum_<ReduceOp>(module, "ReduceOp")
      .value("SUM", ReduceOp::sum)
      .value("AVG", ReduceOp::average)
      .value("PRODUCT", ReduceOp::product)
      .value("MIN", ReduceOp::minimum)
      .value("MAX", ReduceOp::maximum);
}

const View& memory_of(const Tensor& tensor) { return tensora::data_of(tensor); }

void bind_group(nb::module_& module) {
  nb::class_<ProcessGroup> type(module, "ProcessGroup");
  type.def("rank", &ProcessGroup::rank)
      .def("size", &ProcessGroup::size)
      .def("name", &ProcessGroup::name)
      .def("backend", &ProcessGroup::backend)
      .def("global_ranks", &ProcessGroup::global_ranks)
      .def(
          "all_reduce",
          [](ProcessGroup& group, const Tensor& data, ReduceOp op, bool later) {
            return keeping(group.all_reduce(memory_of(data), op, mode_of(later)), {data});
          },
          Unlocked())
      .def(
          "reduce",
          [](ProcessGroup& group, const Tensor& data, int root, ReduceOp op, bool later) {
            return keeping(group.reduce(memory_of(data), root, op, mode_of(later)), {data});
          },
          Unlocked())
      .def(
          "broadcast",
          [](ProcessGroup& group, const Tensor& data, int root, bool later) {
            return keeping(group.broadcast(memory_of(data), root, mode_of(later)), {data});
          },
          Unlocked())
      .def(
          "all_gather",
          [](ProcessGroup& group, const Tensor& out, const Tensor& in, bool later) {
            return keeping(group.all_gather(memory_of(out), memory_of(in), mode_of(later)),
                           {out, in});
          },
          Unlocked())
      .def(
          "reduce_scatter",
          [](ProcessGroup& group, const Tensor& out, const Tensor& in, ReduceOp op, bool later) {
            return keeping(group.reduce_scatter(memory_of(out), memory_of(in), op, mode_of(later)),
                           {out, in});
          },
          Unlocked())
      .def(
          "all_to_all",
          [](ProcessGroup& group, const Tensor& out, const std::vector<int64_t>& out_counts,
             const Tensor& in, const std::vector<int64_t>& in_counts, bool later) {
            return keeping(group.all_to_all(memory_of(out), out_counts, memory_of(in), in_counts,
                                            mode_of(later)),
                           {out, in});
          },
          Unlocked());
  type.def(
          "send",
          [](ProcessGroup& group, const Tensor& data, int to, bool later) {
            return keeping(group.send(memory_of(data), to, mode_of(later)), {data});
          },
          Unlocked())
      .def(
          "recv",
          [](ProcessGroup& group, const Tensor& data, int from, bool later) {
            return keeping(group.recv(memory_of(data), from, mode_of(later)), {data});
          },
          Unlocked())
      .def(
          "barrier", [](ProcessGroup& group) { group.barrier(); }, Unlocked())
      .def(
          "split",
          [](ProcessGroup& group, int colour, int key, const std::string& name) {
            return group.split(colour, key, name);
          },
          Unlocked());
}

void bind_all(nb::module_& module) {
  bind_calls(module);
  bind_group(module);
  module.def("init", &init_world, Unlocked(), nb::arg("backend"), nb::arg("rank").none(),
             nb::arg("ranks").none(), nb::arg("master"), nb::arg("limit"));
  module.def("shutdown", &distributed::shutdown, Unlocked());
  module.def("local_rank", &distributed::local_rank);
  nb::class_<Averaged>(module, "Averaged")
      .def(nb::init<const Averaged::Named&, const std::vector<Tensor>&, Group, int64_t, int64_t>(),
           Unlocked())
      .def("enter_no_sync", &Averaged::enter_no_sync)
      .def("leave_no_sync", &Averaged::leave_no_sync);
}

}  // namespace
}  // namespace tensora::python

NB_MODULE(_distributed, module) {  // NOLINT: a macro of nanobind
  nanobind::set_leak_warnings(false);
  nanobind::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const tensora::ValueError& error) {
      PyErr_SetString(PyExc_ValueError, error.what());
    }
  });
  nanobind::object core = nanobind::module_::import_("tensora._C");
  tensora::python::tensor_class = core.attr("Tensor").ptr();
  tensora::python::bind_all(module);
}
