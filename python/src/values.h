#pragma once

// From Python's values to the types of the ops' parameters, and back.

#include "python/src/object.h"
#include "tensora/ops/conv/conv.h"
#include "tensora/ops/linalg/linalg_norms.h"
#include "tensora/ops/loss/reduction.h"

namespace tensora::python {

// ---- the types of small values -----------------------------------------------------------------

struct DTypeObject {
  PyObject_HEAD DType dtype;
};
struct DeviceObject {
  PyObject_HEAD Device device;
  bool numbered;  // device("cuda") has no index, device("cuda:0") has
};
struct FormatObject {
  PyObject_HEAD MemoryFormat format;
};
struct GeneratorObject;
extern PyTypeObject *dtype_type, *device_type, *format_type, *layout_type, *size_type;

/// Makes the types and their values: dtypes, memory formats, strided.
void add_value_types(PyObject* module);

PyObject* from_dtype(DType dtype);
PyObject* from_device(Device device);
/// A Size, as PyTorch's: a tuple with another name.
PyObject* from_shape(const Shape& shape);
PyObject* from_number(Scalar number);

// ---- parameters --------------------------------------------------------------------------------

/// What a parameter takes. The names say what Python gives.
enum class Kind : uint8_t {
  tensor,
  tensors,
  number,
  integer,
  real,
  boolean,
  sizes,    // an integer, or a list of them
  numbers,  // a list of numbers
  integers,
  dtype,
  device,
  text,
  padding,     // sizes or text
  norm_order,  // a number or text
  format,
  range,  // two numbers
};

/// Whether an object can be given for a parameter of this kind.
bool accepts(Kind kind, PyObject* object);
/// "an integer", …
const char* describe(Kind kind);

bool is_integer(PyObject* object);
bool is_number(PyObject* object);

template <class T>
T get(PyObject* object);
template <>
Scalar get<Scalar>(PyObject* object);
template <>
int64_t get<int64_t>(PyObject* object);
template <>
double get<double>(PyObject* object);
template <>
bool get<bool>(PyObject* object);
template <>
Shape get<Shape>(PyObject* object);
template <>
std::vector<int64_t> get<std::vector<int64_t>>(PyObject* object);
template <>
std::vector<double> get<std::vector<double>>(PyObject* object);
template <>
DType get<DType>(PyObject* object);
template <>
Device get<Device>(PyObject* object);
template <>
std::string_view get<std::string_view>(PyObject* object);
template <>
Reduction get<Reduction>(PyObject* object);
template <>
ConvPadding get<ConvPadding>(PyObject* object);
template <>
linalg::NormOrder get<linalg::NormOrder>(PyObject* object);
template <>
MemoryFormat get<MemoryFormat>(PyObject* object);
template <>
std::vector<Tensor> get<std::vector<Tensor>>(PyObject* object);
template <>
std::pair<double, double> get<std::pair<double, double>>(PyObject* object);

/// An optional parameter: None is no value.
template <class T>
std::optional<T> get_optional(PyObject* object) {
  if (!object || object == Py_None) return {};
  return get<T>(object);
}

/// The keyword arguments dtype, device and requires_grad of a factory, which stand in a row.
TensorOptions get_options(PyObject* const* three, TensorOptions otherwise);

}  // namespace tensora::python
