#include "python/src/tensor_object.h"

#include <structmember.h>

#include "python/src/values.h"
#include "tensora/autograd/sparse_gradient.h"
#include "tensora/tensora.h"

namespace tensora::python {

PyTypeObject* tensor_type = nullptr;

namespace {

TensorObject* object_of(PyObject* self) { return reinterpret_cast<TensorObject*>(self); }

// ---- life: see Note [One object per tensor] -----------------------------------------------------

// Python finalizes a collected object once; an object that came back may lose its references again.
// The flag is the lowest bit of the word before the object in every CPython since 3.4.
void forget_finalized(PyObject* self) {
  auto* words = reinterpret_cast<uintptr_t*>(self);
  words[-1] &= ~uintptr_t{1};
}

/// Gives the object back to Python, which then owns the tensor again.
void take_back(TensorObject* object, Tensor tensor) {
  TensorImpl& impl = tensor.impl();
  impl.owns_wrapper = false;
  object->owner = nullptr;
  object->tensor = std::move(tensor);
  if (PyObject_GC_IsFinalized(reinterpret_cast<PyObject*>(object)))
    forget_finalized(reinterpret_cast<PyObject*>(object));
}

/// The tensor died and owned its object.
void release_wrapper(void* wrapper) noexcept {
  if (!Py_IsInitialized()) return;
  const HoldGil gil;
  auto* object = static_cast<TensorObject*>(wrapper);
  object->owner = nullptr;
  Py_DECREF(reinterpret_cast<PyObject*>(object));
}

bool has_something_to_lose(TensorObject* object) {
  return object->attributes || object->weak_references ||
         Py_TYPE(reinterpret_cast<PyObject*>(object)) != tensor_type;
}

/// Python's last reference goes. If C++ still holds the tensor, the object becomes the tensor's.
void finalize(PyObject* self) {
  TensorObject* object = object_of(self);
  if (!object->tensor.defined() || !has_something_to_lose(object)) return;
  TensorImpl& impl = object->tensor.impl();
  if (impl.use_count() <= 1) return;
  Py_INCREF(self);  // the tensor's reference
  object->owner = &impl;
  impl.owns_wrapper = true;
  const Tensor dropped = std::exchange(object->tensor, {});
}

void clear_tensor(TensorObject* object) {
  if (!object->tensor.defined()) return;
  object->tensor.impl().wrapper = nullptr;
  const Tensor dropped = std::exchange(object->tensor, {});
}

void dealloc(PyObject* self) {
  TensorObject* object = object_of(self);
  PyTypeObject* type = Py_TYPE(self);
  const bool exact = type == tensor_type;
  if (exact && has_something_to_lose(object) && PyObject_CallFinalizerFromDealloc(self) < 0) return;
  PyObject_GC_UnTrack(self);
  if (object->weak_references) PyObject_ClearWeakRefs(self);
  Py_CLEAR(object->attributes);
  clear_tensor(object);
  object->tensor.~Tensor();
  type->tp_free(self);
  Py_DECREF(type);  // a subclass's dealloc leaves that to its base
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(object_of(self)->attributes);
  return 0;
}
int clear(PyObject* self) {
  Py_CLEAR(object_of(self)->attributes);
  return 0;
}

// Only an object with attributes can be part of a cycle, so only then does the collector look at
// it.
int set_attribute(PyObject* self, PyObject* name, PyObject* value) {
  const int result = PyObject_GenericSetAttr(self, name, value);
  if (object_of(self)->attributes && !PyObject_GC_IsTracked(self)) PyObject_GC_Track(self);
  return result;
}

}  // namespace

const Tensor& tensor_argument(PyObject* object) {
  static const Tensor undefined;
  return object && object != Py_None ? tensor_of(object) : undefined;
}

PyObject* wrap_as(PyTypeObject* type, Tensor tensor) {
  ensure(!tensor.impl().wrapper, "wrap_as: the tensor has an object already");
  PyObject* self = nullptr;
  if (type == tensor_type) {
    TensorObject* object = PyObject_GC_New(TensorObject, type);
    if (!object) throw PythonError{};
    object->attributes = object->weak_references = nullptr;
    object->owner = nullptr;
    self = reinterpret_cast<PyObject*>(object);
  } else {
    self = Owned(type->tp_alloc(type, 0)).release();
  }
  tensor.impl().wrapper = self;
  new (&object_of(self)->tensor) Tensor(std::move(tensor));
  return self;
}

PyObject* wrap(Tensor tensor) {
  if (!tensor.defined()) Py_RETURN_NONE;
  TensorImpl& impl = tensor.impl();
  if (!impl.wrapper) {
    PyTypeObject* const type = is_sparse(tensor) ? type_for_sparse() : tensor_type;
    return wrap_as(type, std::move(tensor));
  }
  auto* object = static_cast<TensorObject*>(impl.wrapper);
  if (impl.owns_wrapper) {
    take_back(object, std::move(tensor));  // with the reference that was the tensor's
    return reinterpret_cast<PyObject*>(object);
  }
  return Py_NewRef(reinterpret_cast<PyObject*>(object));
}

PyObject* wrap_all(std::span<const Tensor> tensors) {
  Owned result(PyTuple_New(static_cast<Py_ssize_t>(tensors.size())));
  for (size_t i = 0; i < tensors.size(); ++i)
    PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i), wrap(tensors[i]));
  return result.release();
}

