#include "python/src/values.h"

#include "python/src/tensor_object.h"
#include "tensora/tensora.h"

namespace tensora::python {

bool is_integer(PyObject* object) {
  if (PyLong_CheckExact(object)) return true;
  if (PyBool_Check(object) || PyFloat_Check(object)) return false;
  if (is_tensor(object)) {
    const Tensor& tensor = tensor_of(object);
    return tensor.dim() == 0 && is_integral(tensor.dtype());
  }
  // numpy.int64 and the like; an array of one element has __index__ too, and is no number.
  return PyLong_Check(object) ||
         (PyIndex_Check(object) && !PyObject_HasAttrString(object, "__len__"));
}

bool is_number(PyObject* object) {
  if (PyFloat_Check(object) || PyLong_Check(object) || PyComplex_Check(object)) return true;
  if (is_tensor(object)) return tensor_of(object).dim() == 0;
  if (PyIndex_Check(object)) return !PyObject_HasAttrString(object, "__len__");
  const PyNumberMethods* methods = Py_TYPE(object)->tp_as_number;
  return methods && methods->nb_float && !PyUnicode_Check(object) &&
         !PyObject_HasAttrString(object, "__len__");
}

template <>
int64_t get<int64_t>(PyObject* object) {
  if (is_tensor(object)) return tensor_of(object).item<int64_t>();
  const Owned index(PyLong_CheckExact(object) ? Py_NewRef(object) : PyNumber_Index(object));
  const long long value = PyLong_AsLongLong(index.get());
  if (value == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    raise(PyExc_RuntimeError, "Overflow when unpacking long: an integer must fit into 64 bits");
  }
  return value;
}

template <>
double get<double>(PyObject* object) {
  if (PyFloat_Check(object)) return PyFloat_AS_DOUBLE(object);
  if (is_tensor(object)) return tensor_of(object).item<double>();
  const double value = PyFloat_AsDouble(object);
  if (value == -1 && PyErr_Occurred()) throw PythonError{};
  return value;
}

template <>
bool get<bool>(PyObject* object) {
  const int value = PyObject_IsTrue(object);
  if (value < 0) throw PythonError{};
  return value != 0;
}

template <>
Scalar get<Scalar>(PyObject* object) {
  if (PyFloat_Check(object)) return PyFloat_AS_DOUBLE(object);
  if (PyBool_Check(object)) return object == Py_True;
  if (PyLong_Check(object)) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow) raise(PyExc_OverflowError, "an integer must fit into 64 bits");
    return static_cast<int64_t>(value);
  }
  if (PyComplex_Check(object)) {
    const Py_complex value = PyComplex_AsCComplex(object);
    return Complex<double>(value.real, value.imag);
  }
  if (is_tensor(object)) return tensor_of(object).item();
  if (strstr(Py_TYPE(object)->tp_name, "bool")) return get<bool>(object);  // numpy's
  if (PyIndex_Check(object)) return get<int64_t>(object);
  if (strstr(Py_TYPE(object)->tp_name, "complex")) {
    const Py_complex value = PyComplex_AsCComplex(object);
    return Complex<double>(value.real, value.imag);
  }
  return get<double>(object);
}

template <>
std::vector<int64_t> get<std::vector<int64_t>>(PyObject* object) {
  std::vector<int64_t> result;
  if (is_integer(object)) return {get<int64_t>(object)};
  if (is_tensor(object)) {
    const Tensor flat = tensor_of(object).reshape({-1}).to(kInt64).cpu().contiguous();
    const int64_t* data = flat.data_ptr<int64_t>();
    return {data, data + flat.numel()};
  }
  const Owned items(PySequence_Fast(object, "expected a list of integers"));
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(items.get());
  result.reserve(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i)
    result.push_back(get<int64_t>(PySequence_Fast_GET_ITEM(items.get(), i)));
  return result;
}

template <>
Shape get<Shape>(PyObject* object) {
  Shape result;
  if (PyTuple_Check(object)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      result.push_back(get<int64_t>(PyTuple_GET_ITEM(object, i)));
    return result;
  }
  if (object == Py_None) return result;
  if (is_integer(object)) return Shape(get<int64_t>(object));
  return Shape(get<std::vector<int64_t>>(object));
}

template <>
std::vector<double> get<std::vector<double>>(PyObject* object) {
  std::vector<double> result;
  if (is_number(object)) return {get<double>(object)};
  const Owned items(PySequence_Fast(object, "expected a list of numbers"));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i)
    result.push_back(get<double>(PySequence_Fast_GET_ITEM(items.get(), i)));
  return result;
}

template <>
DType get<DType>(PyObject* object) {
  if (Py_TYPE(object) == dtype_type) return reinterpret_cast<DTypeObject*>(object)->dtype;
  // Python's own types stand for dtypes, as in PyTorch.
  if (object == reinterpret_cast<PyObject*>(&PyFloat_Type)) return kFloat64;
  if (object == reinterpret_cast<PyObject*>(&PyBool_Type)) return kBool;
  if (object == reinterpret_cast<PyObject*>(&PyLong_Type)) return kInt64;
  if (object == reinterpret_cast<PyObject*>(&PyComplex_Type)) return kComplex128;
  raise_type_error("expected a dtype such as tensora.float32, got ", Py_TYPE(object)->tp_name);
}

