#include "python/src/bindings.h"
#include "python/src/recursion.h"
#include "tensora/io.h"
#include "tensora/io/unpack_limit.h"
#include "tensora/tensora.h"

namespace tensora::python {
namespace {

namespace nb = nanobind;

Value::Key to_key(PyObject* key) {
  if (PyUnicode_Check(key)) return to_text(key);
  if (PyLong_Check(key)) return get<int64_t>(key);
  raise_type_error("save: the keys of a dict must be strings or integers, got ",
                   Py_TYPE(key)->tp_name);
}

// A Value holds bytes as a string; where they cannot be a text, they are bytes in Python too.
PyObject* from_string(const std::string& text) {
  const auto size = static_cast<Py_ssize_t>(text.size());
  if (PyObject* result = PyUnicode_DecodeUTF8(text.data(), size, nullptr)) return result;
  PyErr_Clear();
  return PyBytes_FromStringAndSize(text.data(), size);
}

StateDict to_state_dict(const Value& value) { return value.to_state_dict(); }

}  // namespace

Value to_value(PyObject* object) {
  if (object == Py_None) return {};
  if (is_tensor(object)) return tensor_of(object);
  if (PyBool_Check(object)) return object == Py_True;
  if (PyLong_Check(object)) return get<int64_t>(object);
  if (PyFloat_Check(object)) return PyFloat_AS_DOUBLE(object);
  if (PyUnicode_Check(object)) return to_text(object);
  if (PyDict_Check(object)) {
    const Recursion level;
    Value::Dict dict;
    PyObject *key = nullptr, *item = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &item);)
      dict.emplace_back(to_key(key), to_value(item));
    return dict;
  }
  if (is_sequence(object)) {
    const Recursion level;
    Value::List list;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
      list.push_back(to_value(PySequence_Fast_GET_ITEM(object, i)));
    return list;
  }
  if (is_integer(object)) return get<int64_t>(object);
  if (is_number(object)) return get<double>(object);
  raise_type_error("save: a ", Py_TYPE(object)->tp_name,
                   " cannot be saved; tensors, numbers, texts, lists and dicts can");
}

PyObject* from_value(const Value& value) {
  if (value.is_none()) Py_RETURN_NONE;
  if (value.is_bool()) return PyBool_FromLong(value.to_bool());
  if (value.is_int()) return PyLong_FromLongLong(value.to_int());
  if (value.is_double()) return PyFloat_FromDouble(value.to_double());
  if (value.is_string()) return from_string(value.to_string());
  if (value.is_tensor()) return wrap(value.to_tensor());
  if (value.is_list()) {
    const Value::List& items = value.to_list();
    Owned list(PyList_New(static_cast<Py_ssize_t>(items.size())));
    for (size_t i = 0; i < items.size(); ++i)
      PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i),
                      Owned(from_value(items[i])).release());
    return list.release();
  }
  Owned dict(PyDict_New());
  for (const auto& [key, item] : value.to_dict()) {
    const Owned name(std::holds_alternative<int64_t>(key)
                         ? PyLong_FromLongLong(std::get<int64_t>(key))
                         : from_string(std::get<std::string>(key)));
    const Owned entry(from_value(item));
    if (PyDict_SetItem(dict.get(), name.get(), entry.get()) != 0) throw PythonError{};
  }
  return dict.release();
}

void bind_io(nb::module_& module) {
  // For extensions beside this one, which cannot see its symbols.
  module.attr("_wrap_tensor") = nb::capsule(reinterpret_cast<const void*>(&wrap));
  // The value, and a list of the tensors in it that were parameters.
  module.def("_load", [](const std::string& path, Device device, bool copy) {
    Value value, list = Value::list();
    {
      const ReleaseGil free;
      std::vector<Tensor> parameters;
      value = io::load(path, {.device = device, .copy = copy, .parameters = &parameters});
      for (Tensor& parameter : parameters) list.push_back(std::move(parameter));
    }
    return Value(Value::List{std::move(value), std::move(list)});
  });
  module.def("_check_unpacked", [](const std::string& what, int64_t bytes, int64_t packed_bytes) {
    io::check_unpacked(what, static_cast<uint64_t>(bytes), static_cast<uint64_t>(packed_bytes));
  });
  module.def("_save", [](const Value& value, const std::string& path, bool pytorch,
                         const Value& parameters) {
    const ReleaseGil free;
    if (!pytorch) return io::save(value, path);
    std::vector<Tensor> list;
    for (const Value& parameter : parameters.to_list()) list.push_back(parameter.to_tensor());
    io::save_pytorch(value, path, list);
  });
  module.def("_save_safetensors",
             [](const Value& tensors, const std::string& path,
                const std::vector<std::pair<std::string, std::string>>& notes) {
               io::Metadata metadata(notes.begin(), notes.end());
               const ReleaseGil free;
               io::save_safetensors(to_state_dict(tensors), path, metadata);
             });
  module.def("_load_safetensors",
             [](const std::string& path) { return Value(io::load_safetensors(path)); });
  module.def("_safetensors_metadata", [](const std::string& path) {
    nb::dict result;
    for (const auto& [key, text] : io::safetensors_metadata(path)) result[key.c_str()] = text;
    return result;
  });
}

}  // namespace tensora::python
