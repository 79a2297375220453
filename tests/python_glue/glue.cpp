// A trial: a Python module made from the op registry alone. It knows no op by name. Every op
// becomes a function of its inputs, by position or name, whose keyword arguments are the op's
// attributes, with a signature that inspect.signature understands; an op that computes also gets a
// form that ends in `_` and writes into its first input. The real Python package will be another
// thing; this proves that the descriptions suffice for it.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "tensora/dispatch/op.h"
#include "tensora/tensora.h"

namespace {

using tensora::AttrValue, tensora::OpBase, tensora::Tensor;
using Attrs = std::vector<std::pair<std::string, AttrValue>>;

/// Thrown when Python's error indicator is already set.
struct PythonError {};

[[noreturn]] void raise(PyObject* type, const std::string& message) {
  PyErr_SetString(type, message.c_str());
  throw PythonError{};
}

PyObject* error_type = nullptr;  // tensora_glue.Error

/// Runs `body`; what it throws becomes Python's exception and the result null.
template <class Body>
PyObject* guarded(Body&& body) {
  try {
    return body();
  } catch (const PythonError&) {
  } catch (const tensora::OutOfMemoryError& error) {
    PyErr_SetString(PyExc_MemoryError, error.what());
  } catch (const tensora::Error& error) {
    PyErr_SetString(error_type, error.what());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

/// Owns a reference to a Python object.
class Owned {
 public:
  explicit Owned(PyObject* object) : object_(object) {
    if (!object) throw PythonError{};
  }
  ~Owned() { Py_XDECREF(object_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }

 private:
  PyObject* object_;
};

bool is_sequence(PyObject* object) { return PyList_Check(object) || PyTuple_Check(object); }

/// Calls body(item) for the items of a list or tuple.
template <class Body>
void for_each_item(PyObject* sequence, Body&& body) {
  const Owned items(PySequence_Fast(sequence, "expected a list or a tuple"));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i)
    body(PySequence_Fast_GET_ITEM(items.get(), i));
}

// ---- values -----------------------------------------------------------------------------------

std::optional<tensora::Scalar> to_number(PyObject* object) {
  if (PyBool_Check(object)) return tensora::Scalar(object == Py_True);
  if (PyFloat_Check(object)) return tensora::Scalar(PyFloat_AS_DOUBLE(object));
  if (!PyLong_Check(object)) return {};
  const long long value = PyLong_AsLongLong(object);
  if (value == -1 && PyErr_Occurred()) throw PythonError{};
  return tensora::Scalar(static_cast<int64_t>(value));
}

std::string to_text(PyObject* object) {
  const char* text = PyUnicode_AsUTF8(object);
  if (!text) throw PythonError{};
  return text;
}

AttrValue to_attr(PyObject* object) {
  if (object == Py_None) return {};
  if (const auto number = to_number(object)) return tensora::to_attr_value(*number);
  AttrValue result;
  if (PyUnicode_Check(object)) {
    result.kind = AttrValue::Kind::text;
    result.text = to_text(object);
    return result;
  }
  if (!is_sequence(object))
    raise(PyExc_TypeError, tensora::concat("an argument cannot be a ", Py_TYPE(object)->tp_name));
  bool fractions = false;
  for_each_item(object, [&](PyObject* item) {
    const auto number = to_number(item);
    if (!number) raise(PyExc_TypeError, "expected a list of numbers");
    fractions |= number->is_floating();
    result.ints.push_back(number->to<int64_t>());
    result.floats.push_back(number->to<double>());
  });
  return fractions ? tensora::to_attr_value(result.floats) : tensora::to_attr_value(result.ints);
}

PyObject* from_number(tensora::Scalar number) {
  if (number.kind() == tensora::Scalar::Kind::boolean) return PyBool_FromLong(number.to<bool>());
  if (number.is_floating()) return PyFloat_FromDouble(number.to<double>());
  return PyLong_FromLongLong(number.to<int64_t>());
}

/// Calls item(i) for a tuple's (list's) items.
template <class Item>
PyObject* make_tuple(size_t count, Item&& item) {
  Owned result(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; i < count; ++i)
    PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i), Owned(item(i)).release());
  return result.release();
}

// ---- the type Tensor --------------------------------------------------------------------------

struct TensorObject {
  PyObject_HEAD Tensor tensor;
};
PyTypeObject* tensor_type = nullptr;

bool is_tensor(PyObject* object) { return PyObject_TypeCheck(object, tensor_type) != 0; }
const Tensor& tensor_of(PyObject* object) {
  return reinterpret_cast<TensorObject*>(object)->tensor;
}

PyObject* wrap(Tensor tensor) {
  if (!tensor.defined()) Py_RETURN_NONE;
  PyObject* object = tensor_type->tp_alloc(tensor_type, 0);
  if (object) new (&reinterpret_cast<TensorObject*>(object)->tensor) Tensor(std::move(tensor));
  return object;
}

void dealloc(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  reinterpret_cast<TensorObject*>(object)->tensor.~Tensor();
  type->tp_free(object);
  Py_DECREF(type);
}

tensora::NestedList to_nested(PyObject* object) {
  if (const auto number = to_number(object)) return *number;
  if (!is_sequence(object)) raise(PyExc_TypeError, "expected numbers and lists of numbers");
  std::vector<tensora::NestedList> items;
  for_each_item(object, [&](PyObject* item) { items.push_back(to_nested(item)); });
  return items;
}

/// Element by element, from the last dim outwards.
PyObject* to_list(const Tensor& host) {
  if (host.dim() == 0) return from_number(host.item());
  Owned result(PyList_New(host.size(0)));
  for (int64_t i = 0; i < host.size(0); ++i)
    PyList_SET_ITEM(result.get(), i, Owned(to_list(host[i])).release());
  return result.release();
}

PyObject* tensor_new(PyTypeObject*, PyObject* args, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    PyObject* data = nullptr;
    const char* dtype = nullptr;
    int requires_grad = 0;
    static const char* names[] = {"data", "dtype", "requires_grad", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|$zp", const_cast<char**>(names), &data,
                                     &dtype, &requires_grad))
      return nullptr;
    tensora::TensorOptions options{.requires_grad = requires_grad != 0};
    if (dtype) options.dtype = tensora::parse_dtype(dtype);
    return wrap(tensora::tensor(to_nested(data), options));
  });
}

