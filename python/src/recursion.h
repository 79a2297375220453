#pragma once

#include "python/src/object.h"

namespace tensora::python {

/// Stands in a function that follows lists and dicts into each other. Raises RecursionError where
/// they are nested too deeply, or contain themselves.
class Recursion {
 public:
  Recursion() {
    if (Py_EnterRecursiveCall(" while reading nested lists and dicts")) throw PythonError{};
  }
  ~Recursion() { Py_LeaveRecursiveCall(); }
  Recursion(const Recursion&) = delete;
  Recursion& operator=(const Recursion&) = delete;
};

}  // namespace tensora::python
