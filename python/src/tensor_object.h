#pragma once

#include "python/src/object.h"

namespace tensora::python {

// Note [One object per tensor]
// A tensor has at most one Python object; `TensorImpl::wrapper` points to it, so that a tensor
// which travels through C++ comes back as the same object, with the attributes that were set on it.
// The object owns the tensor. When Python drops the object while C++ still holds the tensor, and
// the object has something to lose (attributes, or a class of its own), ownership turns round: the
// tensor keeps the object (`owns_wrapper`) until Python sees it again or the tensor dies. All of
// this happens under the GIL.
struct TensorObject {
  PyObject_HEAD Tensor tensor;  // undefined while the tensor owns the object
  PyObject* attributes;         // __dict__, made when the first attribute is set
  PyObject* weak_references;
  TensorImpl* owner;  // the tensor, while it owns the object
};

extern PyTypeObject* tensor_type;
void add_tensor_type(PyObject* module);

inline bool is_tensor(PyObject* object) {
  return Py_TYPE(object) == tensor_type || PyObject_TypeCheck(object, tensor_type) != 0;
}
inline const Tensor& tensor_of(PyObject* object) {
  return reinterpret_cast<TensorObject*>(object)->tensor;
}
/// The tensor of an argument; undefined for None and for an argument that was left out.
const Tensor& tensor_argument(PyObject* object);

/// The tensor's object; a new one if it has none. None for an undefined tensor.
PyObject* wrap(Tensor tensor);
/// The class of objects for sparse tensors, tensora.sparse.Sparse.
PyTypeObject* type_for_sparse();
/// A new object of a subclass for a tensor that has none yet.
PyObject* wrap_as(PyTypeObject* type, Tensor tensor);
PyObject* wrap_all(std::span<const Tensor> tensors);

/// Kernels of small tensors are faster than giving the GIL away and taking it back.
inline constexpr int64_t kReleaseFrom = 4096;
inline bool worth_releasing(const Tensor& tensor) {
  return tensor.defined() && tensor.numel() >= kReleaseFrom;
}

// The parts of the type that have a source of their own.
PyObject* tensor_subscript(PyObject* self, PyObject* index);
int tensor_assign_subscript(PyObject* self, PyObject* index, PyObject* value);
PyObject* tensor_index_put(PyObject* self, PyObject* args);
PyObject* tensor_compare(PyObject* a, PyObject* b, int op);
extern PyType_Slot tensor_number_slots[];
extern PyMethodDef exchange_methods[], autograd_methods[];
extern PyMethodDef sparse_methods[];  // functions of the module
extern PyGetSetDef autograd_properties[];
int tensor_get_buffer(PyObject* self, Py_buffer* view, int flags);
void tensor_release_buffer(PyObject* self, Py_buffer* view);

/// A tensor of what Python gives: numbers, nested lists, arrays, tensors. Copies.
Tensor make_from(PyObject* data, const TensorOptions& options);
/// The tensor's `.data`: the same memory outside the graph, with a version counter of its own.
Tensor data_of(const Tensor& tensor);
/// A tensor that shares the memory of an object with __dlpack__, the buffer protocol or __array__.
Tensor share_from(PyObject* object);

}  // namespace tensora::python
