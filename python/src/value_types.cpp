#include "python/src/values.h"
#include "tensora/tensora.h"

// dtype, device, Size, memory_format and layout: the types of small values.

namespace tensora::python {

PyTypeObject *dtype_type, *device_type, *format_type, *layout_type, *size_type;

namespace {

PyObject* dtype_objects[kDTypeCount];

// The package as whose parts values are shown: torch once tensora.compat is installed.
const char* package = "tensora";
PyObject* show_as_torch(PyObject*, PyObject*) {
  package = "torch";
  Py_RETURN_NONE;
}

// ---- dtype -------------------------------------------------------------------------------------

DType dtype_of_object(PyObject* self) { return reinterpret_cast<DTypeObject*>(self)->dtype; }

PyObject* dtype_repr(PyObject* self) {
  // Tensors are printed with PyTorch's names too, and programs compare these texts.
  return guarded([&] { return from_text(concat("torch.", name(dtype_of_object(self)))); });
}
PyObject* dtype_reduce(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const Owned module(PyImport_ImportModule("tensora._C"));
    const Owned find(PyObject_GetAttrString(module.get(), "_dtype"));
    return Py_BuildValue("O(s)", find.get(), std::string(name(dtype_of_object(self))).c_str());
  });
}
PyObject* self_again(PyObject* self, PyObject*) { return Py_NewRef(self); }
PyObject* dtype_floating(PyObject* self, void*) {
  return PyBool_FromLong(is_floating_point(dtype_of_object(self)));
}
PyObject* dtype_complex(PyObject* self, void*) {
  return PyBool_FromLong(is_complex(dtype_of_object(self)));
}
PyObject* dtype_signed(PyObject* self, void*) {
  const DType dtype = dtype_of_object(self);
  return PyBool_FromLong(dtype != kBool && dtype != kUInt8);
}
PyObject* dtype_itemsize(PyObject* self, void*) {
  return PyLong_FromSize_t(element_size(dtype_of_object(self)));
}
PyObject* dtype_to_real(PyObject* self, PyObject*) {
  return from_dtype(real_dtype(dtype_of_object(self)));
}
PyObject* dtype_to_complex(PyObject* self, PyObject*) {
  return from_dtype(complex_dtype(dtype_of_object(self)));
}

PyMethodDef dtype_methods[] = {
    {"__reduce__", dtype_reduce, METH_NOARGS, nullptr},
    {"__copy__", self_again, METH_NOARGS, nullptr},
    {"__deepcopy__", self_again, METH_O, nullptr},
    {"to_real", dtype_to_real, METH_NOARGS, "The dtype of a complex dtype's parts."},
    {"to_complex", dtype_to_complex, METH_NOARGS, "The complex dtype with such parts."},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef dtype_properties[] = {{"is_floating_point", dtype_floating, nullptr, nullptr, nullptr},
                                  {"is_complex", dtype_complex, nullptr, nullptr, nullptr},
                                  {"is_signed", dtype_signed, nullptr, nullptr, nullptr},
                                  {"itemsize", dtype_itemsize, nullptr, nullptr, nullptr},
                                  {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot dtype_slots[] = {{Py_tp_repr, reinterpret_cast<void*>(dtype_repr)},
                             {Py_tp_methods, dtype_methods},
                             {Py_tp_getset, dtype_properties},
                             {Py_tp_doc, const_cast<char*>("The type of a tensor's elements.")},
                             {0, nullptr}};
PyType_Spec dtype_spec = {"tensora.dtype", sizeof(DTypeObject), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, dtype_slots};

PyObject* find_dtype(PyObject*, PyObject* text) {
  return guarded([&] { return from_dtype(parse_dtype(to_text(text))); });
}

// ---- device ------------------------------------------------------------------------------------

DeviceObject* device_object(PyObject* self) { return reinterpret_cast<DeviceObject*>(self); }

PyObject* make_device(Device device, bool numbered) {
  PyObject* object = device_type->tp_alloc(device_type, 0);
  if (!object) return nullptr;
  device_object(object)->device = device;
  device_object(object)->numbered = numbered;
  return object;
}

PyObject* device_new(PyTypeObject*, PyObject* args, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    PyObject *type = nullptr, *index = nullptr;
    static const char* names[] = {"type", "index", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O", const_cast<char**>(names), &type,
                                     &index))
      return nullptr;
    if (Py_TYPE(type) == device_type) return Py_NewRef(type);
    if (!PyUnicode_Check(type)) return make_device(get<Device>(type), true);
    const std::string text = to_text(type);
    Device device(text);
    bool numbered = text.find(':') != std::string::npos;
    if (index && index != Py_None) {
      device = Device(device.type, static_cast<int>(get<int64_t>(index)));
      numbered = true;
    }
    return make_device(device, numbered);
  });
}
PyObject* device_str(PyObject* self) {
  return guarded([&] {
    const DeviceObject* object = device_object(self);
    return from_text(object->numbered ? to_string(Device(object->device))
                                      : std::string(name(object->device.type)));
  });
}
PyObject* device_repr(PyObject* self) {
  return guarded([&] {
    const DeviceObject* object = device_object(self);
    const std::string type(name(object->device.type));
    return from_text(object->numbered
                         ? concat("device(type='", type,
                                  "', index=", static_cast<int>(object->device.index), ")")
                         : concat("device(type='", type, "')"));
  });
}
PyObject* device_kind(PyObject* self, void*) {
  return from_text(name(device_object(self)->device.type));
}
PyObject* device_index(PyObject* self, void*) {
  if (!device_object(self)->numbered) Py_RETURN_NONE;
  return PyLong_FromLong(device_object(self)->device.index);
}
PyObject* device_compare(PyObject* a, PyObject* b, int op) {
  if ((op != Py_EQ && op != Py_NE) || Py_TYPE(b) != device_type) Py_RETURN_NOTIMPLEMENTED;
  const bool equal = device_object(a)->device == device_object(b)->device &&
                     device_object(a)->numbered == device_object(b)->numbered;
  return PyBool_FromLong(equal == (op == Py_EQ));
}
Py_hash_t device_hash(PyObject* self) {
  const DeviceObject* object = device_object(self);
  return static_cast<int>(object->device.type) * 512 + object->device.index * 2 + object->numbered;
}
PyObject* device_reduce(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const Owned text(device_str(self));
    return Py_BuildValue("O(O)", device_type, text.get());
  });
}
PyMethodDef device_methods[] = {{"__reduce__", device_reduce, METH_NOARGS, nullptr},
                                {nullptr, nullptr, 0, nullptr}};
