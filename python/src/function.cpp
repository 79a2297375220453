#include "python/src/function.h"

#include <structmember.h>

#include <algorithm>
#include <map>

#include "python/src/overrides.h"
#include "python/src/tensor_object.h"
#include "tensora/tensora.h"

namespace tensora::python {
namespace {

struct FunctionObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  const FunctionTable* table;
  PyTypeObject* result_type;
  std::vector<const Overload*>* overloads;  // those of this function; lives for ever
  bool random;                              // takes `generator`
  bool variadic;                            // tensors may be given one by one: block_diag(a, b)
};

// The functions whose numbers come from a generator.
constexpr std::string_view kRandom[] = {
    "bernoulli",   "bernoulli_",  "cauchy_",      "exponential_", "geometric_",
    "log_normal_", "multinomial", "normal",       "normal_",      "rand",
    "rand_like",   "randint",     "randint_like", "randn",        "randn_like",
    "random_",     "randperm",    "rrelu",        "rrelu_",       "uniform_"};
// As in PyTorch, cat and stack take a list only.
constexpr std::string_view kVariadic[] = {
    "block_diag", "broadcast_tensors", "cartesian_prod", "chain_matmul", "einsum",
    "meshgrid",   "atleast_1d",        "atleast_2d",     "atleast_3d"};

PyTypeObject *function_type, *method_type;
FunctionObject* function_of(PyObject* self) { return reinterpret_cast<FunctionObject*>(self); }

// ---- matching arguments with parameters ---------------------------------------------------------

using Arguments = VectorArguments;

/// Second names of parameters that PyTorch accepts: NumPy's, and older ones of its own.
PyObject *text_axis, *text_dim, *text_keepdims, *text_keepdim, *text_input, *text_self, *text_out,
    *text_generator, *text_unbiased, *text_correction, *text_layout, *text_pin_memory,
    *text_memory_format, *text_other, *text_x2;

bool same_text(PyObject* a, PyObject* b) {
  return a == b ||
         (PyUnicode_GET_LENGTH(a) == PyUnicode_GET_LENGTH(b) && PyUnicode_Compare(a, b) == 0);
}

int find_parameter(const Overload& overload, PyObject* name) {
  for (int i = 0; i < overload.count; ++i)
    if (overload.names[i] == name) return i;
  for (int i = 0; i < overload.count; ++i)
    if (same_text(overload.names[i], name)) return i;
  const std::pair<PyObject*, PyObject*> synonyms[] = {{text_axis, text_dim},
                                                      {text_keepdims, text_keepdim},
                                                      {text_unbiased, text_correction},
                                                      {text_input, text_self},
                                                      {text_x2, text_other}};
  for (const auto& [synonym, meant] : synonyms)
    if (same_text(name, synonym))
      for (int i = 0; i < overload.count; ++i)
        if (overload.names[i] == meant) return i;
  return -1;
}

/// Parameters that take their items one by one too: x.view(2, 3), permute(0, 2, 1).
bool takes_items(const Overload& overload, int at) {
  const Parameter& parameter = overload.parameters[at];
  if (at != (overload.method ? 1 : 0) || parameter.kind != Kind::sizes) return false;
  for (const char* name : {"size", "shape", "dims", "repeats"})
    if (strcmp(parameter.name, name) == 0) return true;
  return false;
}

/// Matches the arguments with one overload. `lenient` lets None stand for any tensor but the first,
/// and tensors of one element for numbers.
class Match {
 public:
  Match(const Overload& overload, const Arguments& arguments, Call& call, bool lenient, bool random,
        bool variadic)
      : overload_(overload),
        arguments_(arguments),
        call_(call),
        lenient_(lenient),
        random_(random),
        variadic_(variadic) {}
  ~Match() { Py_XDECREF(packed_); }
  Match(const Match&) = delete;
  Match& operator=(const Match&) = delete;

  bool succeeds() { return take_positional() && take_keywords() && is_complete(); }

