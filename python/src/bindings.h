#pragma once

// What nanobind needs to know of our types, and the parts of the module that it binds.

#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "python/src/tensor_object.h"
#include "python/src/values.h"
#include "tensora/io/state.h"

namespace tensora::python {

void bind_runtime(nanobind::module_& module);
void bind_io(nanobind::module_& module);
void bind_nn(nanobind::module_& module);
void bind_optim(nanobind::module_& module);
void bind_train(nanobind::module_& module);
void bind_llm(nanobind::module_& module);
void bind_storage(nanobind::module_& module);
/// Lets Ctrl-C end long computations.
void watch_signals();

/// Trees of plain values and tensors, as dicts and lists.
Value to_value(PyObject* object);
PyObject* from_value(const Value& value);

}  // namespace tensora::python

namespace nanobind::detail {

template <>
struct type_caster<tensora::Tensor> {
  NB_TYPE_CASTER(tensora::Tensor, const_name("tensora.Tensor"))
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    if (!source.is_none() && !tensora::python::is_tensor(source.ptr())) return false;
    value = tensora::python::tensor_argument(source.ptr());
    return true;
  }
  static handle from_cpp(const tensora::Tensor& tensor, rv_policy, cleanup_list*) noexcept {
    return tensora::python::wrap(tensor);
  }
};

template <>
struct type_caster<tensora::Device> {
  NB_TYPE_CASTER(tensora::Device, const_name("tensora.device"))
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    try {
      value = tensora::python::get<tensora::Device>(source.ptr());
      return true;
    } catch (...) {
      PyErr_Clear();
      return false;
    }
  }
  static handle from_cpp(tensora::Device device, rv_policy, cleanup_list*) noexcept {
    return tensora::python::from_device(device);
  }
};

template <>
struct type_caster<tensora::DType> {
  NB_TYPE_CASTER(tensora::DType, const_name("tensora.dtype"))
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    if (!tensora::python::accepts(tensora::python::Kind::dtype, source.ptr())) return false;
    value = tensora::python::get<tensora::DType>(source.ptr());
    return true;
  }
  static handle from_cpp(tensora::DType dtype, rv_policy, cleanup_list*) noexcept {
    return tensora::python::from_dtype(dtype);
  }
};

template <>
struct type_caster<tensora::Value> {
  NB_TYPE_CASTER(tensora::Value, const_name("object"))
  bool from_python(handle source, uint8_t, cleanup_list*) {
    value = tensora::python::to_value(source.ptr());
    return true;
  }
  static handle from_cpp(const tensora::Value& tree, rv_policy, cleanup_list*) {
    return tensora::python::from_value(tree);
  }
};

}  // namespace nanobind::detail