namespace {

// ---- construction ------------------------------------------------------------------------------

// Tensor(2, 3) is an uninitialised tensor, Tensor([2, 3]) one of these numbers, as in PyTorch.
Tensor legacy_new(PyObject* args) {
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  bool sizes = count > 0;
  for (Py_ssize_t i = 0; i < count; ++i) sizes &= PyLong_Check(PyTuple_GET_ITEM(args, i)) != 0;
  if (sizes) return empty(get<Shape>(args));
  if (count == 0) return empty({0});
  PyObject* data = PyTuple_GET_ITEM(args, 0);
  if (Py_TYPE(data) == size_type) return empty(get<Shape>(data));
  if (is_tensor(data)) return tensor_of(data).detach();
  return make_from(data, {.dtype = default_dtype()});
}

PyObject* tensor_new(PyTypeObject* type, PyObject* args, PyObject*) {
  return guarded([&] {
    Tensor tensor = legacy_new(args);
    return tensor.impl().wrapper ? wrap(tensor) : wrap_as(type, std::move(tensor));
  });
}

/// Tensor._make_subclass(cls, data, require_grad=False): a new object of a subclass over the data.
PyObject* make_subclass(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyTypeObject* type = nullptr;
    PyObject* data = nullptr;
    int requires_grad = 0;
    if (!PyArg_ParseTuple(args, "O!O!|p", &PyType_Type, &type, tensor_type, &data, &requires_grad))
      return nullptr;
    // Memory of another type would be read as a tensor.
    if (!PyType_IsSubtype(type, tensor_type))
      raise_type_error("_make_subclass: expected a subclass of Tensor, got ", type->tp_name);
    Tensor tensor = tensor_of(data).detach();
    if (requires_grad) tensor.requires_grad_(true);
    return wrap_as(type, std::move(tensor));
  });
}

/// x.as_subclass(cls): an object of a subclass over the same memory, in the same graph.
PyObject* as_subclass(PyObject* self, PyObject* type) {
  return guarded([&]() -> PyObject* {
    if (!PyType_Check(type) ||
        !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), tensor_type))
      raise_type_error("as_subclass: expected a subclass of Tensor");
    const Tensor& tensor = tensor_of(self);
    return wrap_as(reinterpret_cast<PyTypeObject*>(type), tensor.view(tensor.sizes()));
  });
}

// ---- properties --------------------------------------------------------------------------------