 private:
  bool take_positional() {
    int at = 0;
    for (Py_ssize_t i = 0; i < arguments_.positional; ++i, ++at) {
      if (at >= overload_.count || overload_.parameters[at].keyword_only) return false;
      PyObject* value = arguments_.values[i];
      if (takes_items(overload_, at) && is_integer(value)) {
        if (!rest_is(i, is_integer)) return false;
        call_.arguments[at] = pack(i);
        return true;
      }
      if (variadic_ && overload_.parameters[at].kind == Kind::tensors && is_tensor(value)) {
        if (!rest_is(i, is_tensor)) return false;
        call_.arguments[at] = pack(i);
        return true;
      }
      if (!take(at, value)) return false;
    }
    return true;
  }
  bool take_keywords() {
    if (!arguments_.names) return true;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments_.names); ++i) {
      PyObject* name = PyTuple_GET_ITEM(arguments_.names, i);
      const int at = find_parameter(overload_, name);
      if (at < 0) {
        if (!take_extra(name, arguments_.values[arguments_.positional + i])) return false;
        continue;
      }
      if (call_.arguments[at] || !take(at, arguments_.values[arguments_.positional + i]))
        return false;
    }
    return true;
  }
  /// Keywords that are no parameters of the C++ functions.
  bool take_extra(PyObject* name, PyObject* value) {
    if (same_text(name, text_out)) return true;  // call_with_extras handles these two
    if (same_text(name, text_generator)) return random_;
    if (!overload_.factory) return false;
    PyObject** place = same_text(name, text_layout)          ? &call_.layout
                       : same_text(name, text_pin_memory)    ? &call_.pin_memory
                       : same_text(name, text_memory_format) ? &call_.memory_format
                                                             : nullptr;
    if (!place) return false;
    *place = value == Py_None ? nullptr : value;
    return true;
  }
  bool is_complete() const {
    for (int i = 0; i < overload_.count; ++i)
      if (overload_.parameters[i].required && !call_.arguments[i]) return false;
    return true;
  }
  bool take(int at, PyObject* value) {
    const Parameter& parameter = overload_.parameters[at];
    if (value == Py_None) {
      if (!parameter.required) return true;
      if (!lenient_ || parameter.kind != Kind::tensor || at == 0) return false;
    } else if (!lenient_ && parameter.kind != Kind::tensor && is_tensor(value)) {
      return false;  // a number may be a tensor of one element, if no overload takes a tensor there
    } else if (!accepts(parameter.kind, value) &&
               !(parameter.kind == Kind::real && PyBool_Check(value))) {
      return false;
    }
    if (parameter.kind == Kind::tensor && value != Py_None)
      call_.release |= tensor_of(value).numel() >= kReleaseFrom;
    call_.arguments[at] = value;
    return true;
  }
  template <class Fits>
  bool rest_is(Py_ssize_t from, Fits&& fits) const {
    for (Py_ssize_t i = from; i < arguments_.positional; ++i)
      if (!fits(arguments_.values[i])) return false;
    return true;
  }
  PyObject* pack(Py_ssize_t from) {
    packed_ = PyTuple_New(arguments_.positional - from);
    if (!packed_) throw PythonError{};
    for (Py_ssize_t i = from; i < arguments_.positional; ++i)
      PyTuple_SET_ITEM(packed_, i - from, Py_NewRef(arguments_.values[i]));
    return packed_;
  }

  const Overload& overload_;
  const Arguments& arguments_;
  Call& call_;
  bool lenient_;
  bool random_, variadic_;
  PyObject* packed_ = nullptr;
};

[[noreturn]] void raise_no_match(const FunctionObject& function, const Arguments& arguments) {
  std::string got;
  const Py_ssize_t keywords = arguments.names ? PyTuple_GET_SIZE(arguments.names) : 0;
  for (Py_ssize_t i = 0; i < arguments.positional + keywords; ++i) {
    got += i ? ", " : "";
    if (i >= arguments.positional)
      got += to_text(PyTuple_GET_ITEM(arguments.names, i - arguments.positional)) + "=";
    got += Py_TYPE(arguments.values[i])->tp_name;
  }
  std::string expected;
  for (const Overload* overload : *function.overloads) {
    expected += "\n * (";
    for (int i = 0; i < overload->count; ++i)
      expected +=
          concat(i ? ", " : "", describe(overload->parameters[i].kind), " ",
                 overload->parameters[i].name, overload->parameters[i].required ? "" : " = ...");
    expected += ")";
  }
  raise_type_error(function.table->name, "() received an invalid combination of arguments - got (",
                   got, "), but expected one of:", expected);
}

// ---- calling -----------------------------------------------------------------------------------

