#include "python/src/dlpack.h"
#include "python/src/tensor_object.h"
#include "python/src/values.h"
#include "tensora/tensora.h"

// Memory shared with other libraries: the buffer protocol and DLPack, both ways.

namespace tensora::python {
namespace {

// ---- dtypes ------------------------------------------------------------------------------------

struct Row {
  DType dtype;
  const char* format;  // of the buffer protocol; null if it has none
  dlpack::DataType type;
};
constexpr Row kRows[] = {
    {kBool, "?", {6, 8, 1}},     {kUInt8, "B", {1, 8, 1}},         {kInt8, "b", {0, 8, 1}},
    {kInt16, "h", {0, 16, 1}},   {kInt32, "i", {0, 32, 1}},        {kInt64, "l", {0, 64, 1}},
    {kFloat16, "e", {2, 16, 1}}, {kBFloat16, nullptr, {4, 16, 1}}, {kFloat32, "f", {2, 32, 1}},
    {kFloat64, "d", {2, 64, 1}}, {kComplex64, "Zf", {5, 64, 1}},   {kComplex128, "Zd", {5, 128, 1}},
    {kUInt16, "H", {1, 16, 1}},  {kUInt32, "I", {1, 32, 1}},       {kUInt64, "L", {1, 64, 1}},
};

const Row& row_of(DType dtype, const char* what) {
  for (const Row& row : kRows)
    if (row.dtype == dtype) return row;
  raise(PyExc_BufferError, concat(what, ": there is no such thing for ", dtype));
}

DType dtype_of_format(const Py_buffer& view) {
  std::string_view format = view.format ? view.format : "B";
  if (!format.empty() && (format[0] == '@' || format[0] == '=' || format[0] == '<'))
    format.remove_prefix(1);
  if (format == "q") format = "l";
  if (format == "Q") format = "L";
  if (format == "l" && view.itemsize == 4) format = "i";
  if (format == "L" && view.itemsize == 4) format = "I";
  for (const Row& row : kRows)
    if (row.format && format == row.format) return row.dtype;
  raise_type_error(
      "can't convert an array with elements of format '", view.format ? view.format : "",
      "'; the supported ones are bool, uint8, int8, "
      "int16, int32, int64, uint16, uint32, uint64, float16, float32, float64, complex64 "
      "and complex128");
}

// ---- the buffer protocol -----------------------------------------------------------------------

/// A buffer that is given back under the GIL when the last tensor on it dies.
struct HeldBuffer {
  Py_buffer view = {};
  ~HeldBuffer() {
    if (!view.obj || !Py_IsInitialized()) return;
    const HoldGil gil;
    PyBuffer_Release(&view);
  }
};

Tensor from_buffer(PyObject* object) {
  auto held = std::make_shared<HeldBuffer>();
  if (PyObject_GetBuffer(object, &held->view, PyBUF_FULL_RO) != 0) throw PythonError{};
  const Py_buffer& view = held->view;
  const DType dtype = dtype_of_format(view);
  Shape sizes;
  Strides strides;
  for (int i = 0; i < view.ndim; ++i) {
    sizes.push_back(view.shape ? view.shape[i] : view.len / view.itemsize);
    const int64_t bytes = view.strides ? view.strides[i] : view.itemsize;
    if (bytes < 0 && sizes[i] > 1)
      raise(PyExc_ValueError,
            "At least one stride of the given array is negative, and tensors with negative strides "
            "are not supported. (You can make a copy of it with array.copy().)");
    if (bytes % view.itemsize != 0)
      raise(PyExc_ValueError, "the strides of the array are no multiples of its element size");
    strides.push_back(std::max<int64_t>(bytes, 0) / view.itemsize);
  }
  if (sizes.numel() == 0) return empty(sizes, {.dtype = dtype});
  if (view.readonly)
    return from_blob(static_cast<const void*>(view.buf), sizes, strides, {.dtype = dtype}, held);
  return from_blob(view.buf, sizes, strides, {.dtype = dtype}, held);
}

struct ExportedBuffer {
  Tensor tensor;
  std::vector<Py_ssize_t> shape, strides;
};

// ---- DLPack ------------------------------------------------------------------------------------

struct ExportedArray {
  dlpack::Managed managed = {};
  dlpack::ManagedVersioned versioned = {};
  Tensor tensor;
  Shape sizes, strides;
};

dlpack::Device device_code(Device device) {
  if (device.is_cpu()) return {1, 0};
  if (device.is_cuda()) return {2, device.index};
  raise(PyExc_BufferError, concat("__dlpack__: a tensor on ", device, " cannot be shared"));
}

template <class Managed>
void delete_export(Managed* managed) {
  delete static_cast<ExportedArray*>(managed->context);
}

template <class Managed>
void delete_capsule(PyObject* capsule) {
  // A capsule that nobody consumed still owns the array; a consumed one has another name.
  const char* name =
      std::is_same_v<Managed, dlpack::Managed> ? dlpack::kName : dlpack::kVersionedName;
  if (!PyCapsule_IsValid(capsule, name)) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  managed->deleter(managed);
}

PyObject* export_array(const Tensor& tensor, bool versioned) {
  if (tensor.requires_grad())
    raise(PyExc_BufferError, "Can't export tensors that require gradient, use tensor.detach()");
  auto array = std::make_unique<ExportedArray>();
  array->tensor = tensor;
  array->sizes = tensor.sizes();
  array->strides = tensor.strides();
  const Row& row = row_of(tensor.dtype(), "__dlpack__");
  const dlpack::Array described = {tensor.data_ptr(),
                                   device_code(tensor.device()),
                                   tensor.dim(),
                                   row.type,
                                   array->sizes.data(),
                                   array->strides.data(),
                                   0};
  const bool read_only = tensor.impl().storage && tensor.impl().storage->read_only();
  ExportedArray* owner = array.release();
  if (versioned) {
    owner->versioned = {
        1, 0, owner, delete_export<dlpack::ManagedVersioned>, read_only ? 1u : 0u, described};
    return PyCapsule_New(&owner->versioned, dlpack::kVersionedName,
                         delete_capsule<dlpack::ManagedVersioned>);
  }
  owner->managed = {described, owner, delete_export<dlpack::Managed>};
  return PyCapsule_New(&owner->managed, dlpack::kName, delete_capsule<dlpack::Managed>);
}

PyObject* tensor_dlpack(PyObject* self, PyObject* args, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    PyObject *stream = nullptr, *max_version = nullptr, *device = nullptr, *copy = nullptr;
    static const char* names[] = {"stream", "max_version", "dl_device", "copy", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$OOOO", const_cast<char**>(names), &stream,
                                     &max_version, &device, &copy))
      return nullptr;
    const bool versioned = max_version && max_version != Py_None && PyTuple_Check(max_version) &&
                           get<int64_t>(PyTuple_GetItem(max_version, 0)) >= 1;
    Tensor tensor = tensor_of(self);
    if (copy == Py_True) tensor = tensor.detach().clone();
    if (!tensor.is_cpu()) synchronize(tensor.device());
    return export_array(tensor, versioned);
  });
}