template <auto read>
PyObject* property(PyObject* self, void*) {
  return guarded([&] { return read(tensor_of(self)); });
}
PyObject* get_shape(const Tensor& t) { return from_shape(t.sizes()); }
PyObject* get_dtype(const Tensor& t) { return from_dtype(t.dtype()); }
PyObject* get_device(const Tensor& t) { return from_device(t.device()); }
PyObject* get_ndim(const Tensor& t) { return PyLong_FromLong(t.dim()); }
PyObject* get_itemsize(const Tensor& t) { return PyLong_FromSize_t(t.element_size()); }
PyObject* get_nbytes(const Tensor& t) { return PyLong_FromSize_t(t.nbytes()); }
PyObject* get_is_cuda(const Tensor& t) { return PyBool_FromLong(t.is_cuda()); }
PyObject* get_is_cpu(const Tensor& t) { return PyBool_FromLong(t.is_cpu()); }
PyObject* get_is_meta(const Tensor& t) { return PyBool_FromLong(t.is_meta()); }
PyObject* get_is_quantized(const Tensor& t) { return PyBool_FromLong(t.is_quantized()); }
PyObject* get_T(const Tensor& t) { return wrap(numpy_T(t)); }
PyObject* get_mT(const Tensor& t) { return wrap(mT(t)); }
PyObject* get_mH(const Tensor& t) { return wrap(mH(t)); }
PyObject* get_real(const Tensor& t) { return wrap(t.is_complex() ? real(t) : t); }
PyObject* get_imag(const Tensor& t) { return wrap(imag(t)); }
PyObject* get_version(const Tensor& t) { return PyLong_FromUnsignedLong(t.version()); }

PyObject* tensor_size(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    const Tensor& tensor = tensor_of(self);
    if (count == 0 || args[0] == Py_None) return from_shape(tensor.sizes());
    return PyLong_FromLongLong(tensor.size(get<int64_t>(args[0])));
  });
}
PyObject* tensor_stride(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    const Tensor& tensor = tensor_of(self);
    if (count > 0 && args[0] != Py_None)
      return PyLong_FromLongLong(tensor.stride(get<int64_t>(args[0])));
    const Owned size(from_shape(tensor.strides()));
    return PySequence_Tuple(size.get());
  });
}
PyObject* tensor_dim(PyObject* self, PyObject*) { return PyLong_FromLong(tensor_of(self).dim()); }
PyObject* tensor_numel(PyObject* self, PyObject*) {
  return PyLong_FromLongLong(tensor_of(self).numel());
}
PyObject* tensor_element_size(PyObject* self, PyObject*) {
  return guarded([&] { return PyLong_FromSize_t(tensor_of(self).element_size()); });
}
PyObject* tensor_storage_offset(PyObject* self, PyObject*) {
  return PyLong_FromLongLong(tensor_of(self).storage_offset());
}
PyObject* tensor_data_ptr(PyObject* self, PyObject*) {
  return guarded([&] { return PyLong_FromVoidPtr(tensor_of(self).data_ptr()); });
}
PyObject* tensor_floating(PyObject* self, PyObject*) {
  return PyBool_FromLong(tensor_of(self).is_floating_point());
}
PyObject* tensor_is_complex(PyObject* self, PyObject*) {
  return PyBool_FromLong(tensor_of(self).is_complex());
}
PyObject* shares_storage(PyObject* self, PyObject* other) {
  return guarded([&] {
    if (!is_tensor(other)) raise_type_error("expected a Tensor");
    const TensorImpl &a = tensor_of(self).impl(), &b = tensor_of(other).impl();
    if (a.storage == b.storage) Py_RETURN_TRUE;
    return PyBool_FromLong(a.storage && b.storage && a.storage->data() &&
                           a.storage->data() == b.storage->data());
  });
}