/// What a factory made, in the memory format and the kind of memory that the call names.
PyObject* finished(const Call& call, Owned made) {
  if (call.layout && Py_TYPE(call.layout) != layout_type)
    raise_type_error("layout must be tensora.strided, got ", Py_TYPE(call.layout)->tp_name);
  if (call.memory_format) {
    if (Py_TYPE(call.memory_format) != format_type)
      raise_type_error("memory_format must be a tensora.memory_format, got ",
                       Py_TYPE(call.memory_format)->tp_name);
    const auto format = get<MemoryFormat>(call.memory_format);
    const Tensor& tensor = tensor_of(made.get());
    if (format != MemoryFormat::preserve) {
      const Tensor moved = to(tensor.detach(), format);
      if (tensor.requires_grad()) moved.requires_grad_(true);
      made = Owned(wrap(moved));
    }
  }
  if (call.pin_memory && get<bool>(call.pin_memory))
    return PyObject_CallMethod(made.get(), "pin_memory", nullptr);
  return made.release();
}

/// What the first overload that fits returns, if one does.
std::optional<PyObject*> call_fitting(FunctionObject& function, const Arguments& arguments) {
  for (const bool lenient : {false, true})
    for (const Overload* overload : *function.overloads) {
      Call call;
      Match match(*overload, arguments, call, lenient, function.random, function.variadic);
      if (!match.succeeds()) continue;
      call.fields = function.table->fields;
      call.result_type = &function.result_type;
      call.release |= overload->factory;
      if (overload->factory) use_default_device(*overload, call);
      if (!call.layout && !call.memory_format && !call.pin_memory) return overload->invoke(call);
      return finished(call, Owned(overload->invoke(call)));
    }
  return {};
}

/// PyTorch's older order, with the factor before the tensors: x.add_(0.5, y), x.addcmul_(0.5, y,
/// z).
std::optional<PyObject*> call_in_old_order(FunctionObject& function, const Arguments& arguments) {
  const std::string_view name = function.table->name;
  const bool scaled = name == "add" || name == "add_" || name == "sub" || name == "sub_";
  const Py_ssize_t count = scaled ? 3 : name.starts_with("addc") ? 4 : 0;
  if (!count || arguments.positional != count || arguments.names) return {};
  PyObject* turned[4] = {arguments.values[0]};
  for (Py_ssize_t i = 2; i < count; ++i) turned[i - 1] = arguments.values[i];
  turned[count - 1] = arguments.values[1];
  if (!is_tensor(turned[1])) return {};
  return call_fitting(function, {turned, count, nullptr});
}

PyObject* call_matching(FunctionObject& function, const Arguments& arguments) {
  if (const auto result = call_fitting(function, arguments)) return *result;
  if (PyObject* result =
          call_override(reinterpret_cast<PyObject*>(&function), arguments, /*tensors=*/false))
    return result;
  if (const auto result = call_in_old_order(function, arguments)) return *result;
  raise_no_match(function, arguments);
}

PyObject* keyword(const Arguments& arguments, PyObject* name) {
  if (!arguments.names) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments.names); ++i)
    if (same_text(PyTuple_GET_ITEM(arguments.names, i), name)) {
      PyObject* value = arguments.values[arguments.positional + i];
      return value == Py_None ? nullptr : value;
    }
  return nullptr;
}

/// Writes a result into `out`, which gets its size, as `out=` does everywhere in PyTorch.
void write_out(PyObject* result, PyObject* out, bool recording) {
  if (is_tensor(out)) {
    if (!is_tensor(result)) raise_type_error("out= was given one tensor for several results");
    const Tensor &from = tensor_of(result), &to = tensor_of(out);
    check(!recording || !(to.requires_grad() || from.requires_grad()),
          "functions with out=... arguments don't support automatic differentiation, but one of "
          "the arguments requires grad.");
    if (to.sizes() != from.sizes()) to.resize_(from.sizes());
    for (int d = 0; d < to.dim(); ++d)
      check(to.sizes()[d] < 2 || to.strides()[d] != 0,
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. Please clone() the tensor before performing the operation.");
    copy_(to, from);
    return;
  }
  if (!is_sequence(out) || !is_sequence(result) ||
      PySequence_Fast_GET_SIZE(out) != PySequence_Fast_GET_SIZE(result))
    raise_type_error("out= must be a tensor, or as many tensors as there are results");
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(out); ++i)
    write_out(PySequence_Fast_GET_ITEM(result, i), PySequence_Fast_GET_ITEM(out, i), recording);
}

