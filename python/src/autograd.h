#pragma once

#include "python/src/object.h"

namespace tensora::python {

/// Adds backward, grad, the modes, and what Function and checkpoint stand on.
void add_autograd(PyObject* module);

/// The tensor that a call of Python returned, or an undefined one for None. Takes the reference.
/// Throws CarriedError if the call raised.
Tensor tensor_from_call(PyObject* result, const char* who);

/// _function_apply(cls, ctx, args): Function.apply.
PyObject* function_apply(PyObject* module, PyObject* args);
/// _checkpoint(function, tensors, preserve_rng_state)
PyObject* run_checkpoint(PyObject* module, PyObject* args);
/// _saved_tensors_scope(pack, unpack): a scope of hooks that ends with the object.
PyObject* saved_tensors_scope(PyObject* module, PyObject* args);

}  // namespace tensora::python