PyGetSetDef device_properties[] = {{"type", device_kind, nullptr, nullptr, nullptr},
                                   {"index", device_index, nullptr, nullptr, nullptr},
                                   {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot device_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(device_new)},
    {Py_tp_str, reinterpret_cast<void*>(device_str)},
    {Py_tp_repr, reinterpret_cast<void*>(device_repr)},
    {Py_tp_richcompare, reinterpret_cast<void*>(device_compare)},
    {Py_tp_hash, reinterpret_cast<void*>(device_hash)},
    {Py_tp_methods, device_methods},
    {Py_tp_getset, device_properties},
    {Py_tp_doc, const_cast<char*>("device(type, index=None)\n--\n\nWhere a tensor lives: "
                                  "device('cpu'), device('cuda:1').")},
    {0, nullptr}};
PyType_Spec device_spec = {"tensora.device", sizeof(DeviceObject), 0, Py_TPFLAGS_DEFAULT,
                           device_slots};

// ---- memory formats and layouts ----------------------------------------------------------------

constexpr const char* kFormatNames[] = {"contiguous_format", "channels_last", "channels_last_3d",
                                        "preserve_format"};

PyObject* format_repr(PyObject* self) {
  const auto format = reinterpret_cast<FormatObject*>(self)->format;
  return PyUnicode_FromFormat("%s.%s", package, kFormatNames[static_cast<int>(format)]);
}
PyObject* format_reduce(PyObject* self, PyObject*) {
  const auto format = reinterpret_cast<FormatObject*>(self)->format;
  return PyUnicode_FromString(kFormatNames[static_cast<int>(format)]);
}
PyMethodDef format_methods[] = {{"__reduce__", format_reduce, METH_NOARGS, nullptr},
                                {nullptr, nullptr, 0, nullptr}};
PyType_Slot format_slots[] = {{Py_tp_repr, reinterpret_cast<void*>(format_repr)},
                              {Py_tp_methods, format_methods},
                              {0, nullptr}};
