#include "python/src/overrides.h"

#include <cstring>
#include <unordered_set>

#include "python/src/recursion.h"
#include "python/src/tensor_object.h"

namespace tensora::python {
namespace {

// Both belong to the interpreter and live as long as it does; the GIL protects them.
std::unordered_set<PyTypeObject*>* overriding_types = nullptr;
PyObject* handler = nullptr;       // tensora.overrides._dispatch
PyObject* mode_handler = nullptr;  // tensora.overrides._dispatch_to_mode

thread_local int disabled = 0;
thread_local int modes = 0;  // TorchFunctionModes in whose scope this thread is
thread_local PyObject* default_device = nullptr;

bool overrides(PyObject* value, bool tensors) {
  PyTypeObject* type = Py_TYPE(value);
  if (type == tensor_type) return false;
  if (is_tensor(value)) return tensors && overriding_types && overriding_types->contains(type);
  return !tensors &&
         PyObject_HasAttrString(reinterpret_cast<PyObject*>(type), "__torch_function__");
}

void collect(PyObject* value, bool tensors, PyObject* found) {
  if (is_sequence(value)) {
    const Recursion level;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i)
      collect(PySequence_Fast_GET_ITEM(value, i), tensors, found);
  } else if (overrides(value, tensors)) {
    if (PyList_Append(found, value) != 0) throw PythonError{};
  }
}

// ---- the module's functions
// ----------------------------------------------------------------------

PyObject* register_type(PyObject*, PyObject* type) {
  return guarded([&]() -> PyObject* {
    if (!PyType_Check(type)) raise_type_error("_register_override: expected a class");
    if (!overriding_types) overriding_types = new std::unordered_set<PyTypeObject*>;
    if (overriding_types->insert(reinterpret_cast<PyTypeObject*>(type)).second) Py_INCREF(type);
    Py_RETURN_NONE;
  });
}
PyObject* set_handler(PyObject*, PyObject* function) {
  Py_XSETREF(handler, Py_NewRef(function));
  Py_RETURN_NONE;
}
/// Adds to the number of scopes in which subclasses of Tensor override nothing; returns it.
PyObject* disable(PyObject*, PyObject* change) {
  return guarded([&] {
    disabled += static_cast<int>(get<int64_t>(change));
    return PyLong_FromLong(disabled);
  });
}
/// Adds to the number of modes that see this thread's calls; returns it.
PyObject* count_modes(PyObject*, PyObject* change) {
  return guarded([&] {
    modes += static_cast<int>(get<int64_t>(change));
    return PyLong_FromLong(modes);
  });
}
PyObject* set_mode_handler(PyObject*, PyObject* function) {
  Py_XSETREF(mode_handler, Py_NewRef(function));
  Py_RETURN_NONE;
}
PyObject* set_default_device(PyObject*, PyObject* device) {
  return guarded([&]() -> PyObject* {
    if (device != Py_None && Py_TYPE(device) != device_type)
      raise_type_error("_set_default_device: expected a device or None");
    PyObject* before = default_device ? default_device : Py_NewRef(Py_None);
    default_device = device == Py_None ? nullptr : Py_NewRef(device);
    return before;
  });
}
PyObject* get_default_device(PyObject*, PyObject*) {
  return Py_NewRef(default_device ? default_device : Py_None);
}

PyMethodDef methods[] = {{"_register_override", register_type, METH_O, nullptr},
                         {"_set_override_handler", set_handler, METH_O, nullptr},
                         {"_disable_overrides", disable, METH_O, nullptr},
                         {"_count_modes", count_modes, METH_O, nullptr},
                         {"_set_mode_handler", set_mode_handler, METH_O, nullptr},
                         {"_set_default_device", set_default_device, METH_O, nullptr},
                         {"_default_device", get_default_device, METH_NOARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool tensors_override() { return modes > 0 || (overriding_types && disabled == 0); }

PyObject* call_override(PyObject* function, const VectorArguments& arguments, bool tensors) {
  const bool by_mode = tensors && modes > 0;
  PyObject* const called = by_mode ? mode_handler : handler;
  if (!called) return nullptr;
  const Py_ssize_t keywords = arguments.names ? PyTuple_GET_SIZE(arguments.names) : 0;
  const Owned found(PyList_New(0));
  if (!tensors || disabled == 0)
    for (Py_ssize_t i = 0; i < arguments.positional + keywords; ++i)
      collect(arguments.values[i], tensors, found.get());
  if (!by_mode && PyList_GET_SIZE(found.get()) == 0) return nullptr;
  const Owned args(PyTuple_New(arguments.positional)), kwargs(PyDict_New());
  for (Py_ssize_t i = 0; i < arguments.positional; ++i)
    PyTuple_SET_ITEM(args.get(), i, Py_NewRef(arguments.values[i]));
  for (Py_ssize_t i = 0; i < keywords; ++i)
    if (PyDict_SetItem(kwargs.get(), PyTuple_GET_ITEM(arguments.names, i),
                       arguments.values[arguments.positional + i]) != 0)
      throw PythonError{};
  return Owned(PyObject_CallFunctionObjArgs(called, function, found.get(), args.get(), kwargs.get(),
                                            nullptr))
      .release();
}

PyObject* default_device_object() { return default_device; }

void use_default_device(const Overload& overload, Call& call) {
  if (!default_device) return;
  int device = -1;
  for (int i = 0; i < overload.count; ++i) {
    const Parameter& parameter = overload.parameters[i];
    if (parameter.kind == Kind::tensor) return;  // zeros_like: the tensor's device
    if (parameter.kind == Kind::device && strcmp(parameter.name, "device") == 0) device = i;
  }
  if (device >= 0 && !call.arguments[device]) call.arguments[device] = default_device;
}

void add_overrides(PyObject* module) {
  if (PyModule_AddFunctions(module, methods) != 0) throw PythonError{};
}

}  // namespace tensora::python
