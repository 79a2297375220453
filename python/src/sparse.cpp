#include "python/src/tensor_object.h"
#include "python/src/values.h"
#include "tensora/autograd/sparse_gradient.h"

// Sparse tensors: Python's class Sparse has the ops, the tensor itself the entries, so that
// gradients pass through C++. See Note [Sparse gradients].

namespace tensora::python {
namespace {

PyTypeObject* sparse_type = nullptr;

SparseParts& parts_of(PyObject* object) {
  if (!is_tensor(object)) raise_type_error("expected a Tensor, got ", Py_TYPE(object)->tp_name);
  SparseParts* const parts = sparse_parts(tensor_of(object));
  check(parts, "expected a sparse tensor");
  return *parts;
}

/// _make_sparse(indices, values, shape, coalesced)
PyObject* make(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *indices = nullptr, *values = nullptr, *shape = nullptr;
    int coalesced = 0;
    if (!PyArg_ParseTuple(args, "O!O!Op", tensor_type, &indices, tensor_type, &values, &shape,
                          &coalesced))
      return nullptr;
    return wrap(
        make_sparse({tensor_of(indices), tensor_of(values), coalesced != 0}, get<Shape>(shape)));
  });
}

/// _sparse_parts(tensor) -> (indices, values, coalesced)
PyObject* get_parts(PyObject*, PyObject* object) {
  return guarded([&]() -> PyObject* {
    const SparseParts& parts = parts_of(object);
    const Owned indices(wrap(parts.indices)), values(wrap(parts.values));
    return PyTuple_Pack(3, indices.get(), values.get(), parts.coalesced ? Py_True : Py_False);
  });
}

/// _set_sparse_parts(tensor, indices, values, coalesced)
PyObject* set_parts(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *target = nullptr, *indices = nullptr, *values = nullptr;
    int coalesced = 0;
    if (!PyArg_ParseTuple(args, "O!O!O!p", tensor_type, &target, tensor_type, &indices, tensor_type,
                          &values, &coalesced))
      return nullptr;
    parts_of(target) = {tensor_of(indices), tensor_of(values), coalesced != 0};
    Py_RETURN_NONE;
  });
}

/// _set_sparse_type(type): the class of sparse tensors.
PyObject* set_type(PyObject*, PyObject* type) {
  return guarded([&]() -> PyObject* {
    if (!PyType_Check(type) ||
        !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), tensor_type))
      raise_type_error("expected a subclass of Tensor");
    sparse_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(type));
    Py_RETURN_NONE;
  });
}

}  // namespace

PyTypeObject* type_for_sparse() {
  if (!sparse_type) const Owned imported(PyImport_ImportModule("tensora.sparse"));
  return sparse_type;
}

PyMethodDef sparse_methods[] = {{"_make_sparse", make, METH_VARARGS, nullptr},
                                {"_sparse_parts", get_parts, METH_O, nullptr},
                                {"_set_sparse_parts", set_parts, METH_VARARGS, nullptr},
                                {"_set_sparse_type", set_type, METH_O, nullptr},
                                {nullptr, nullptr, 0, nullptr}};

}  // namespace tensora::python