PyType_Spec format_spec = {"tensora.memory_format", sizeof(FormatObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, format_slots};

PyObject* layout_repr(PyObject*) { return PyUnicode_FromFormat("%s.strided", package); }
PyType_Slot layout_slots[] = {{Py_tp_repr, reinterpret_cast<void*>(layout_repr)}, {0, nullptr}};
PyType_Spec layout_spec = {"tensora.layout", sizeof(PyObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, layout_slots};

// ---- Size --------------------------------------------------------------------------------------

PyObject* size_repr(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const Owned list(PySequence_List(self));
    return PyUnicode_FromFormat("%s.Size(%R)", package, list.get());
  });
}
PyObject* size_numel(PyObject* self, PyObject*) {
  return guarded([&] { return PyLong_FromLongLong(get<Shape>(self).numel()); });
}
PyObject* as_size(Owned tuple) {
  if (!PyTuple_Check(tuple.get())) return tuple.release();
  return PyObject_CallOneArg(reinterpret_cast<PyObject*>(size_type), tuple.get());
}
PyObject* size_subscript(PyObject* self, PyObject* index) {
  return guarded(
      [&] { return as_size(Owned(PyTuple_Type.tp_as_mapping->mp_subscript(self, index))); });
}
PyObject* size_concat(PyObject* a, PyObject* b) {
  return guarded([&] { return as_size(Owned(PyTuple_Type.tp_as_sequence->sq_concat(a, b))); });
}
PyObject* size_reduce(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const Owned list(PySequence_List(self));
    return Py_BuildValue("O(O)", size_type, list.get());
  });
}
PyMethodDef size_methods[] = {
    {"numel", size_numel, METH_NOARGS, "How many elements a tensor of this size has."},
    {"__reduce__", size_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};
PyMappingMethods size_mapping{};
PySequenceMethods size_sequence{};

/// A type of the old kind: `x.shape` is asked for so often that what freeing an instance of a type
/// made from slots costs would show.
PyTypeObject* make_size_type() {
  static PyTypeObject type{};
  Py_SET_REFCNT(reinterpret_cast<PyObject*>(&type), 1);
  size_mapping.mp_subscript = size_subscript;
  size_sequence.sq_concat = size_concat;
  type.tp_name = "tensora.Size";
  type.tp_base = &PyTuple_Type;
  type.tp_flags = Py_TPFLAGS_DEFAULT;
  type.tp_repr = size_repr;
  type.tp_as_mapping = &size_mapping;
  type.tp_as_sequence = &size_sequence;
  type.tp_methods = size_methods;
  if (PyType_Ready(&type) != 0) throw PythonError{};
  return &type;
}

template <class Object>
Object* add_value(PyObject* module, PyTypeObject* type, const char* value_name) {
  Owned object(type->tp_alloc(type, 0));
  if (PyModule_AddObjectRef(module, value_name, object.get()) != 0) throw PythonError{};
  return reinterpret_cast<Object*>(object.release());
}

}  // namespace

void add_value_types(PyObject* module) {
  dtype_type = add_type(module, dtype_spec);
  for (int i = 0; i < kDTypeCount; ++i) {
    const std::string text(dtype_info_table[i].name);
    auto* object = add_value<DTypeObject>(module, dtype_type, text.c_str());
    object->dtype = static_cast<DType>(i);
    dtype_objects[i] = reinterpret_cast<PyObject*>(object);
  }
  for (const char* synonym :
       {"float", "double", "half", "long", "int", "short", "cfloat", "cdouble"}) {
    const std::string_view text(synonym);
    const DType dtype = text == "cfloat"    ? kComplex64
                        : text == "cdouble" ? kComplex128
                                            : parse_dtype(text);
    if (PyModule_AddObjectRef(module, synonym, dtype_objects[static_cast<int>(dtype)]) != 0)
      throw PythonError{};
  }
  static PyMethodDef functions[] = {{"_dtype", find_dtype, METH_O, nullptr},
                                    {"_show_as_torch", show_as_torch, METH_NOARGS, nullptr},
                                    {nullptr, nullptr, 0, nullptr}};
  if (PyModule_AddFunctions(module, functions) != 0) throw PythonError{};
  device_type = add_type(module, device_spec);
  format_type = add_type(module, format_spec);
  for (int i = 0; i < 4; ++i)
    add_value<FormatObject>(module, format_type, kFormatNames[i])->format =
        static_cast<MemoryFormat>(i);
  layout_type = add_type(module, layout_spec);
  add_value<PyObject>(module, layout_type, "strided");
  size_type = make_size_type();
  if (PyModule_AddObjectRef(module, "Size", reinterpret_cast<PyObject*>(size_type)) != 0)
    throw PythonError{};
}

PyObject* from_dtype(DType dtype) { return Py_NewRef(dtype_objects[static_cast<int>(dtype)]); }
// The CPU and the meta device have no number, as in PyTorch.
PyObject* from_device(Device device) {
  return make_device(device, !device.is_cpu() && !device.is_meta());
}

PyObject* from_shape(const Shape& shape) {
  // Never shown to the collector: integers are in no cycle.
  PyTupleObject* result = PyObject_GC_NewVar(PyTupleObject, size_type, shape.size());
  if (!result) return nullptr;
#if PY_VERSION_HEX >= 0x030E0000
  result->ob_hash = -1;  // not known yet
#endif
  for (int i = 0; i < shape.size(); ++i) result->ob_item[i] = PyLong_FromLongLong(shape[i]);
  return reinterpret_cast<PyObject*>(result);
}

PyObject* from_number(Scalar number) {
  switch (number.kind()) {
    case Scalar::Kind::boolean:
      return PyBool_FromLong(number.to<bool>());
    case Scalar::Kind::integer:
      return PyLong_FromLongLong(number.to<int64_t>());
    case Scalar::Kind::complex: {
      const auto value = number.to<Complex<double>>();
      return PyComplex_FromDoubles(value.re, value.im);
    }
    default:
      return PyFloat_FromDouble(number.to<double>());
  }
}

}  // namespace tensora::python