Scalar single(PyObject* self) {
  const Tensor& tensor = tensor_of(self);
  const ReleaseGil waits(!tensor.is_cpu());
  return tensor.item();
}
PyObject* tensor_item(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    // A Scalar holds no more than int64.
    const Tensor& tensor = tensor_of(self);
    if (tensor.dtype() == kUInt64 && tensor.numel() == 1)
      return PyLong_FromUnsignedLongLong(to_vector<uint64_t>(tensor)[0]);
    return from_number(single(self));
  });
}
int tensor_bool(PyObject* self) {
  return guarded(
      [&] {
        const Tensor& tensor = tensor_of(self);
        check(tensor.numel() == 1, "Boolean value of Tensor with ",
              tensor.numel() == 0 ? "no values" : "more than one value", " is ambiguous");
        const auto value = single(self).to<Complex<double>>();
        return static_cast<int>(value.re != 0 || value.im != 0);
      },
      -1);
}
// The element of a complex tensor too, where it is real.
Scalar single_real(PyObject* self) {
  const Scalar value = single(self);
  if (!value.is_complex()) return value;
  const auto number = value.to<Complex<double>>();
  check(number.im == 0, "a complex number with an imaginary part of ", number.im,
        " cannot be converted to a real number");
  return number.re;
}
PyObject* tensor_float(PyObject* self) {
  return guarded([&] { return PyFloat_FromDouble(single_real(self).to<double>()); });
}
PyObject* tensor_int(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const Scalar value = single_real(self);
    if (!value.is_floating()) return PyLong_FromLongLong(value.to<int64_t>());
    return PyLong_FromDouble(value.to<double>());
  });
}
PyObject* tensor_index(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const Tensor& tensor = tensor_of(self);
    if (tensor.numel() != 1 || tensor.is_floating_point() || tensor.is_complex())
      raise_type_error("only integer tensors of a single element can be converted to an index");
    return PyLong_FromLongLong(single(self).to<int64_t>());
  });
}
Py_ssize_t tensor_length(PyObject* self) {
  return guarded(
      [&]() -> Py_ssize_t {
        if (tensor_of(self).dim() == 0) raise_type_error("len() of a 0-d tensor");
        return tensor_of(self).size(0);
      },
      Py_ssize_t{-1});
}
PyObject* tensor_repr(PyObject* self) {
  return guarded([&] { return from_text(tensor_of(self).to_string()); });
}
Py_hash_t tensor_hash(PyObject* self) {
  return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(self) >> 4);
}
PyObject* tensor_iter(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const Tensor& tensor = tensor_of(self);
    if (tensor.dim() == 0) raise_type_error("iteration over a 0-d tensor");
    const std::vector<Tensor> rows = tensor.unbind(0);
    const Owned tuple(wrap_all(rows));
    return PyObject_GetIter(tuple.get());
  });
}

