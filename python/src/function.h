#pragma once

// The functions of the module: tables that python/generate.py derives from the declarations of
// tensora/ops, and the type of the callable that Python sees.

#include "python/src/values.h"

namespace tensora::python {

struct Parameter {
  const char* name;
  Kind kind;
  bool required;
  bool keyword_only = false;  // dtype, device and requires_grad of factories
};

inline constexpr int kMaxParameters = 16;

/// A call whose arguments have been matched with an overload; null where one was left out.
struct Call {
  PyObject* arguments[kMaxParameters] = {};
  const char* const* fields = nullptr;  // names of the results, for a named tuple
  PyTypeObject** result_type = nullptr;
  bool release = false;  // large work: other Python threads may run meanwhile
  // What a factory takes beside the options of C++.
  PyObject *layout = nullptr, *pin_memory = nullptr, *memory_format = nullptr;
};

struct Overload {
  const Parameter* parameters;
  int count;
  PyObject* (*invoke)(const Call& call);
  bool method;                 // the first parameter is called self
  bool factory;                // takes options, and layout, pin_memory and memory_format
  PyObject** names = nullptr;  // interned, filled when the module is made
};

struct FunctionTable {
  const char* module;  // "", "linalg", …
  const char* name;
  const char* text;  // signatures and documentation
  const Overload* overloads;
  int count;
  const char* const* fields = nullptr;  // ends with null
};
/// The tables of all generated sources.
std::vector<std::span<const FunctionTable>> function_tables();

/// Adds the functions to the module and the methods to Tensor.
void add_functions(PyObject* module);

// ---- results -----------------------------------------------------------------------------------

PyObject* wrap(Tensor tensor);
PyObject* wrap_all(std::span<const Tensor> tensors);
PyObject* named_tuple(const Call& call, std::span<const Tensor> tensors);

inline PyObject* result(const Call&, Tensor tensor) { return wrap(std::move(tensor)); }
inline PyObject* result(const Call&, bool value) { return PyBool_FromLong(value); }
inline PyObject* result(const Call&, int64_t value) { return PyLong_FromLongLong(value); }
inline PyObject* result(const Call&, Scalar value) { return from_number(value); }
inline PyObject* result(const Call&, const std::vector<Tensor>& list) { return wrap_all(list); }
template <class... T>
PyObject* result(const Call& call, const std::tuple<T...>& tuple) {
  return std::apply(
      [&](const auto&... parts) {
        const Tensor list[] = {parts...};
        return named_tuple(call, list);
      },
      tuple);
}

/// Runs an op for a call, without the GIL where that pays.
template <class Body>
PyObject* run(const Call& call, const Body& body) {
  if constexpr (std::is_void_v<decltype(body())>) {
    {
      const ReleaseGil free(call.release);
      body();
    }
    Py_RETURN_NONE;
  } else {
    return result(call, [&] {
      const ReleaseGil free(call.release);
      return body();
    }());
  }
}

}  // namespace tensora::python
