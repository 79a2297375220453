#pragma once

#include <nanobind/nanobind.h>

namespace tensora::python {

/// Kernels that are written in Python, and in CUDA C++.
void bind_kernels(nanobind::module_& module);

}  // namespace tensora::python
