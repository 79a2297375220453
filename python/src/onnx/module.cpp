#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "python/src/tensor_object.h"
#include "tensora/base/error_kinds.h"
#include "tensora/onnx/export.h"
#include "tensora/onnx/import.h"

// tensora._onnx: the exporter and importer behind tensora.onnx. It is a module of its own, because
// it links libtensora_onnx, and is imported when a program uses ONNX.

namespace tensora::python {
namespace {

/// tensora.Tensor, and how one is made. Both belong to the extension _C, whose symbols are not
/// visible here.
PyObject* tensor_class = nullptr;
PyObject* (*wrap_tensor)(Tensor) = nullptr;

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
  static handle from_cpp(const tensora::Tensor& tensor, rv_policy, cleanup_list*) noexcept {
    return tensora::python::wrap_tensor(tensor);
  }
};

}  // namespace nanobind::detail

namespace tensora::python {
namespace {

namespace nb = nanobind;
using onnx::ModelProto;
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
using DynamicAxes = std::map<std::string, std::map<int64_t, std::string>>;

jit::Function function_of(const nb::callable& callable) {
  return [callable](std::span<const Tensor> inputs) {
    nb::list arguments;
    for (const Tensor& input : inputs) arguments.append(nb::cast(input));
    return nb::cast<std::vector<Tensor>>(callable(arguments));
  };
}

std::shared_ptr<ModelProto> export_model(const nb::callable& callable,
                                         const std::vector<Tensor>& inputs,
                                         const std::vector<std::string>& input_names,
                                         const std::vector<std::string>& output_names,
                                         const DynamicAxes& dynamic_axes, int64_t opset_version,
                                         const NamedTensors& parameters) {
  onnx::ExportOptions options{.input_names = input_names,
                              .output_names = output_names,
                              .dynamic_axes = dynamic_axes,
                              .opset_version = opset_version};
  for (const auto& [name, tensor] : parameters) options.parameters.insert(name, tensor);
  return std::make_shared<ModelProto>(onnx::export_model(function_of(callable), inputs, options));
}

nb::list sizes_of(const onnx::ValueInfoProto& value) {
  nb::list sizes;
  if (value.sizes)
    for (const onnx::Dimension& dimension : *value.sizes)
      sizes.append(dimension.size ? nb::cast(*dimension.size) : nb::cast(dimension.symbol));
  return sizes;
}

// (name, dtype, sizes); a size is a number or a symbol, and None stands for an unknown rank.
nb::list described(const std::vector<onnx::ValueInfoProto>& values) {
  nb::list result;
  for (const onnx::ValueInfoProto& value : values) {
    nb::object sizes = nb::none();
    if (value.sizes) sizes = sizes_of(value);
    result.append(nb::make_tuple(value.name, std::string(name(value.dtype)), sizes));
  }
  return result;
}

void bind_model(nb::module_& module) {
  nb::class_<ModelProto>(module, "Model")
      .def_ro("opset_version", &ModelProto::opset_version)
      .def_ro("producer_name", &ModelProto::producer_name)
      .def_prop_ro("inputs", [](const ModelProto& model) { return described(model.graph.inputs); })
      .def_prop_ro("outputs",
                   [](const ModelProto& model) { return described(model.graph.outputs); })
      .def_prop_ro("nodes",
                   [](const ModelProto& model) {
                     nb::list nodes;
                     for (const onnx::NodeProto& node : model.graph.nodes)
                       nodes.append(nb::make_tuple(node.op_type, node.inputs, node.outputs));
                     return nodes;
                   })
      .def_prop_ro("initializers", [](const ModelProto& model) { return model.graph.initializers; })
      .def_prop_ro("bytes",
                   [](const ModelProto& model) {
                     uint64_t bytes = 0;
                     for (const auto& [name, tensor] : model.graph.initializers)
                       bytes += tensor.nbytes();
                     return bytes;
                   })
      .def("save", [](const ModelProto& model, const std::string& path,
                      bool external_data) { onnx::write_model(model, path, external_data); })
      .def("serialize", [](const ModelProto& model) {
        const std::string bytes = onnx::serialize_model(model);
        return nb::bytes(bytes.data(), bytes.size());
      });
  module.def("read", [](const std::string& path) {
    return std::make_shared<ModelProto>(onnx::read_model(path));
  });
  module.def("parse", [](const nb::bytes& bytes) {
    return std::make_shared<ModelProto>(onnx::parse_model({bytes.c_str(), bytes.size()}));
  });
}

void bind_all(nb::module_& module) {
  bind_model(module);
  module.def("export", &export_model);
  module.def("exported_ops", [] {
    std::vector<std::pair<std::string, std::string>> rows;
    for (const onnx::ExportedOp& row : onnx::exported_ops()) rows.emplace_back(row.op, row.onnx);
    return rows;
  });
  module.def("imported_ops", [] {
    std::vector<std::string> names;
    for (std::string_view name : onnx::imported_ops()) names.emplace_back(name);
    return names;
  });
  nb::class_<onnx::Program>(module, "Program")
      .def(nb::init<const ModelProto&>())
      .def_prop_ro("weights",
                   [](const onnx::Program& program) {
                     return NamedTensors(program.weights().begin(), program.weights().end());
                   })
      .def("run", [](const onnx::Program& program, const std::vector<Tensor>& inputs,
                     const std::vector<Tensor>& weights) { return program.run(inputs, weights); });
}

template <class Kind>
void raised_as(PyObject* type) {
  static PyObject* raised = type;
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Kind& error) {
      PyErr_SetString(raised, error.what());
    }
  });
}

}  // namespace
}  // namespace tensora::python

NB_MODULE(_onnx, module) {  // NOLINT: a macro of nanobind
  using namespace tensora::python;
  nanobind::set_leak_warnings(false);
  raised_as<tensora::ValueError>(PyExc_ValueError);
  raised_as<tensora::TypeError>(PyExc_TypeError);
  raised_as<tensora::IndexError>(PyExc_IndexError);
  raised_as<tensora::NotImplementedError>(PyExc_NotImplementedError);
  nanobind::object core = nanobind::module_::import_("tensora._C");
  tensor_class = core.attr("Tensor").ptr();
  wrap_tensor = reinterpret_cast<PyObject* (*)(tensora::Tensor)>(
      nanobind::cast<nanobind::capsule>(core.attr("_wrap_tensor")).data());
  bind_all(module);
}
