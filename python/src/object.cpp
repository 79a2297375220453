#include "python/src/object.h"

#include <algorithm>
#include <cstring>

#include "tensora/base/error_kinds.h"

namespace tensora::python {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool contains_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return contains(text, part); });
}

// "expected floating-point tensors, got int64"
bool is_about_dtype(std::string_view text) {
  if (contains_any(text,
                   {"not supported for complex", "not supported for bool", "unsupported dtype",
                    "bool tensors are not supported", "bool dtype is not supported"}))
    return true;
  const size_t at = std::min(text.find("got "), text.find("Got "));
  if (at == std::string_view::npos) return false;
  return contains_any(text.substr(0, at),
                      {"floating", "float32 or", "expected numbers", "real dtype"}) &&
         contains_any(text.substr(at), {" bool", " int8", " int16", " int32", " int64", " uint",
                                        " float16", " bfloat16", " float32", " complex"});
}

// Ops that need an order of numbers: PyTorch raises a TypeError for complex tensors.
bool orders_numbers(std::string_view op) {
  constexpr std::string_view kOps[] = {"max",     "min",     "maximum",  "minimum", "fmax",
                                       "fmin",    "aminmax", "argmax",   "argmin",  "sort",
                                       "argsort", "topk",    "isposinf", "isneginf"};
  return std::ranges::find(kOps, op) != std::end(kOps);
}

// PyTorch tells a few kinds of mistakes apart, and programs catch them by type. The core has
// classes for these, but most of its checks throw a plain Error, whose text decides.
PyObject* type_of(const Error& error) {
  if (dynamic_cast<const ValueError*>(&error)) return PyExc_ValueError;
  if (dynamic_cast<const IndexError*>(&error)) return PyExc_IndexError;
  if (dynamic_cast<const TypeError*>(&error)) return PyExc_TypeError;
  if (dynamic_cast<const NotImplementedError*>(&error)) return PyExc_NotImplementedError;
  const std::string_view text(error.what()), op = text.substr(0, text.find(':'));
  const bool by_elements = op.starts_with("gather") || op.starts_with("scatter");
  if (contains(text, "out of bounds")) return by_elements ? PyExc_RuntimeError : PyExc_IndexError;
  if (contains_any(text, {"out of range", "too many indices", "cannot reduce over dim",
                          "expected a tensor that has dims", "has no dims to",
                          "unbind: expected a tensor with at least one dimension"}))
    return PyExc_IndexError;
  if (contains(text, "expects a real input tensor") ||
      (contains(text, "input 'tensors' number") && contains(text, "is undefined")) ||
      (contains(text, "not supported for complex") && orders_numbers(op)))
    return PyExc_TypeError;
  if (contains_any(text, {"there is no kernel for", "not implemented"}) || is_about_dtype(text))
    return PyExc_NotImplementedError;
  return PyExc_RuntimeError;
}

// A message may quote bytes of a damaged file, which need not be UTF-8.
void set_error(PyObject* type, std::string_view message) {
  const Owned text(PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()),
                                        "backslashreplace"));
  PyErr_SetObject(type, text.get());
}

}  // namespace

void raise(PyObject* type, const std::string& message) {
  set_error(type, message);
  throw PythonError{};
}

void set_error_from_exception() {
  try {
    throw;
  } catch (const PythonError&) {
  } catch (const CarriedError& error) {
    error.restore();
  } catch (const OutOfMemoryError& error) {
    static PyObject* out_of_memory = nullptr;
    if (!out_of_memory) {
      const Owned module(PyImport_ImportModule("tensora._C"));
      out_of_memory = PyObject_GetAttrString(module.get(), "OutOfMemoryError");
    }
    set_error(out_of_memory ? out_of_memory : PyExc_MemoryError, error.what());
  } catch (const Error& error) {
    set_error(type_of(error), error.what());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    set_error(PyExc_RuntimeError, error.what());
  }
}

Kept::Kept(const Kept& other) : object_(nullptr) {
  const HoldGil gil;
  object_ = Py_NewRef(other.object_);
}

Kept::~Kept() {
  if (!Py_IsInitialized()) return;
  const HoldGil gil;
  Py_DECREF(object_);
}

CarriedError::CarriedError() {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  const Owned held_type(type ? type : Py_NewRef(PyExc_RuntimeError));
  type_ = std::make_shared<Kept>(held_type.get());
  if (value) value_ = std::make_shared<Kept>(Owned(value).get());
  if (trace) trace_ = std::make_shared<Kept>(Owned(trace).get());
}

void CarriedError::restore() const {
  PyErr_Restore(Py_NewRef(type_->get()), value_ ? Py_NewRef(value_->get()) : nullptr,
                trace_ ? Py_NewRef(trace_->get()) : nullptr);
}

std::string to_text(PyObject* unicode) {
  Py_ssize_t length = 0;
  const char* text = PyUnicode_AsUTF8AndSize(unicode, &length);
  if (!text) throw PythonError{};
  return {text, static_cast<size_t>(length)};
}

PyTypeObject* add_type(PyObject* module, PyType_Spec& spec, PyTypeObject* base) {
  Owned type(PyType_FromSpecWithBases(&spec, reinterpret_cast<PyObject*>(base)));
  const char* dot = strrchr(spec.name, '.');
  if (PyModule_AddObjectRef(module, dot + 1, type.get()) != 0) throw PythonError{};
  return reinterpret_cast<PyTypeObject*>(type.release());  // lives as long as the process
}

}  // namespace tensora::python