PyObject* tensor_tolist(PyObject* self, PyObject*) {
  return guarded([&] { return to_list(tensor_of(self).detach().cpu()); });
}
PyObject* tensor_backward(PyObject* self, PyObject* gradient) {
  return guarded([&]() -> PyObject* {
    PyObject* given = nullptr;
    if (!PyArg_ParseTuple(gradient, "|O!", tensor_type, &given)) return nullptr;
    tensor_of(self).backward(given ? tensor_of(given) : Tensor());
    Py_RETURN_NONE;
  });
}
PyObject* tensor_repr(PyObject* self) {
  return guarded([&] { return PyUnicode_FromString(tensor_of(self).to_string().c_str()); });
}
PyObject* to_tuple(const tensora::Shape& numbers) {
  return make_tuple(static_cast<size_t>(numbers.size()),
                    [&](size_t i) { return PyLong_FromLongLong(numbers[static_cast<int>(i)]); });
}
PyObject* tensor_shape(PyObject* self, void*) {
  return guarded([&] { return to_tuple(tensor_of(self).sizes()); });
}
PyObject* tensor_strides(PyObject* self, void*) {
  return guarded([&] { return to_tuple(tensor_of(self).strides()); });
}
PyObject* tensor_dtype(PyObject* self, void*) {
  return PyUnicode_FromString(std::string(tensora::name(tensor_of(self).dtype())).c_str());
}
PyObject* tensor_device(PyObject* self, void*) {
  return PyUnicode_FromString(tensora::to_string(tensor_of(self).device()).c_str());
}
PyObject* tensor_requires_grad(PyObject* self, void*) {
  return PyBool_FromLong(tensor_of(self).requires_grad());
}
PyObject* tensor_grad(PyObject* self, void*) {
  return guarded([&] { return wrap(tensor_of(self).grad()); });
}

