#include <algorithm>

#include "python/src/overrides.h"
#include "python/src/tensor_object.h"
#include "python/src/values.h"
#include "tensora/tensora.h"

// x[...] and x[...] = y.

namespace tensora::python {
namespace {

std::optional<int64_t> bound(PyObject* object) {
  if (object == Py_None) return {};
  if (!is_integer(object))
    raise_type_error("slice indices must be integers or None or have an __index__ method");
  const Owned index(PyNumber_Index(object));
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(index.get(), &overflow);
  if (overflow) return overflow > 0 ? INT64_MAX : INT64_MIN;
  return value;
}

Slice slice_of(PyObject* object) {
  auto* slice = reinterpret_cast<PySliceObject*>(object);
  const std::optional<int64_t> step = bound(slice->step);
  if (step && *step <= 0) raise(PyExc_ValueError, "step must be greater than zero");
  return {bound(slice->start), bound(slice->stop), step};
}

/// A list, or an array of another library, as a tensor of indices.
Tensor positions(PyObject* object) {
  Tensor tensor = make_from(object, {});
  if (tensor.numel() == 0 && is_sequence(object)) return tensor.to(kInt64);
  return tensor;
}

TensorIndex entry(PyObject* object) {
  if (PyBool_Check(object)) return TensorIndex(object == Py_True);
  if (PyLong_Check(object)) return TensorIndex(get<int64_t>(object));
  if (PySlice_Check(object)) return TensorIndex(slice_of(object));
  if (object == Py_None) return TensorIndex(None);
  if (object == Py_Ellipsis) return TensorIndex(Ellipsis);
  if (is_tensor(object)) {
    const Tensor& tensor = tensor_of(object);
    // A tensor of one integer is an index of its own kind: it gives a view, as a number does.
    if (tensor.dim() == 0 && is_integral(tensor.dtype()) && tensor.dtype() != kUInt8)
      return TensorIndex(tensor.item<int64_t>());
    if (tensor.dtype() == kUInt8) return TensorIndex(tensor.to(kBool));
    return TensorIndex(tensor);
  }
  if (is_sequence(object) || PyObject_HasAttrString(object, "__array__"))
    return TensorIndex(positions(object));
  if (PyIndex_Check(object)) return TensorIndex(get<int64_t>(object));
  if (PyRange_Check(object)) return TensorIndex(positions(Owned(PySequence_List(object)).get()));
  raise(PyExc_IndexError,
        concat("only integers, slices (`:`), ellipsis (`...`), None and long or bool tensors are "
               "valid indices (got ",
               Py_TYPE(object)->tp_name, ")"));
}

bool holds_other_than_numbers(PyObject* list) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    PyObject* item = PyList_GET_ITEM(list, i);
    if (PySlice_Check(item) || item == Py_None || item == Py_Ellipsis) return true;
  }
  return false;
}

std::vector<TensorIndex> entries(PyObject* index) {
  std::vector<TensorIndex> result;
  if (PyTuple_Check(index) || (PyList_Check(index) && holds_other_than_numbers(index))) {
    const Owned items(PySequence_Fast(index, "an index"));
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(items.get());
    result.reserve(static_cast<size_t>(count));
    for (Py_ssize_t i = 0; i < count; ++i)
      result.push_back(entry(PySequence_Fast_GET_ITEM(items.get(), i)));
  } else {
    result.push_back(entry(index));
  }
  return result;
}

/// An index beyond the end is an IndexError, which also ends a for loop over x[i].
[[noreturn]] void raise_index_error(const Error& error) { raise(PyExc_IndexError, error.what()); }

/// What a class with __torch_function__ among the operands makes of Tensor.__getitem__ or
/// __setitem__; null if there is none.
PyObject* overridden(const char* name, std::initializer_list<PyObject*> operands) {
  if (!tensors_override()) return nullptr;
  const Owned function(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), name));
  const auto count = static_cast<Py_ssize_t>(operands.size());
  return call_override(function.get(), {operands.begin(), count, nullptr}, /*tensors=*/true);
}

}  // namespace