PyMethodDef tensor_methods[] = {
    {"size", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(tensor_size)),
     METH_FASTCALL, "size(dim=None)\n--\n\nThe sizes, or that of one dim."},
    {"stride", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(tensor_stride)),
     METH_FASTCALL, "stride(dim=None)\n--\n\nThe strides, in elements, or that of one dim."},
    {"dim", tensor_dim, METH_NOARGS, "The number of dims."},
    {"ndimension", tensor_dim, METH_NOARGS, "The number of dims."},
    {"numel", tensor_numel, METH_NOARGS, "The number of elements."},
    {"nelement", tensor_numel, METH_NOARGS, "The number of elements."},
    {"element_size", tensor_element_size, METH_NOARGS, "Bytes of an element."},
    {"storage_offset", tensor_storage_offset, METH_NOARGS, "Where the storage's part begins."},
    {"data_ptr", tensor_data_ptr, METH_NOARGS, "The address of the first element."},
    {"is_floating_point", tensor_floating, METH_NOARGS, nullptr},
    {"is_complex", tensor_is_complex, METH_NOARGS, nullptr},
    {"item", tensor_item, METH_NOARGS, "The only element as a number."},
    {"_index_put_", tensor_index_put, METH_VARARGS, nullptr},
    {"_shares_storage", shares_storage, METH_O, nullptr},
    {"_make_subclass", make_subclass, METH_VARARGS | METH_STATIC, nullptr},
    {"as_subclass", as_subclass, METH_O, "The same tensor as an object of a subclass."},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef tensor_properties[] = {
    {"shape", property<get_shape>, nullptr, "The sizes.", nullptr},
    {"dtype", property<get_dtype>, nullptr, "The type of the elements.", nullptr},
    {"device", property<get_device>, nullptr, "Where the elements are.", nullptr},
    {"ndim", property<get_ndim>, nullptr, "The number of dims.", nullptr},
    {"itemsize", property<get_itemsize>, nullptr, "Bytes of an element.", nullptr},
    {"nbytes", property<get_nbytes>, nullptr, "Bytes of all elements.", nullptr},
    {"is_cuda", property<get_is_cuda>, nullptr, nullptr, nullptr},
    {"is_cpu", property<get_is_cpu>, nullptr, nullptr, nullptr},
    {"is_meta", property<get_is_meta>, nullptr, nullptr, nullptr},
    {"is_quantized", property<get_is_quantized>, nullptr, nullptr, nullptr},
    {"T", property<get_T>, nullptr, "All dims in reverse order.", nullptr},
    {"mT", property<get_mT>, nullptr, "The last two dims exchanged.", nullptr},
    {"mH", property<get_mH>, nullptr, "The conjugate of the matrices' transposes.", nullptr},
    {"H", property<get_mH>, nullptr, "The conjugate transpose of a matrix.", nullptr},
    {"real", property<get_real>, nullptr, "The real parts.", nullptr},
    {"imag", property<get_imag>, nullptr, "The imaginary parts.", nullptr},
    {"_version", property<get_version>, nullptr, "How often it was written to.", nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMemberDef tensor_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(TensorObject, attributes), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(TensorObject, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot own_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(tensor_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_finalize, reinterpret_cast<void*>(finalize)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_setattro, reinterpret_cast<void*>(set_attribute)},
    {Py_tp_repr, reinterpret_cast<void*>(tensor_repr)},
    {Py_tp_hash, reinterpret_cast<void*>(tensor_hash)},
    {Py_tp_iter, reinterpret_cast<void*>(tensor_iter)},
    {Py_tp_richcompare, reinterpret_cast<void*>(tensor_compare)},
    {Py_mp_length, reinterpret_cast<void*>(tensor_length)},
    {Py_sq_length, reinterpret_cast<void*>(tensor_length)},
    {Py_mp_subscript, reinterpret_cast<void*>(tensor_subscript)},
    {Py_mp_ass_subscript, reinterpret_cast<void*>(tensor_assign_subscript)},
    {Py_nb_bool, reinterpret_cast<void*>(tensor_bool)},
    {Py_nb_float, reinterpret_cast<void*>(tensor_float)},
    {Py_nb_int, reinterpret_cast<void*>(tensor_int)},
    {Py_nb_index, reinterpret_cast<void*>(tensor_index)},
    {Py_bf_getbuffer, reinterpret_cast<void*>(tensor_get_buffer)},
    {Py_bf_releasebuffer, reinterpret_cast<void*>(tensor_release_buffer)},
    {Py_tp_members, tensor_members},
    {Py_tp_doc, const_cast<char*>("An n-dimensional array of numbers on a device.")}};

void add_methods(PyMethodDef* methods) {
  for (PyMethodDef* method = methods; method->ml_name; ++method) {
    const Owned descriptor(PyDescr_NewMethod(tensor_type, method));
    if (PyObject_SetAttrString(reinterpret_cast<PyObject*>(tensor_type), method->ml_name,
                               descriptor.get()) != 0)
      throw PythonError{};
  }
}
void add_properties(PyGetSetDef* properties) {
  for (PyGetSetDef* property = properties; property->name; ++property) {
    const Owned descriptor(PyDescr_NewGetSet(tensor_type, property));
    if (PyObject_SetAttrString(reinterpret_cast<PyObject*>(tensor_type), property->name,
                               descriptor.get()) != 0)
      throw PythonError{};
  }
}

}  // namespace

void add_tensor_type(PyObject* module) {
  TensorImpl::release_wrapper = release_wrapper;
  std::vector<PyType_Slot> slots(std::begin(own_slots), std::end(own_slots));
  for (PyType_Slot* slot = tensor_number_slots; slot->slot; ++slot) slots.push_back(*slot);
  slots.push_back({Py_tp_methods, tensor_methods});
  slots.push_back({Py_tp_getset, tensor_properties});
  slots.push_back({0, nullptr});
  static PyType_Spec spec = {"tensora.Tensor", sizeof(TensorObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                             nullptr};
  spec.slots = slots.data();
  tensor_type = add_type(module, spec);
  add_methods(exchange_methods);
  add_methods(autograd_methods);
  add_properties(autograd_properties);
}

}  // namespace tensora::python