PyObject* call_with_extras(FunctionObject& function, const Arguments& arguments) {
  PyObject* out = keyword(arguments, text_out);
  PyObject* generator = keyword(arguments, text_generator);
  std::optional<GeneratorScope> scope;
  if (generator) {
    const Owned address(PyObject_GetAttrString(generator, "_address"));
    scope.emplace(*static_cast<Generator*>(PyLong_AsVoidPtr(address.get())));
  }
  Owned result(call_matching(function, arguments));
  if (!out) return result.release();
  const bool recording = is_grad_enabled();
  const no_grad silent;
  write_out(result.get(), out, recording);
  if (is_tensor(out)) return Py_NewRef(out);
  return result.release();
}

PyObject* call_function(PyObject* self, PyObject* const* values, size_t flags, PyObject* names) {
  return guarded([&] {
    FunctionObject& function = *function_of(self);
    const Arguments arguments{values, PyVectorcall_NARGS(flags), names};
    if (tensors_override())
      if (PyObject* result = call_override(self, arguments, /*tensors=*/true)) return result;
    if (!names) return call_matching(function, arguments);
    return call_with_extras(function, arguments);
  });
}

// ---- the types ---------------------------------------------------------------------------------

PyObject* function_repr(PyObject* self) {
  return PyUnicode_FromFormat("<built-in function %s>", function_of(self)->table->name);
}
PyObject* function_name(PyObject* self, void*) {
  return PyUnicode_FromString(function_of(self)->table->name);
}
PyObject* function_doc(PyObject* self, void*) {
  return PyUnicode_FromString(function_of(self)->table->text);
}
PyObject* function_module(PyObject* self, void*) {
  const FunctionTable& table = *function_of(self)->table;
  return *table.module ? PyUnicode_FromFormat("tensora.%s", table.module)
                       : PyUnicode_FromString("tensora");
}
PyObject* function_signature(PyObject* self, void*) {
  return guarded([&] {
    const Owned module(PyImport_ImportModule("tensora._signature"));
    return PyObject_CallMethod(module.get(), "of", "O", self);
  });
}
PyObject* function_reduce(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const Owned module(PyImport_ImportModule("tensora._C"));
    const Owned find(PyObject_GetAttrString(module.get(), "_function"));
    const FunctionTable& table = *function_of(self)->table;
    return Py_BuildValue("O(ssi)", find.get(), table.module, table.name,
                         Py_TYPE(self) == method_type);
  });
}
PyObject* method_get(PyObject* self, PyObject* object, PyObject*) {
  if (!object || object == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, object);
}

