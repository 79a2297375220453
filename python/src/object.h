#pragma once

// The small vocabulary in which the module talks to Python's C API.

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "tensora/core/tensor.h"

namespace tensora::python {

/// Thrown when Python's error indicator is already set.
struct PythonError {};

[[noreturn]] void raise(PyObject* type, const std::string& message);
template <class... Parts>
[[noreturn]] void raise_type_error(const Parts&... parts) {
  raise(PyExc_TypeError, concat(parts...));
}

/// Turns the exception that is being handled into Python's error indicator. Our Error becomes the
/// type that PyTorch raises for such a mistake.
void set_error_from_exception();

/// Runs `body`; what it throws becomes Python's exception and the result `failed`.
template <class Body, class Result = PyObject*>
Result guarded(Body&& body, Result failed = {}) {
  try {
    return body();
  } catch (...) {
    set_error_from_exception();
    return failed;
  }
}

/// Owns a reference to a Python object.
class Owned {
 public:
  Owned() = default;
  explicit Owned(PyObject* object) : object_(object) {
    if (!object) throw PythonError{};
  }
  static Owned borrow(PyObject* object) { return Owned(Py_NewRef(object)); }
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Owned() { Py_XDECREF(object_); }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

/// A Python object that C++ keeps (a hook, a context): it may be dropped by a thread that does not
/// hold the GIL, and after the interpreter's end.
class Kept {
 public:
  explicit Kept(PyObject* object) : object_(Py_NewRef(object)) {}
  Kept(const Kept& other);
  Kept& operator=(const Kept&) = delete;
  ~Kept();
  PyObject* get() const { return object_; }

 private:
  PyObject* object_;
};

// Note [Threads at the end]
// Once the interpreter ends, Python (before 3.14) unwinds the stack of every other thread that asks
// for the GIL. Within C++ that would run destructors that touch Python's objects without the GIL,
// and would end the process where one of them may not throw. So such a thread stops where it called
// Python, for the short rest of the process.

/// What `call` returns, which calls Python: to run code of the program, or for the GIL.
template <class Call>
auto in_python(Call&& call) {
  try {
    return call();
  } catch (const abi::__forced_unwind&) {  // see Note [Threads at the end]
    for (;;) pause();
  }
}

/// Holds the GIL for a scope, on whatever thread.
class HoldGil {
 public:
  HoldGil() : state_(in_python([] { return PyGILState_Ensure(); })) {}
  ~HoldGil() { PyGILState_Release(state_); }
  HoldGil(const HoldGil&) = delete;
  HoldGil& operator=(const HoldGil&) = delete;

 private:
  PyGILState_STATE state_;
};

/// Lets other Python threads run while this one computes.
class ReleaseGil {
 public:
  explicit ReleaseGil(bool wanted = true) : saved_(wanted ? PyEval_SaveThread() : nullptr) {}
  ~ReleaseGil() {
    if (saved_) in_python([&] { PyEval_RestoreThread(saved_); });
  }
  ReleaseGil(const ReleaseGil&) = delete;
  ReleaseGil& operator=(const ReleaseGil&) = delete;

 private:
  PyThreadState* saved_;
};

/// An exception of Python on its way through C++ code that does not hold the GIL: a hook that
/// raised, say. set_error_from_exception gives it back to Python unchanged.
class CarriedError : public std::exception {
 public:
  /// Takes the error indicator.
  CarriedError();
  void restore() const;
  const char* what() const noexcept override { return "an exception of Python"; }

 private:
  std::shared_ptr<Kept> type_, value_, trace_;
};

std::string to_text(PyObject* unicode);
inline PyObject* from_text(std::string_view text) {
  return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}
inline bool is_sequence(PyObject* object) { return PyList_Check(object) || PyTuple_Check(object); }

/// Adds a method table's type to a module.
PyTypeObject* add_type(PyObject* module, PyType_Spec& spec, PyTypeObject* base = nullptr);

}  // namespace tensora::python