PyMethodDef tensor_methods[] = {
    {"tolist", tensor_tolist, METH_NOARGS, "The elements as nested lists."},
    {"backward", tensor_backward, METH_VARARGS, "Fills the gradients of the leaves."},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef tensor_properties[] = {
    {"shape", tensor_shape, nullptr, nullptr, nullptr},
    {"strides", tensor_strides, nullptr, nullptr, nullptr},
    {"dtype", tensor_dtype, nullptr, nullptr, nullptr},
    {"device", tensor_device, nullptr, nullptr, nullptr},
    {"requires_grad", tensor_requires_grad, nullptr, nullptr, nullptr},
    {"grad", tensor_grad, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot tensor_slots[] = {{Py_tp_new, reinterpret_cast<void*>(tensor_new)},
                              {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
                              {Py_tp_repr, reinterpret_cast<void*>(tensor_repr)},
                              {Py_tp_methods, tensor_methods},
                              {Py_tp_getset, tensor_properties},
                              {0, nullptr}};
PyType_Spec tensor_spec = {"tensora_glue.Tensor", sizeof(TensorObject), 0, Py_TPFLAGS_DEFAULT,
                           tensor_slots};

// ---- ops --------------------------------------------------------------------------------------

/// What stands behind a Python function.
struct Function {
  const OpBase* op;
  bool inplace;
  std::string name, text;  // Python keeps pointers to both
  PyMethodDef method;
};

/// Tensors, numbers and None (an input left out); a list stands for its items.
void collect_inputs(PyObject* object, std::vector<Tensor>& inputs) {
  if (is_tensor(object))
    inputs.push_back(tensor_of(object));
  else if (object == Py_None)
    inputs.emplace_back();
  else if (const auto number = to_number(object))
    inputs.push_back(tensora::wrap_number(*number));
  else if (is_sequence(object))
    for_each_item(object, [&](PyObject* item) { collect_inputs(item, inputs); });
  else
    raise(PyExc_TypeError, tensora::concat("an input cannot be a ", Py_TYPE(object)->tp_name));
}

std::vector<std::pair<std::string_view, AttrValue>> defaults_of(const OpBase& op) {
  std::vector<std::pair<std::string_view, AttrValue>> result;
  op.with_attrs(op, {}, [&](const void* attrs) { result = op.list_attrs(attrs); });
  return result;
}

/// How Python spells an attribute whose name is a word of its own language: `from_`.
std::string python_name(std::string_view attr) {
  const Owned module(PyImport_ImportModule("keyword"));
  const std::string name(attr);
  const Owned is_keyword(PyObject_CallMethod(module.get(), "iskeyword", "s", name.c_str()));
  return is_keyword.get() == Py_True ? name + "_" : name;
}

/// Puts a keyword argument among the inputs; false if the op has no input of that name.
bool take_input(const Function& function, const std::string& name, PyObject* value,
                std::vector<Tensor>& inputs) {
  const tensora::InputNames& names = function.op->inputs;
  for (size_t i = 0; i < names.size(); ++i) {
    if (python_name(names[i]) != name) continue;
    if (i < inputs.size() && inputs[i].defined())
      raise(PyExc_TypeError, function.name + "() got '" + name + "' twice");
    std::vector<Tensor> given;
    collect_inputs(value, given);
    inputs.resize(std::max(inputs.size(), i + given.size()));
    std::copy(given.begin(), given.end(), inputs.begin() + static_cast<ptrdiff_t>(i));
    return true;
  }
  return false;
}

/// The keyword arguments: inputs by their names, and attributes.
Attrs collect_keywords(const Function& function, PyObject* keywords, std::vector<Tensor>& inputs) {
  Attrs attrs;
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; keywords && PyDict_Next(keywords, &at, &key, &value);) {
    const std::string name = to_text(key);
    if (take_input(function, name, value, inputs)) continue;
    const auto known = defaults_of(*function.op);
    const auto found = std::find_if(known.begin(), known.end(),
                                    [&](auto& attr) { return python_name(attr.first) == name; });
    if (found == known.end())
      raise(PyExc_TypeError, tensora::concat(function.name, "() has no argument '", name,
                                             "'; it has (", tensora::to_string(known), ")"));
    attrs.emplace_back(found->first, to_attr(value));
  }
  return attrs;
}

PyObject* call_op(PyObject* self, PyObject* args, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    const auto& function = *static_cast<const Function*>(PyCapsule_GetPointer(self, nullptr));
    std::vector<Tensor> inputs;
    collect_inputs(args, inputs);
    const Attrs attrs = collect_keywords(function, keywords, inputs);
    if (function.inplace) {
      function.op->with_attrs(*function.op, attrs, [&](const void* values) {
        tensora::detail::apply_inplace(*function.op, tensora::args_of(inputs), values);
      });
      return wrap(inputs[0]);
    }
    tensora::Tensors outputs = tensora::apply_by_name(function.op->name, inputs, attrs);
    if (outputs.size() == 1) return wrap(outputs[0]);
    return make_tuple(outputs.size(), [&](size_t i) { return wrap(outputs[i]); });
  });
}

/// "add($module, self, other, *, alpha=1)", which Python shows as the function's signature.
std::string signature_of(const OpBase& op, const std::string& name) {
  std::string text = name + "($module";
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const bool list = op.inputs.ends_in_list() && i + 1 == op.inputs.size();
    text += tensora::concat(", ", list ? "*" : "", python_name(op.inputs[i]),
                            op.inputs.is_optional(i) ? "=None" : "");
  }
  if (!op.inputs.ends_in_list() && !defaults_of(op).empty()) text += ", *";
  for (const auto& [attr, value] : defaults_of(op)) {
    const bool quoted = value.kind == AttrValue::Kind::text || value.kind == AttrValue::Kind::dtype;
    text +=
        tensora::concat(", ", python_name(attr), "=", quoted ? "'" : "", value, quoted ? "'" : "");
  }
  return text + ")\n--\n\n";
}