PyObject* tensor_dlpack_device(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const dlpack::Device device = device_code(tensor_of(self).device());
    return Py_BuildValue("(ii)", device.type, device.id);
  });
}

/// Gives a consumed array back to its library.
template <class Managed>
struct HeldArray {
  Managed* managed;
  ~HeldArray() {
    if (!managed->deleter) return;
    if (!Py_IsInitialized()) return;
    const HoldGil gil;  // deleters of other libraries may touch Python objects
    managed->deleter(managed);
  }
};

template <class Managed>
Tensor import_array(PyObject* capsule, const char* name, const char* used, bool read_only) {
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (!managed) throw PythonError{};
  const dlpack::Array& array = managed->array;
  const Row* row = nullptr;
  for (const Row& candidate : kRows)
    if (candidate.type.code == array.dtype.code && candidate.type.bits == array.dtype.bits)
      row = &candidate;
  if (!row || array.dtype.lanes != 1)
    raise(PyExc_BufferError,
          concat("from_dlpack: there is no dtype of code ", static_cast<int>(array.dtype.code),
                 " with ", static_cast<int>(array.dtype.bits), " bits"));
  if (array.device.type < 1 || array.device.type > 3)
    raise(PyExc_BufferError,
          concat("from_dlpack: device type ", array.device.type, " is not known"));
  const Device device =
      array.device.type == 2 ? Device(DeviceType::cuda, array.device.id) : Device();
  const Shape sizes(std::span<const int64_t>(array.shape, static_cast<size_t>(array.ndim)));
  const Strides strides =
      array.strides
          ? Strides(std::span<const int64_t>(array.strides, static_cast<size_t>(array.ndim)))
          : contiguous_strides(sizes);
  auto held = std::make_shared<HeldArray<Managed>>(managed);
  if (PyCapsule_SetName(capsule, used) != 0) throw PythonError{};
  if (sizes.numel() == 0) return empty(sizes, {.dtype = row->dtype, .device = device});
  void* data = static_cast<char*>(array.data) + array.byte_offset;
  const TensorOptions options{.dtype = row->dtype, .device = device};
  if (read_only) return from_blob(static_cast<const void*>(data), sizes, strides, options, held);
  return from_blob(data, sizes, strides, options, held);
}