PyObject* tensor_subscript(PyObject* self, PyObject* index_object) {
  return guarded([&]() -> PyObject* {
    const Tensor& tensor = tensor_of(self);
    if (PyLong_CheckExact(index_object)) {
      const int64_t i = get<int64_t>(index_object);
      if (tensor.dim() == 0)
        raise(PyExc_IndexError,
              "invalid index of a 0-dim tensor. Use `tensor.item()` to convert it to a number");
      if (i >= tensor.size(0) || i < -tensor.size(0))
        raise(PyExc_IndexError,
              concat("index ", i, " is out of bounds for dimension 0 with size ", tensor.size(0)));
      return wrap(select(tensor, 0, i));
    }
    if (PyObject* result = overridden("__getitem__", {self, index_object})) return result;
    const std::vector<TensorIndex> list = entries(index_object);
    try {
      Tensor result;
      {
        const ReleaseGil free(worth_releasing(tensor));
        result = index(tensor, list);
      }
      // What only renames the whole tensor is a new tensor too, as x[...] is in PyTorch.
      return wrap(result.is_same(tensor) ? tensor.view(tensor.sizes()) : std::move(result));
    } catch (const Error& error) {
      raise_index_error(error);
    }
  });
}

int tensor_assign_subscript(PyObject* self, PyObject* index_object, PyObject* value) {
  return guarded(
      [&] {
        if (!value) raise_type_error("Tensor does not support deleting items");
        if (PyObject* result = overridden("__setitem__", {self, index_object, value})) {
          Py_DECREF(result);
          return 0;
        }
        const Tensor& tensor = tensor_of(self);
        const std::vector<TensorIndex> list = entries(index_object);
        if (is_tensor(value)) {
          const ReleaseGil free(worth_releasing(tensor));
          index_put_(tensor, list, tensor_of(value));
        } else if (is_number(value)) {
          index_put_(tensor, list, get<Scalar>(value));
        } else {
          index_put_(tensor, list, make_from(value, {.dtype = tensor.dtype()}));
        }
        return 0;
      },
      -1);
}

namespace {

// Unlike an assignment, index_put_ drops no leading dims of its values, but where a mask takes one
// number.
void check_dims(const Tensor& tensor, const std::vector<TensorIndex>& list, const Tensor& values,
                bool accumulate) {
  int rest = tensor.dim(), indexed = 0;
  for (const TensorIndex& entry : list) {
    rest -= entry.kind == TensorIndex::Kind::integer;  // a 0-dim tensor
    if (entry.kind != TensorIndex::Kind::tensor) continue;
    const bool mask = entry.tensor.dtype() == kBool || entry.tensor.dtype() == kUInt8;
    if (mask && values.numel() == 1 && !accumulate) return;
    rest -= mask ? entry.tensor.dim() : 1;
    indexed = std::max(indexed, mask ? 1 : entry.tensor.dim());
  }
  check(rest < 0 || values.dim() <= rest + indexed, "index_put_: shape mismatch: values of shape ",
        values.sizes(), " cannot be broadcast to the ", rest + indexed, " indexed dimensions");
}

}  // namespace

PyObject* tensor_index_put(PyObject* self, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *indices = nullptr, *value = nullptr;
    int accumulate = 0;
    if (!PyArg_ParseTuple(args, "O!Op", &PyTuple_Type, &indices, &value, &accumulate))
      return nullptr;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(indices); ++i)
      if (!is_tensor(PyTuple_GET_ITEM(indices, i)))
        raise_type_error(concat("index_put_: expected a tensor as index ", i));
    const std::vector<TensorIndex> list = entries(indices);
    const Tensor& tensor = tensor_of(self);
    const Tensor values =
        is_tensor(value) ? tensor_of(value) : make_from(value, {.dtype = tensor.dtype()});
    check_dims(tensor, list, values, accumulate != 0);
    index_put_(tensor, list, values, accumulate != 0);
    return Py_NewRef(self);
  });
}

}  // namespace tensora::python
