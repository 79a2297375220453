#pragma once

#include <functional>

#include "python/src/object.h"
#include "tensora/autograd/node.h"

namespace tensora::python {

/// Adds backward, grad, the modes, and what Function and checkpoint stand on.
void add_autograd(PyObject* module);

/// The tensor that a call of Python returned, or an undefined one for None. Takes the reference.
/// Throws CarriedError if the call raised.
Tensor tensor_from_call(PyObject* result, const char* who);

/// _function_apply(cls, ctx, args): Function.apply.
PyObject* function_apply(PyObject* module, PyObject* args);
/// The name of a node that a Function of the program made; null for other nodes.
PyObject* function_name(Node& node);
/// What such a node's context has by that name. Keeps the error that is set if it has nothing.
PyObject* function_attribute(Node& node, PyObject* name);
/// node.register_prehook(hook) and node.register_hook(hook); the results undo the registrations.
std::function<void()> add_python_prehook(const NodePtr& node, PyObject* hook);
std::function<void()> add_python_hook(const NodePtr& node, PyObject* hook);
/// _checkpoint(function, tensors, preserve_rng_state)
PyObject* run_checkpoint(PyObject* module, PyObject* args);
/// _saved_tensors_scope(pack, unpack): a scope of hooks that ends with the object.
PyObject* saved_tensors_scope(PyObject* module, PyObject* args);

}  // namespace tensora::python
