#pragma once

// Python classes that take part in the functions of the module: __torch_function__, and the device
// that factories use where a call names none.

#include "python/src/function.h"

namespace tensora::python {

// Note [Overriding functions]
// A class with a __torch_function__ decides what a function of the module does with its objects.
// Objects that are no tensors (fx.Proxy) fit no parameter, so they are looked for only where a call
// matches no overload. Subclasses of Tensor fit, so they must be found before the match. They are
// registered when they are defined (Tensor.__init_subclass__ in tensora/overrides.py), and as long
// as there is none, a call costs one test more.

/// The arguments of a vectorcall.
struct VectorArguments {
  PyObject* const* values;
  Py_ssize_t positional;
  PyObject* names;  // of the keywords, whose values follow the positional ones; may be null
};

/// Whether a subclass of Tensor overrides functions, in this thread and now.
bool tensors_override();
/// Calls the __torch_function__ of the arguments that have one: of subclasses of Tensor, or of
/// other objects. Null, without an error, if there is none.
PyObject* call_override(PyObject* function, const VectorArguments& arguments, bool tensors);

/// Gives a factory's call the default device of this thread, if it names none.
void use_default_device(const Overload& overload, Call& call);
/// The default device of this thread, borrowed; null if there is none.
PyObject* default_device_object();

void add_overrides(PyObject* module);

}  // namespace tensora::python