Tensor from_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, dlpack::kVersionedName)) {
    auto* managed = static_cast<dlpack::ManagedVersioned*>(
        PyCapsule_GetPointer(capsule, dlpack::kVersionedName));
    if (managed->major > 1)
      raise(PyExc_BufferError, concat("from_dlpack: DLPack ", managed->major, " is not known"));
    return import_array<dlpack::ManagedVersioned>(capsule, dlpack::kVersionedName,
                                                  dlpack::kUsedVersionedName, managed->flags & 1);
  }
  if (!PyCapsule_IsValid(capsule, dlpack::kName))
    raise(PyExc_RuntimeError,
          "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed "
          "only once, so you might have already constructed a tensor from it once.");
  return import_array<dlpack::Managed>(capsule, dlpack::kName, dlpack::kUsedName, false);
}

Tensor from_dlpack_object(PyObject* object) {
  if (PyCapsule_CheckExact(object)) return from_capsule(object);
  const Owned method(PyObject_GetAttrString(object, "__dlpack__"));
  const Owned version(Py_BuildValue("{s:(ii)}", "max_version", 1, 0));
  const Owned nothing(PyTuple_New(0));
  PyObject* capsule = PyObject_Call(method.get(), nothing.get(), version.get());
  if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {  // a library without versions
    PyErr_Clear();
    capsule = PyObject_CallNoArgs(method.get());
  }
  return from_capsule(Owned(capsule).get());
}

// ---- lists -------------------------------------------------------------------------------------

PyObject* list_of(const char* data, DType dtype, std::span<const int64_t> sizes,
                  std::span<const int64_t> strides) {
  if (sizes.empty()) {
    return visit_element(dtype, [&]<class T>() -> PyObject* {
      const T value = *reinterpret_cast<const T*>(data);
      if constexpr (std::is_same_v<T, bool>)
        return PyBool_FromLong(value);
      else if constexpr (std::is_unsigned_v<T>)
        return PyLong_FromUnsignedLongLong(value);
      else if constexpr (std::is_integral_v<T>)
        return PyLong_FromLongLong(value);
      else if constexpr (is_complex_type<T>)
        return PyComplex_FromDoubles(static_cast<double>(value.re), static_cast<double>(value.im));
      else
        return PyFloat_FromDouble(static_cast<double>(value));
    });
  }
  Owned result(PyList_New(sizes[0]));
  const int64_t step = strides[0] * static_cast<int64_t>(element_size(dtype));
  for (int64_t i = 0; i < sizes[0]; ++i)
    PyList_SET_ITEM(
        result.get(), i,
        Owned(list_of(data + i * step, dtype, sizes.subspan(1), strides.subspan(1))).release());
  return result.release();
}