template <>
Device get<Device>(PyObject* object) {
  if (Py_TYPE(object) == device_type) return reinterpret_cast<DeviceObject*>(object)->device;
  if (PyLong_Check(object)) return Device(DeviceType::cuda, static_cast<int>(get<int64_t>(object)));
  if (PyUnicode_Check(object)) return Device(to_text(object));
  raise_type_error("expected a device such as 'cpu' or 'cuda:0', got ", Py_TYPE(object)->tp_name);
}

template <>
std::string_view get<std::string_view>(PyObject* object) {
  Py_ssize_t length = 0;
  const char* text = PyUnicode_AsUTF8AndSize(object, &length);
  if (!text) throw PythonError{};
  return {text, static_cast<size_t>(length)};
}
template <>
Reduction get<Reduction>(PyObject* object) {
  return Reduction(get<std::string_view>(object));
}
template <>
ConvPadding get<ConvPadding>(PyObject* object) {
  if (PyUnicode_Check(object)) return ConvPadding(get<std::string_view>(object));
  return ConvPadding(get<Shape>(object));
}
template <>
linalg::NormOrder get<linalg::NormOrder>(PyObject* object) {
  if (PyUnicode_Check(object)) return linalg::NormOrder(get<std::string_view>(object));
  return linalg::NormOrder(get<double>(object));
}
template <>
MemoryFormat get<MemoryFormat>(PyObject* object) {
  return reinterpret_cast<FormatObject*>(object)->format;
}
template <>
std::vector<Tensor> get<std::vector<Tensor>>(PyObject* object) {
  std::vector<Tensor> result;
  const Owned items(PySequence_Fast(object, "expected a list of tensors"));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(items.get(), i);
    if (item != Py_None && !is_tensor(item))
      raise_type_error("expected Tensor as element ", i, " of a list, but got ",
                       Py_TYPE(item)->tp_name);
    result.push_back(tensor_argument(item));
  }
  return result;
}
template <>
std::pair<double, double> get<std::pair<double, double>>(PyObject* object) {
  const auto numbers = get<std::vector<double>>(object);
  if (numbers.size() != 2) raise_type_error("expected two numbers, got ", numbers.size());
  return {numbers[0], numbers[1]};
}

TensorOptions get_options(PyObject* const* three, TensorOptions otherwise) {
  if (three[0] && three[0] != Py_None) otherwise.dtype = get<DType>(three[0]);
  if (three[1] && three[1] != Py_None) otherwise.device = get<Device>(three[1]);
  if (three[2] && three[2] != Py_None) otherwise.requires_grad = get<bool>(three[2]);
  return otherwise;
}

// ---- which object fits which parameter ------------------------------------------------------

namespace {

template <class Item>
bool all_items(PyObject* object, Item&& fits) {
  if (!is_sequence(object)) return false;
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(object);
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!fits(PySequence_Fast_GET_ITEM(object, i))) return false;
  return true;
}

bool is_dtype(PyObject* object) {
  return Py_TYPE(object) == dtype_type || object == reinterpret_cast<PyObject*>(&PyFloat_Type) ||
         object == reinterpret_cast<PyObject*>(&PyBool_Type) ||
         object == reinterpret_cast<PyObject*>(&PyLong_Type) ||
         object == reinterpret_cast<PyObject*>(&PyComplex_Type);
}

}  // namespace

bool accepts(Kind kind, PyObject* object) {
  switch (kind) {
    case Kind::tensor:
      return is_tensor(object);
    case Kind::tensors:
      return all_items(object, [](PyObject* o) { return o == Py_None || is_tensor(o); });
    case Kind::number:
      return is_number(object);
    case Kind::integer:
      return is_integer(object);
    case Kind::real:
      return !PyComplex_Check(object) && is_number(object);
    case Kind::boolean:
      return PyBool_Check(object) || strncmp(Py_TYPE(object)->tp_name, "numpy.bool", 10) == 0;
    case Kind::sizes:
      return is_integer(object) || all_items(object, is_integer);
    case Kind::integers:
      return is_integer(object) || all_items(object, is_integer) ||
             (is_tensor(object) && is_integral(tensor_of(object).dtype()));
    case Kind::numbers:
      return is_number(object) || all_items(object, is_number);
    case Kind::dtype:
      return is_dtype(object);
    case Kind::device:
      return Py_TYPE(object) == device_type || PyUnicode_Check(object) ||
             (PyLong_Check(object) && !PyBool_Check(object));
    case Kind::text:
      return PyUnicode_Check(object);
    case Kind::padding:
      return PyUnicode_Check(object) || accepts(Kind::sizes, object);
    case Kind::norm_order:
      return PyUnicode_Check(object) || is_number(object);
    case Kind::format:
      return Py_TYPE(object) == format_type;
    case Kind::range:
      return all_items(object, is_number) && PySequence_Fast_GET_SIZE(object) == 2;
  }
  return false;
}

const char* describe(Kind kind) {
  switch (kind) {
    case Kind::tensor:
      return "Tensor";
    case Kind::tensors:
      return "list of Tensors";
    case Kind::number:
      return "Number";
    case Kind::integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::boolean:
      return "bool";
    case Kind::sizes:
      return "int or list of ints";
    case Kind::integers:
      return "list of ints";
    case Kind::numbers:
      return "list of floats";
    case Kind::dtype:
      return "dtype";
    case Kind::device:
      return "device";
    case Kind::text:
      return "str";
    case Kind::padding:
      return "int, list of ints or str";
    case Kind::norm_order:
      return "Number or str";
    case Kind::format:
      return "memory_format";
    case Kind::range:
      return "pair of floats";
  }
  return "";
}

}  // namespace tensora::python