void add_function(PyObject* module, const OpBase& op, bool inplace) {
  // Lives as long as the process, as the op does.
  auto* function = new Function{&op, inplace, std::string(op.name) + (inplace ? "_" : ""), {}, {}};
  function->text = signature_of(op, function->name);
  function->method = {function->name.c_str(),
                      reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call_op)),
                      METH_VARARGS | METH_KEYWORDS, function->text.c_str()};
  const Owned capsule(PyCapsule_New(function, nullptr, nullptr));
  const Owned callable(PyCFunction_New(&function->method, capsule.get()));
  if (PyModule_AddObjectRef(module, function->name.c_str(), callable.get()) != 0)
    throw PythonError{};
}

PyModuleDef module_definition = {PyModuleDef_HEAD_INIT,
                                 "tensora_glue",
                                 nullptr,
                                 -1,
                                 nullptr,
                                 nullptr,
                                 nullptr,
                                 nullptr,
                                 nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_tensora_glue() {
  return guarded([]() -> PyObject* {
    Owned module(PyModule_Create(&module_definition));
    const Owned type(PyType_FromSpec(&tensor_spec));
    const Owned error(PyErr_NewException("tensora_glue.Error", PyExc_RuntimeError, nullptr));
    if (PyModule_AddObjectRef(module.get(), "Tensor", type.get()) != 0 ||
        PyModule_AddObjectRef(module.get(), "Error", error.get()) != 0)
      return nullptr;
    // The module keeps both alive.
    tensor_type = reinterpret_cast<PyTypeObject*>(type.get());
    error_type = error.get();
    for (const OpBase* op : tensora::op_registry().all()) {
      if (op->internal) continue;
      add_function(module.get(), *op, false);
      if (!op->view) add_function(module.get(), *op, true);
    }
    return module.release();
  });
}