PyObject* tensor_tolist(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    Tensor host = tensor_of(self).detach();
    if (!host.is_cpu()) {
      const ReleaseGil waits;
      host = host.cpu();
    }
    if (host.dim() == 0 && host.dtype() != kUInt64) return from_number(host.item());
    return list_of(static_cast<const char*>(host.data_ptr()), host.dtype(), host.sizes(),
                   host.strides());
  });
}

}  // namespace

Tensor share_from(PyObject* object) {
  if (is_tensor(object)) return tensor_of(object);
  if (PyCapsule_CheckExact(object)) return from_capsule(object);
  if (PyObject_CheckBuffer(object)) return from_buffer(object);
  if (PyObject_HasAttrString(object, "__dlpack__")) return from_dlpack_object(object);
  if (PyObject_HasAttrString(object, "__array__")) {
    const Owned array(PyObject_CallMethod(object, "__array__", nullptr));
    return from_buffer(array.get());
  }
  raise_type_error("can't make a tensor that shares the memory of a ", Py_TYPE(object)->tp_name);
}

PyObject* module_from_dlpack(PyObject*, PyObject* object) {
  return guarded([&] { return wrap(from_dlpack_object(object)); });
}
PyObject* module_share(PyObject*, PyObject* object) {
  return guarded([&] { return wrap(share_from(object)); });
}

int tensor_get_buffer(PyObject* self, Py_buffer* view, int flags) {
  return guarded(
      [&] {
        view->obj = nullptr;
        const Tensor& tensor = tensor_of(self);
        if (!tensor.is_cpu() || tensor.requires_grad())
          raise(PyExc_BufferError, "only a CPU tensor outside of any graph has a buffer");
        const Row& row = row_of(tensor.dtype(), "buffer");
        if (!row.format) raise(PyExc_BufferError, "buffers have no bfloat16");
        const bool read_only = tensor.impl().storage && tensor.impl().storage->read_only();
        if ((flags & PyBUF_WRITABLE) && read_only)
          raise(PyExc_BufferError, "the tensor's memory must not be written to");
        if (!(flags & PyBUF_STRIDES) && !tensor.is_contiguous())
          raise(PyExc_BufferError, "the tensor is not contiguous");
        auto exported = std::make_unique<ExportedBuffer>();
        exported->tensor = tensor;
        for (int64_t size : tensor.sizes()) exported->shape.push_back(size);
        for (int64_t stride : tensor.strides())
          exported->strides.push_back(stride * static_cast<int64_t>(tensor.element_size()));
        static char nothing = 0;
        view->buf = tensor.numel() == 0 ? &nothing : tensor.data_ptr();
        view->len = tensor.numel() * static_cast<int64_t>(tensor.element_size());
        view->itemsize = static_cast<Py_ssize_t>(tensor.element_size());
        view->readonly = read_only;
        view->ndim = tensor.dim();
        view->format = (flags & PyBUF_FORMAT) ? const_cast<char*>(row.format) : nullptr;
        view->shape = exported->shape.data();
        view->strides = exported->strides.data();
        view->suboffsets = nullptr;
        view->internal = exported.release();
        view->obj = Py_NewRef(self);
        return 0;
      },
      -1);
}

void tensor_release_buffer(PyObject*, Py_buffer* view) {
  delete static_cast<ExportedBuffer*>(view->internal);
}

PyMethodDef exchange_methods[] = {
    {"__dlpack__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(tensor_dlpack)),
     METH_VARARGS | METH_KEYWORDS, "The tensor's memory as a DLPack capsule."},
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS, nullptr},
    {"tolist", tensor_tolist, METH_NOARGS, "The elements as nested lists."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace tensora::python
