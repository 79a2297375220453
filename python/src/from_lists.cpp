#include "python/src/tensor_object.h"
#include "python/src/values.h"
#include "tensora/core/fit_scalar.h"
#include "tensora/tensora.h"

// Tensors of numbers and nested lists.

namespace tensora::python {
namespace {

bool is_array(PyObject* object) {
  return PyObject_HasAttrString(object, "__array__") ||
         PyObject_HasAttrString(object, "__dlpack__") ||
         (PyObject_CheckBuffer(object) && !PyBytes_Check(object) && !PyByteArray_Check(object));
}
bool is_list(PyObject* object) {
  return PySequence_Check(object) && !PyUnicode_Check(object) && !PyBytes_Check(object) &&
         !PyDict_Check(object);
}

/// What a nested list is made of: its sizes, from the first items, and the widest kind of number.
struct Outline {
  Shape sizes;
  Scalar::Kind kind = Scalar::Kind::boolean;
  bool numbers = false;             // there is at least one
  std::optional<DType> of_tensors;  // of the items that are tensors of one element
  bool arrays = false;              // some items are arrays with dims

  bool has_items() const { return numbers || of_tensors; }
  /// The dtype of a tensor of these items, if the caller names none.
  DType dtype() const {
    if (!numbers) return of_tensors.value_or(default_dtype());
    const DType own = kind == Scalar::Kind::boolean   ? kBool
                      : kind == Scalar::Kind::integer ? kInt64
                      : kind == Scalar::Kind::complex ? complex_dtype(default_dtype())
                                                      : default_dtype();
    return of_tensors ? promote_types(own, *of_tensors) : own;
  }
};

Scalar::Kind kind_of(PyObject* number) {
  if (PyBool_Check(number)) return Scalar::Kind::boolean;
  if (PyLong_Check(number)) return Scalar::Kind::integer;
  if (PyFloat_Check(number)) return Scalar::Kind::floating;
  return get<Scalar>(number).kind();
}

/// A tensor in a list stands for its only element.
void add_tensor(const Tensor& tensor, Outline& result) {
  if (tensor.numel() != 1)
    raise(PyExc_ValueError, "only one element tensors can be converted to Python scalars");
  result.of_tensors =
      result.of_tensors ? promote_types(*result.of_tensors, tensor.dtype()) : tensor.dtype();
}

void outline(PyObject* object, size_t depth, Outline& result) {
  if (is_tensor(object) || is_number(object)) {
    if (depth != static_cast<size_t>(result.sizes.size()))
      raise(PyExc_ValueError,
            concat("expected a list of length ", result.sizes[static_cast<int>(depth)], " at dim ",
                   depth, ", got a number"));
    if (is_tensor(object)) return add_tensor(tensor_of(object), result);
    result.kind = std::max(result.kind, kind_of(object));
    result.numbers = true;
    return;
  }
  if (is_array(object)) {
    result.arrays = true;
    return;
  }
  if (!is_list(object))
    raise_type_error("new(): invalid data type '", Py_TYPE(object)->tp_name,
                     "': expected numbers and lists of numbers");
  const Owned items(PySequence_Fast(object, "expected a list"));
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(items.get());
  const int64_t expected = result.sizes[static_cast<int>(depth)];
  if (count != expected)
    raise(PyExc_ValueError, concat("expected sequence of length ", expected, " at dim ", depth,
                                   " (got ", count, ")"));
  for (Py_ssize_t i = 0; i < count && !result.arrays; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(items.get(), i);
    if (depth + 1 == static_cast<size_t>(result.sizes.size()) && is_list(item) &&
        !is_number(item) && !is_tensor(item) && !is_array(item))
      raise(PyExc_ValueError, concat("expected a number at dim ", depth + 1, ", got a list"));
    outline(item, depth + 1, result);
  }
}

Outline outline_of(PyObject* object) {
  Outline result;
  Owned first = Owned::borrow(object);
  while (!is_number(first.get()) && !is_tensor(first.get()) && !is_array(first.get()) &&
         is_list(first.get())) {
    const Py_ssize_t count = PySequence_Size(first.get());
    if (count < 0) throw PythonError{};
    if (result.sizes.size() == kMaxDims)
      raise(PyExc_ValueError, concat("lists are nested deeper than ", kMaxDims, " dims"));
    result.sizes.push_back(count);
    if (count == 0) break;
    first = Owned(PySequence_GetItem(first.get(), 0));
  }
  outline(object, 0, result);
  return result;
}

/// Python's integers are unbounded.
void check_fits_int64(PyObject* number) {
  int overflow = 0;
  if (PyLong_Check(number)) PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow) raise(PyExc_ValueError, "Overflow when unpacking long long");
}

/// Reads the numbers. With an integer dtype as the `limit`, each one must fit into that.
template <class T>
void fill(PyObject* object, size_t depth, size_t dims, std::optional<DType> limit, T*& out) {
  if (depth == dims) {
    if constexpr (std::is_same_v<T, int64_t>) check_fits_int64(object);
    if constexpr (!is_complex_type<T> && !std::is_same_v<T, uint64_t>)
      if (limit) fit_scalar(get<Scalar>(object), *limit, "tensor");
    if constexpr (is_complex_type<T>)
      *out++ = get<Scalar>(object).to<Complex<double>>();
    else if constexpr (std::is_same_v<T, double>)
      *out++ = get<double>(object);
    else if constexpr (std::is_same_v<T, uint64_t>) {
      *out++ = PyLong_AsUnsignedLongLong(object);
      if (PyErr_Occurred()) throw PythonError{};
    } else if constexpr (std::is_same_v<T, int64_t>)
      *out++ = get<Scalar>(object).to<int64_t>();
    else
      *out++ = get<bool>(object);
    return;
  }
  const Owned items(PySequence_Fast(object, "expected a list"));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i)
    fill(PySequence_Fast_GET_ITEM(items.get(), i), depth + 1, dims, limit, out);
}