PyMemberDef function_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(FunctionObject, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyMethodDef function_methods[] = {{"__reduce__", function_reduce, METH_NOARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
PyGetSetDef function_properties[] = {
    {"__name__", function_name, nullptr, nullptr, nullptr},
    {"__qualname__", function_name, nullptr, nullptr, nullptr},
    {"__doc__", function_doc, nullptr, nullptr, nullptr},
    {"__module__", function_module, nullptr, nullptr, nullptr},
    {"__signature__", function_signature, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot function_slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                {Py_tp_repr, reinterpret_cast<void*>(function_repr)},
                                {Py_tp_members, function_members},
                                {Py_tp_methods, function_methods},
                                {Py_tp_getset, function_properties},
                                {0, nullptr}};
PyType_Slot method_slots[] = {{Py_tp_descr_get, reinterpret_cast<void*>(method_get)},
                              {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                              {Py_tp_repr, reinterpret_cast<void*>(function_repr)},
                              {Py_tp_members, function_members},
                              {Py_tp_methods, function_methods},
                              {Py_tp_getset, function_properties},
                              {0, nullptr}};
PyType_Spec function_spec = {
    "tensora._C.builtin_function", sizeof(FunctionObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    function_slots};
PyType_Spec method_spec = {"tensora._C.builtin_method", sizeof(FunctionObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL |
                               Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           method_slots};

Owned make_function(PyTypeObject* type, const FunctionTable& table, bool methods) {
  auto overloads = std::make_unique<std::vector<const Overload*>>();
  for (int i = 0; i < table.count; ++i)
    if (!methods || table.overloads[i].method) overloads->push_back(&table.overloads[i]);
  if (overloads->empty()) return {};
  Owned object(type->tp_alloc(type, 0));
  FunctionObject* function = function_of(object.get());
  function->vectorcall = call_function;
  function->table = &table;
  function->result_type = nullptr;
  function->overloads = overloads.release();
  function->variadic = std::ranges::find(kVariadic, table.name) != std::end(kVariadic);
  function->random = !*table.module && std::ranges::find(kRandom, table.name) != std::end(kRandom);
  return object;
}

void intern_names(const FunctionTable& table) {
  for (int i = 0; i < table.count; ++i)
    for (int j = 0; j < table.overloads[i].count; ++j)
      table.overloads[i].names[j] =
          Owned(PyUnicode_InternFromString(table.overloads[i].parameters[j].name)).release();
}

Owned submodule(PyObject* module, const char* name) {
  if (!*name) return Owned::borrow(module);
  if (PyObject_HasAttrString(module, name)) return Owned(PyObject_GetAttrString(module, name));
  Owned sub(PyModule_New(concat("tensora._C.", name).c_str()));
  if (PyModule_AddObjectRef(module, name, sub.get()) != 0) throw PythonError{};
  return sub;
}

void add_function(PyObject* module, const FunctionTable& table) {
  intern_names(table);
  const Owned place = submodule(module, table.module);
  const Owned function = make_function(function_type, table, false);
  // `bfloat16` and `half` are dtypes; as functions they are methods only.
  if (!PyObject_HasAttrString(place.get(), table.name) &&
      PyModule_AddObjectRef(place.get(), table.name, function.get()) != 0)
    throw PythonError{};
  if (*table.module) return;
  const Owned method = make_function(method_type, table, true);
  auto* type = reinterpret_cast<PyObject*>(tensor_type);
  if (method && !PyObject_HasAttrString(type, table.name) &&
      PyObject_SetAttrString(type, table.name, method.get()) != 0)
    throw PythonError{};
}

}  // namespace

PyObject* named_tuple(const Call& call, std::span<const Tensor> tensors) {
  if (!call.fields) return wrap_all(tensors);
  if (!*call.result_type) {
    std::vector<PyStructSequence_Field> fields;
    for (size_t i = 0; i < tensors.size(); ++i) fields.push_back({call.fields[i], nullptr});
    fields.push_back({nullptr, nullptr});
    static std::map<std::string, PyTypeObject*> types;  // the same names give the same type
    std::string key;
    for (size_t i = 0; i < tensors.size(); ++i) key += std::string(call.fields[i]) + " ";
    PyTypeObject*& type = types[key];
    if (!type) {
      PyStructSequence_Desc description = {"tensora.return_types.result", nullptr, fields.data(),
                                           static_cast<int>(tensors.size())};
      type = PyStructSequence_NewType(&description);
      if (!type) throw PythonError{};
    }
    *call.result_type = type;
  }
  Owned tuple(PyStructSequence_New(*call.result_type));
  for (size_t i = 0; i < tensors.size(); ++i)
    PyStructSequence_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), wrap(tensors[i]));
  return tuple.release();
}

void add_functions(PyObject* module) {
  const std::pair<PyObject**, const char*> texts[] = {{&text_axis, "axis"},
                                                      {&text_dim, "dim"},
                                                      {&text_keepdims, "keepdims"},
                                                      {&text_keepdim, "keepdim"},
                                                      {&text_input, "input"},
                                                      {&text_self, "self"},
                                                      {&text_out, "out"},
                                                      {&text_generator, "generator"},
                                                      {&text_unbiased, "unbiased"},
                                                      {&text_correction, "correction"},
                                                      {&text_layout, "layout"},
                                                      {&text_pin_memory, "pin_memory"},
                                                      {&text_memory_format, "memory_format"},
                                                      {&text_x2, "x2"},
                                                      {&text_other, "other"}};
  for (const auto& [place, text] : texts)
    *place = Owned(PyUnicode_InternFromString(text)).release();
  function_type = add_type(module, function_spec);
  method_type = add_type(module, method_spec);
  for (const auto& tables : function_tables())
    for (const FunctionTable& table : tables) add_function(module, table);
}

}  // namespace tensora::python
