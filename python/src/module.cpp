#include <nanobind/nanobind.h>

#include "python/src/autograd.h"
#include "python/src/bindings.h"
#include "python/src/kernels.h"
#include "python/src/overrides.h"
#include "python/src/tensor_object.h"
#include "tensora/tensora.h"

namespace tensora::python {

PyObject* module_from_dlpack(PyObject*, PyObject* object);
PyObject* module_share(PyObject*, PyObject* object);

namespace {

PyObject* module_tensor(PyObject*, PyObject* args, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    PyObject *data = nullptr, *given[3] = {}, *pinned = nullptr;
    static const char* names[] = {"data",          "dtype",      "device",
                                  "requires_grad", "pin_memory", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|$OOOO", const_cast<char**>(names), &data,
                                     &given[0], &given[1], &given[2], &pinned))
      return nullptr;
    if (!given[1]) given[1] = default_device_object();
    Owned made(wrap(make_from(data, get_options(given, {}))));
    if (!pinned || pinned == Py_None || !get<bool>(pinned)) return made.release();
    return PyObject_CallMethod(made.get(), "pin_memory", nullptr);
  });
}

/// Finds a function again when it is unpickled.
PyObject* find_function(PyObject* module, PyObject* args) {
  return guarded([&]() -> PyObject* {
    const char *folder = nullptr, *name = nullptr;
    int method = 0;
    if (!PyArg_ParseTuple(args, "ssi", &folder, &name, &method)) return nullptr;
    if (method) return PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), name);
    if (!*folder) return PyObject_GetAttrString(module, name);
    const Owned sub(PyObject_GetAttrString(module, folder));
    return PyObject_GetAttrString(sub.get(), name);
  });
}

PyMethodDef methods[] = {
    {"tensor", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(module_tensor)),
     METH_VARARGS | METH_KEYWORDS,
     "tensor(data, *, dtype=None, device=None, requires_grad=False)\n--\n\n"
     "A tensor of the given numbers, nested lists or arrays; copies.\n\n"
     ">>> tensora.tensor([[1, 2], [3, 4]])\ntensor([[1, 2],\n        [3, 4]])\n"},
    {"from_dlpack", module_from_dlpack, METH_O,
     "from_dlpack(ext_tensor)\n--\n\nA tensor that shares the memory of another library's array."},
    {"_share", module_share, METH_O, nullptr},
    {"_function", find_function, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void add_core(PyObject* module) {
  const Owned out_of_memory(
      PyErr_NewException("tensora.OutOfMemoryError", PyExc_RuntimeError, nullptr));
  if (PyModule_AddObjectRef(module, "OutOfMemoryError", out_of_memory.get()) != 0)
    throw PythonError{};
  add_value_types(module);
  add_tensor_type(module);
  add_autograd(module);
  add_functions(module);
  add_overrides(module);
  if (PyModule_AddFunctions(module, methods) != 0) throw PythonError{};
}

}  // namespace tensora::python

// The tensor, its ops and autograd are plain CPython types, for speed; nanobind serves the classes
// around them.
NB_MODULE(_C, module) {  // NOLINT: a macro of nanobind
  using namespace tensora::python;
  nanobind::set_leak_warnings(false);  // what lives until the interpreter ends is no leak
  nanobind::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const PythonError&) {
      set_error_from_exception();
    } catch (const CarriedError&) {
      set_error_from_exception();
    } catch (const tensora::Error&) {
      set_error_from_exception();
    }
  });
  try {
    add_core(module.ptr());
  } catch (const PythonError&) {
    throw nanobind::python_error();
  }
  bind_runtime(module);
  bind_io(module);
  bind_nn(module);
  bind_optim(module);
  bind_train(module);
  bind_llm(module);
  bind_kernels(module);
  bind_storage(module);
  watch_signals();
}