template <class T>
Tensor filled(PyObject* object, const Outline& outline, std::optional<DType> limit = {}) {
  // Not empty(): a tracer would take that for an op and return a stand-in without memory.
  Tensor tensor = make_tensor(outline.sizes, dtype_of<T>, Device());
  T* out = tensor.data_ptr<T>();
  fill(object, 0, static_cast<size_t>(outline.sizes.size()), limit, out);
  return tensor;
}

/// A tensor of the numbers that holds all that `wanted` can hold; it is converted afterwards.
Tensor from_numbers(PyObject* object, const Outline& outline, DType wanted) {
  if (!outline.has_items()) return empty(outline.sizes, {.dtype = default_dtype()});
  const DType found = outline.dtype();
  if (is_complex(found)) {
    if (!is_complex(wanted) && wanted != kBool)
      raise_type_error("must be real number, not complex");
    return filled<Complex<double>>(object, outline);
  }
  const bool to_integers = is_integral(wanted) && wanted != kBool;
  const std::optional<DType> limit = to_integers ? std::optional(wanted) : std::nullopt;
  if (wanted == kUInt64 && !outline.of_tensors && is_integral(found))
    return filled<uint64_t>(object, outline);
  // Integers beyond int64 can still be floats.
  if (is_floating_point(found) || is_floating_point(wanted) || is_complex(wanted))
    return filled<double>(object, outline, limit);
  return found == kBool ? filled<bool>(object, outline) : filled<int64_t>(object, outline, limit);
}

Tensor stack_items(PyObject* object) {
  std::vector<Tensor> tensors;
  const Owned items(PySequence_Fast(object, "expected a list"));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i)
    tensors.push_back(make_from(PySequence_Fast_GET_ITEM(items.get(), i), {}));
  DType dtype = tensors[0].dtype();
  for (Tensor& tensor : tensors) {
    if (tensor.sizes() != tensors[0].sizes())
      raise(PyExc_ValueError, concat("expected arrays of one shape, got ", tensors[0].sizes(),
                                     " and ", tensor.sizes()));
    dtype = promote_types(dtype, tensor.dtype());
  }
  for (Tensor& tensor : tensors) tensor = tensor.to(dtype);
  return stack(tensors);
}

}  // namespace

Tensor make_from(PyObject* data, const TensorOptions& options) {
  Tensor tensor;
  DType dtype = options.dtype.value_or(default_dtype());
  if (is_tensor(data)) {
    tensor = tensor_of(data).detach().clone();
    dtype = options.dtype.value_or(tensor.dtype());
  } else if (!PyLong_Check(data) && !PyList_Check(data) && !PyTuple_Check(data) && is_array(data)) {
    tensor = share_from(data).clone();
    dtype = options.dtype.value_or(tensor.dtype());
  } else {
    const Outline found = outline_of(data);
    if (found.arrays) {
      tensor = stack_items(data);
      dtype = options.dtype.value_or(tensor.dtype());
    } else {
      dtype = options.dtype.value_or(found.dtype());
      tensor = from_numbers(data, found, dtype);
    }
  }
  tensor = tensor.to(dtype);
  if (options.device) tensor = tensor.to(*options.device);
  return options.requires_grad ? tensor.requires_grad_(true) : tensor;
}

}  // namespace tensora::python
