#include <nanobind/stl/unique_ptr.h>

#include <map>

#include "python/src/autograd.h"
#include "python/src/bindings.h"
#include "tensora/amp.h"
#include "tensora/optim.h"
#include "tensora/tensora.h"

// Optimizers and the loss scaler. Python's Optimizer has the groups as dicts, which programs read
// and change; before each step their options go to the C++ optimizer behind it, which does the
// rest.

namespace tensora::python {
namespace {

namespace nb = nanobind;
using optim::Optimizer, optim::Parameters, optim::ParamGroup;

using Make = std::unique_ptr<Optimizer> (*)(Parameters);
template <class T>
std::unique_ptr<Optimizer> make(Parameters parameters) {
  return std::make_unique<T>(std::move(parameters));
}
const std::map<std::string, Make>& makers() {
  static const std::map<std::string, Make> all = {
      {"SGD", make<optim::SGD>},         {"Adam", make<optim::Adam>},
      {"AdamW", make<optim::AdamW>},     {"Adamax", make<optim::Adamax>},
      {"Adagrad", make<optim::Adagrad>}, {"Adadelta", make<optim::Adadelta>},
      {"NAdam", make<optim::NAdam>},     {"RAdam", make<optim::RAdam>},
      {"RMSprop", make<optim::RMSprop>}, {"Lion", make<optim::Lion>},
      {"Muon", make<optim::Muon>},       {"Adafactor", make<optim::Adafactor>},
      {"LBFGS", make<optim::LBFGS>}};
  return all;
}

/// A group from a dict: "params", and options.
ParamGroup to_group(const nb::dict& dict) {
  ParamGroup group;
  for (const auto& [key, value] : dict) {
    const std::string name = nb::cast<std::string>(key);
    if (name == "params")
      group.params = get<std::vector<Tensor>>(value.ptr());
    else
      group.set(name, to_value(value.ptr()));
  }
  return group;
}

/// Takes the options over that Python changed.
// An optimizer whose step is Python's, for the scaler. The optimizer owns it, so it holds no
// reference.
struct PythonOptimizer {
  nb::handle owner;

  [[nodiscard]] std::vector<Tensor> parameters() const {
    std::vector<Tensor> all;
    for (const nb::handle group : owner.attr("param_groups"))
      for (const Tensor& parameter : get<std::vector<Tensor>>(group["params"].ptr()))
        all.push_back(parameter);
    return all;
  }
  void step() { owner.attr("step")(); }
};

void set_options(Optimizer& optimizer, size_t index, const nb::dict& dict) {
  ParamGroup& group = optimizer.param_groups().at(index);
  for (const auto& [key, value] : dict) {
    Py_ssize_t length = 0;
    const char* text = PyUnicode_AsUTF8AndSize(key.ptr(), &length);
    if (!text) throw nb::python_error();
    const std::string_view name(text, static_cast<size_t>(length));
    const Value* known = group.find(name);
    if (!known) continue;
    if (known->is_double() && PyFloat_CheckExact(value.ptr())) {
      if (known->to_double() == PyFloat_AS_DOUBLE(value.ptr())) continue;
    } else if (known->is_bool() && PyBool_Check(value.ptr())) {
      if (known->to_bool() == (value.ptr() == Py_True)) continue;
    }
    Value given = is_tensor(value.ptr()) ? Value(get<double>(value.ptr())) : to_value(value.ptr());
    if (known->is_double() && given.is_int()) given = Value(static_cast<double>(given.to_int()));
    group.set(name, std::move(given));
  }
}

Tensor step_with_closure(Optimizer& optimizer, const nb::object& closure) {
  return optimizer.step([&]() -> Tensor {
    const enable_grad recording;
    PyObject* result = in_python([&] { return PyObject_CallNoArgs(closure.ptr()); });
    if (!result) throw CarriedError();
    const Owned owned(result);
    if (is_tensor(result)) return tensor_of(result);
    if (result != Py_None && is_number(result)) return wrap_number(get<Scalar>(result)).clone();
    return {};
  });
}

void bind_scaler(nb::module_& module) {
  using amp::GradScaler;
  nb::class_<PythonOptimizer>(module, "_PythonOptimizer")
      .def("__init__",
           [](PythonOptimizer* place, nb::handle owner) { new (place) PythonOptimizer{owner}; });
  nb::class_<GradScaler>(module, "_GradScaler")
      .def("__init__",
           [](GradScaler* place, double init_scale, double growth, double backoff, int64_t interval,
              bool enabled) {
             new (place) GradScaler({.init_scale = init_scale,
                                     .growth_factor = growth,
                                     .backoff_factor = backoff,
                                     .growth_interval = interval,
                                     .enabled = enabled});
           })
      .def("scale", [](GradScaler& s, const Tensor& loss) { return s.scale(loss); })
      .def("unscale_", [](GradScaler& s, Optimizer& optimizer) { s.unscale_(optimizer); })
      .def("step", [](GradScaler& s, Optimizer& optimizer) { s.step(optimizer); })
      .def("unscale_", [](GradScaler& s, PythonOptimizer& optimizer) { s.unscale_(optimizer); })
      .def("step", [](GradScaler& s, PythonOptimizer& optimizer) { s.step(optimizer); })
      .def("update", [](GradScaler& s) { s.update(); })
      .def("update", [](GradScaler& s, double scale) { s.update(scale); })
      .def("is_enabled", &GradScaler::is_enabled)
      .def("get_scale", &GradScaler::get_scale)
      .def("get_growth_factor", &GradScaler::get_growth_factor)
      .def("set_growth_factor", &GradScaler::set_growth_factor)
      .def("get_backoff_factor", &GradScaler::get_backoff_factor)
      .def("set_backoff_factor", &GradScaler::set_backoff_factor)
      .def("get_growth_interval", &GradScaler::get_growth_interval)
      .def("set_growth_interval", &GradScaler::set_growth_interval)
      .def("state_dict", &GradScaler::state_dict)
      .def("load_state_dict", &GradScaler::load_state_dict);
}

}  // namespace

void bind_optim(nb::module_& module) {
  nb::class_<Optimizer>(module, "_Optimizer")
      .def("set_options", &set_options)
      .def("defaults", [](const Optimizer& o) { return Value(o.defaults()); })
      .def("step",
           [](Optimizer& o) {
             const ReleaseGil free;
             o.step();
           })
      .def("step", &step_with_closure)
      .def("zero_grad", &Optimizer::zero_grad, nb::arg("set_to_none") = true)
      .def("add_param_group",
           [](Optimizer& o, const nb::dict& group) { o.add_param_group(to_group(group)); })
      .def("has_state", &Optimizer::has_state)
      .def("state", [](Optimizer& o, const Tensor& param) { return o.state(param); })
      .def("set_state",
           [](Optimizer& o, const Tensor& param, const Value& state) { o.state(param) = state; })
      .def("state_dict", &Optimizer::state_dict)
      .def("load_state_dict", &Optimizer::load_state_dict);
  module.def("_make_optimizer", [](const std::string& kind, const nb::list& groups) {
    std::vector<ParamGroup> list;
    for (const nb::handle group : groups) list.push_back(to_group(nb::cast<nb::dict>(group)));
    return makers().at(kind)(Parameters(std::move(list)));
  });
  bind_scaler(module);
}

}  // namespace tensora::python
