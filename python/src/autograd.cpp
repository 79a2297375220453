#include "python/src/autograd.h"

#include "python/src/tensor_object.h"
#include "python/src/values.h"
#include "tensora/autograd/history.h"
#include "tensora/tensora.h"

namespace tensora::python {
namespace {

template <class F>
PyCFunction as_method(F* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

// ---- handles of hooks
// ---------------------------------------------------------------------------

/// A callable that undoes a registration.
struct UndoObject {
  PyObject_HEAD std::function<void()> undo;
};
PyTypeObject* undo_type;
PyObject* wrap_undo(std::function<void()> undo) {
  Owned object(undo_type->tp_alloc(undo_type, 0));
  new (&reinterpret_cast<UndoObject*>(object.get())->undo) std::function<void()>(std::move(undo));
  return object.release();
}
void undo_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  using Undo = std::function<void()>;
  reinterpret_cast<UndoObject*>(self)->undo.~Undo();
  type->tp_free(self);
  Py_DECREF(type);
}
PyObject* undo_remove(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    if (auto undo = std::exchange(reinterpret_cast<UndoObject*>(self)->undo, nullptr)) undo();
    Py_RETURN_NONE;
  });
}
PyObject* undo_enter(PyObject* self, PyObject*) { return Py_NewRef(self); }
PyObject* undo_exit(PyObject* self, PyObject*) { return undo_remove(self, nullptr); }
PyMethodDef undo_methods[] = {{"remove", undo_remove, METH_NOARGS, "Removes the hook."},
                              {"__enter__", undo_enter, METH_NOARGS, nullptr},
                              {"__exit__", undo_exit, METH_VARARGS, nullptr},
                              {nullptr, nullptr, 0, nullptr}};
PyType_Slot undo_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(undo_dealloc)},
                            {Py_tp_methods, undo_methods},
                            {0, nullptr}};
PyType_Spec undo_spec = {"tensora._C.HookHandle", sizeof(UndoObject), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, undo_slots};

// ---- the nodes of the graph
// ----------------------------------------------------------------------

struct NodeObject {
  PyObject_HEAD NodePtr node;
};
PyTypeObject* node_type;
const NodePtr& node_of(PyObject* self) { return reinterpret_cast<NodeObject*>(self)->node; }

PyObject* wrap_node(NodePtr node) {
  if (!node) Py_RETURN_NONE;
  Owned object(node_type->tp_alloc(node_type, 0));
  new (&reinterpret_cast<NodeObject*>(object.get())->node) NodePtr(std::move(node));
  return object.release();
}
void node_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  reinterpret_cast<NodeObject*>(self)->node.~NodePtr();
  type->tp_free(self);
  Py_DECREF(type);
}
PyObject* node_name(PyObject* self, PyObject*) {
  return guarded([&] {
    PyObject* own = function_name(*node_of(self));
    return own ? own : from_text(node_of(self)->name());
  });
}
PyObject* node_attribute(PyObject* self, PyObject* name) {
  if (PyObject* found = PyObject_GenericGetAttr(self, name)) return found;
  if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return nullptr;
  return guarded([&] { return function_attribute(*node_of(self), name); });
}
PyObject* node_repr(PyObject* self) {
  return guarded([&] {
    const Owned name(node_name(self, nullptr));
    return PyUnicode_FromFormat("<%U object at %p>", name.get(), node_of(self).get());
  });
}
PyObject* node_next(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    const auto edges = node_of(self)->edges();
    Owned result(PyTuple_New(static_cast<Py_ssize_t>(edges.size())));
    for (size_t i = 0; i < edges.size(); ++i) {
      const Owned node(wrap_node(edges[i].node));
      PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i),
                       Owned(Py_BuildValue("(Oi)", node.get(), edges[i].output)).release());
    }
    return result.release();
  });
}
// Each access makes an object of its own: they are equal if they stand for one node.
PyObject* node_compare(PyObject* self, PyObject* other, int operation) {
  if ((operation != Py_EQ && operation != Py_NE) || Py_TYPE(other) != node_type)
    Py_RETURN_NOTIMPLEMENTED;
  const bool same = node_of(self).get() == node_of(other).get();
  return PyBool_FromLong(same == (operation == Py_EQ));
}
Py_hash_t node_hash(PyObject* self) { return _Py_HashPointer(node_of(self).get()); }
PyObject* node_register_prehook(PyObject* self, PyObject* hook) {
  return guarded([&] { return wrap_undo(add_python_prehook(node_of(self), hook)); });
}
PyObject* node_register_hook(PyObject* self, PyObject* hook) {
  return guarded([&] { return wrap_undo(add_python_hook(node_of(self), hook)); });
}
PyMethodDef node_methods[] = {
    {"name", node_name, METH_NOARGS, "The name of the op."},
    {"register_hook", node_register_hook, METH_O,
     "register_hook(hook)\n--\n\nCalls hook(grad_inputs, grad_outputs) when the node has run in a "
     "backward; what it returns, if not None, replaces the first. A leaf's node has no inputs."},
    {"register_prehook", node_register_prehook, METH_O,
     "register_prehook(hook)\n--\n\nCalls hook(grad_outputs) before the node runs in a backward; "
     "what it returns, if not None, replaces them."},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef node_properties[] = {
    {"next_functions", node_next, nullptr, "Where the gradients go.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot node_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(node_dealloc)},
                            {Py_tp_repr, reinterpret_cast<void*>(node_repr)},
                            {Py_tp_getattro, reinterpret_cast<void*>(node_attribute)},
                            {Py_tp_richcompare, reinterpret_cast<void*>(node_compare)},
                            {Py_tp_hash, reinterpret_cast<void*>(node_hash)},
                            {Py_tp_methods, node_methods},
                            {Py_tp_getset, node_properties},
                            {0, nullptr}};
PyType_Spec node_spec = {"tensora._C.Node", sizeof(NodeObject), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, node_slots};

// ---- properties of tensors
// -----------------------------------------------------------------------

PyObject* get_requires_grad(PyObject* self, void*) {
  // A view whose history is unclear refuses.
  return guarded([&] { return PyBool_FromLong(tensor_of(self).requires_grad()); });
}
int set_requires_grad(PyObject* self, PyObject* value, void*) {
  return guarded(
      [&] {
        if (!value || !PyBool_Check(value)) raise_type_error("requires_grad must be a bool");
        check(tensor_of(self).is_leaf(),
              "requires_grad: only leaf tensors can be changed; use detach()");
        tensor_of(self).requires_grad_(value == Py_True);
        return 0;
      },
      -1);
}
PyObject* get_grad(PyObject* self, void*) {
  return guarded([&] { return wrap(tensor_of(self).grad()); });
}
PyObject* get_grad_of_any(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    const Tensor& tensor = tensor_of(self);
    const Tensor grad = tensor.grad();
    if (!grad.defined() && !tensor.is_leaf() && !tensor.retains_grad() &&
        PyErr_WarnEx(PyExc_UserWarning,
                     "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. "
                     "It stays None unless retain_grad() was called on the tensor.",
                     1) != 0)
      return nullptr;
    return wrap(grad);
  });
}
int set_grad(PyObject* self, PyObject* value, void*) {
  return guarded(
      [&] {
        if (value && value != Py_None && !is_tensor(value))
          raise_type_error("assigned grad expected to be a Tensor or None but got ",
                           Py_TYPE(value)->tp_name);
        check(value != self, "can't assign Variable as its own grad");
        tensor_of(self).set_grad(tensor_argument(value));
        return 0;
      },
      -1);
}
PyObject* get_data(PyObject* self, void*) {
  return guarded([&] { return wrap(data_of(tensor_of(self))); });
}
// How often a tensor got other data, which a replayed function may have captured.
long data_changes = 0;

int set_data(PyObject* self, PyObject* value, void*) {
  return guarded(
      [&] {
        if (!value || !is_tensor(value)) raise_type_error("data must be a Tensor");
        const View &old = tensor_of(self).impl().view, &now = tensor_of(value).impl().view;
        // As in x.data -= 1.
        const bool same = old.data && old.data == now.data && old.dtype == now.dtype &&
                          old.sizes == now.sizes && old.strides == now.strides;
        if (!same) ++data_changes;
        tensor_of(self).set_data(tensor_of(value));
        return 0;
      },
      -1);
}
PyObject* get_is_leaf(PyObject* self, void*) {
  return guarded([&] { return PyBool_FromLong(tensor_of(self).is_leaf()); });
}
PyObject* get_grad_fn(PyObject* self, void*) {
  return guarded([&] { return wrap_node(tensor_of(self).grad_fn()); });
}
PyObject* get_base(PyObject* self, void*) {
  return guarded([&] {
    const AutogradMeta* meta = autograd_meta_or_null(tensor_of(self));
    return wrap(meta && meta->view ? meta->view.base : Tensor());
  });
}
PyObject* get_output_nr(PyObject* self, void*) {
  return guarded([&] { return PyLong_FromUnsignedLong(tensor_of(self).output_nr()); });
}
PyObject* get_retains_grad(PyObject* self, void*) {
  return guarded([&] { return PyBool_FromLong(tensor_of(self).retains_grad()); });
}

// ---- methods of tensors
// --------------------------------------------------------------------------

PyObject* requires_grad_(PyObject* self, PyObject* args, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    int wanted = 1;
    static const char* names[] = {"requires_grad", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|p", const_cast<char**>(names), &wanted))
      return nullptr;
    tensor_of(self).requires_grad_(wanted != 0);
    return Py_NewRef(self);
  });
}
PyObject* detach(PyObject* self, PyObject*) {
  return guarded([&] { return wrap(tensor_of(self).detach()); });
}
PyObject* detach_(PyObject* self, PyObject*) {
  return guarded([&] {
    tensor_of(self).detach_();
    return Py_NewRef(self);
  });
}
PyObject* retain_grad(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    tensor_of(self).retain_grad();
    Py_RETURN_NONE;
  });
}
PyObject* is_inference(PyObject* self, PyObject*) {
  return PyBool_FromLong(tensor_of(self).is_inference());
}
PyObject* is_view(PyObject* self, PyObject*) {
  return guarded([&] { return PyBool_FromLong(tensor_of(self).is_view()); });
}

PyObject* tensor_backward(PyObject* self, PyObject* args, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    PyObject *gradient = nullptr, *retain = nullptr;
    int create = 0;
    static const char* names[] = {"gradient", "retain_graph", "create_graph", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|OOp", const_cast<char**>(names), &gradient,
                                     &retain, &create))
      return nullptr;
    if (gradient && gradient != Py_None && !is_tensor(gradient))
      raise_type_error("gradient can be either Tensor or None, got ", Py_TYPE(gradient)->tp_name);
    const bool keep = retain && retain != Py_None ? get<bool>(retain) : create != 0;
    {
      const ReleaseGil free;
      tensor_of(self).backward(tensor_argument(gradient), keep, create != 0);
    }
    Py_RETURN_NONE;
  });
}

PyObject* register_hook(PyObject* self, PyObject* hook) {
  return guarded([&] {
    if (!PyCallable_Check(hook)) raise_type_error("a hook must be callable");
    return wrap_undo(tensor_of(self).register_hook([kept = Kept(hook)](const Tensor& grad) {
      const HoldGil gil;
      const Owned argument(wrap(grad));
      return tensor_from_call(
          in_python([&] { return PyObject_CallOneArg(kept.get(), argument.get()); }), "a hook");
    }));
  });
}
PyObject* register_leaf_hook(PyObject* self, PyObject* hook) {
  return guarded([&] {
    if (!PyCallable_Check(hook)) raise_type_error("a hook must be callable");
    // The hook gets this very object; keeping it strongly would be a cycle through the leaf.
    const Owned reference(PyWeakref_NewRef(self, nullptr));
    return wrap_undo(tensor_of(self).register_post_accumulate_grad_hook(
        [kept = Kept(hook), target = Kept(reference.get())](const Tensor& leaf) {
          const HoldGil gil;
          PyObject* found = PyWeakref_GetObject(target.get());
          const Owned argument(found && found != Py_None ? Py_NewRef(found) : wrap(leaf));
          PyObject* result =
              in_python([&] { return PyObject_CallOneArg(kept.get(), argument.get()); });
          if (!result) throw CarriedError();
          const Owned owned(result);
          check(result == Py_None, "register_post_accumulate_grad_hook: hooks should return None");
        }));
  });
}

// ---- functions of the module
// ---------------------------------------------------------------------

std::vector<Tensor> tensors_or_nones(PyObject* object) {
  if (!object || object == Py_None) return {};
  if (is_tensor(object)) return {tensor_of(object)};
  return get<std::vector<Tensor>>(object);
}

PyObject* module_backward(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *outputs = nullptr, *gradients = nullptr;
    int retain = 0, create = 0;
    if (!PyArg_ParseTuple(args, "OOpp", &outputs, &gradients, &retain, &create)) return nullptr;
    const auto from = tensors_or_nones(outputs), with = tensors_or_nones(gradients);
    {
      const ReleaseGil free;
      backward(from, with, {.retain_graph = retain != 0, .create_graph = create != 0});
    }
    Py_RETURN_NONE;
  });
}
PyObject* module_grad(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *outputs = nullptr, *inputs = nullptr, *gradients = nullptr;
    int retain = 0, create = 0, unused = 0;
    if (!PyArg_ParseTuple(args, "OOOppp", &outputs, &inputs, &gradients, &retain, &create, &unused))
      return nullptr;
    const auto from = tensors_or_nones(outputs), to = tensors_or_nones(inputs),
               with = tensors_or_nones(gradients);
    std::vector<Tensor> result;
    {
      const ReleaseGil free;
      result = grad(
          std::span<const Tensor>(from), to, with,
          {.retain_graph = retain != 0, .create_graph = create != 0, .allow_unused = unused != 0});
    }
    return wrap_all(result);
  });
}
PyObject* module_gradient_edge(PyObject*, PyObject* tensor) {
  return guarded([&] {
    if (!is_tensor(tensor)) raise_type_error("expected a Tensor, got ", Py_TYPE(tensor)->tp_name);
    const Edge edge = gradient_edge(tensor_of(tensor));
    const Owned node(wrap_node(edge.node));
    return Py_BuildValue("(OI)", node.get(), edge.output);
  });
}
PyObject* module_tensor_at(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* object = nullptr;
    unsigned output = 0;
    if (!PyArg_ParseTuple(args, "O!I", node_type, &object, &output)) return nullptr;
    const NodePtr& node = node_of(object);
    check(output < node->output_count(), "a node with ", node->output_count(),
          " outputs has no output ", output);
    const Tensor tensor = empty({0});
    if (node->is_leaf()) {
      tensor.requires_grad_();
      auto* leaf = static_cast<AccumulateGrad*>(node.get());
      autograd_meta(tensor).accumulator = IntrusivePtr<AccumulateGrad>::share(leaf);
    } else {
      set_history(tensor, node, output);
    }
    return wrap(tensor);
  });
}
PyObject* module_bump_version(PyObject*, PyObject* tensor) {
  return guarded([&]() -> PyObject* {
    if (!is_tensor(tensor)) raise_type_error("expected a Tensor, got ", Py_TYPE(tensor)->tp_name);
    tensor_of(tensor).impl().storage->bump_version();
    Py_RETURN_NONE;
  });
}
PyObject* module_queue_callback(PyObject*, PyObject* callback) {
  return guarded([&]() -> PyObject* {
    if (!PyCallable_Check(callback)) raise_type_error("a callback must be callable");
    queue_callback([kept = Kept(callback)] {
      const HoldGil gil;
      PyObject* result = in_python([&] { return PyObject_CallNoArgs(kept.get()); });
      if (!result) throw CarriedError();
      Py_DECREF(result);
    });
    Py_RETURN_NONE;
  });
}
PyObject* module_set_grad_enabled(PyObject*, PyObject* value) {
  const bool before = thread_state.grad_enabled;
  thread_state.grad_enabled = value == Py_True;
  return PyBool_FromLong(before);
}
PyObject* module_is_grad_enabled(PyObject*, PyObject*) {
  return PyBool_FromLong(thread_state.grad_enabled);
}
PyObject* module_set_inference(PyObject*, PyObject* value) {
  const bool before = thread_state.inference_mode;
  thread_state.inference_mode = value == Py_True;
  return PyBool_FromLong(before);
}
PyObject* module_is_inference(PyObject*, PyObject*) {
  return PyBool_FromLong(thread_state.inference_mode);
}

PyObject* module_data_changes(PyObject*, PyObject*) { return PyLong_FromLong(data_changes); }

PyMethodDef module_methods[] = {
    {"_data_changes", module_data_changes, METH_NOARGS, nullptr},
    {"_backward", module_backward, METH_VARARGS, nullptr},
    {"_grad", module_grad, METH_VARARGS, nullptr},
    {"_gradient_edge", module_gradient_edge, METH_O, nullptr},
    {"_tensor_at", module_tensor_at, METH_VARARGS, nullptr},
    {"_bump_version", module_bump_version, METH_O, nullptr},
    {"_queue_callback", module_queue_callback, METH_O, nullptr},
    {"_set_grad_enabled", module_set_grad_enabled, METH_O, nullptr},
    {"is_grad_enabled", module_is_grad_enabled, METH_NOARGS, "Whether ops record a graph."},
    {"_set_inference_mode", module_set_inference, METH_O, nullptr},
    {"is_inference_mode_enabled", module_is_inference, METH_NOARGS,
     "Whether inference_mode is on."},
    {"_function_apply", function_apply, METH_VARARGS, nullptr},
    {"_checkpoint", run_checkpoint, METH_VARARGS, nullptr},
    {"_saved_tensors_scope", saved_tensors_scope, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

Tensor tensor_from_call(PyObject* result, const char* who) {
  if (!result) throw CarriedError();
  const Owned owned(result);
  if (result != Py_None && !is_tensor(result)) {
    PyErr_Format(PyExc_TypeError, "%s must return a Tensor or None, got %s", who,
                 Py_TYPE(result)->tp_name);
    throw CarriedError();
  }
  return tensor_argument(result);
}

PyMethodDef autograd_methods[] = {
    {"requires_grad_", as_method(requires_grad_), METH_VARARGS | METH_KEYWORDS,
     "requires_grad_(requires_grad=True)\n--\n\nStarts or stops recording on this leaf."},
    {"detach", detach, METH_NOARGS, "The same data outside the graph."},
    {"detach_", detach_, METH_NOARGS, "Detaches this tensor itself from the graph."},
    {"retain_grad", retain_grad, METH_NOARGS, "Keeps the gradient of this non-leaf in .grad."},
    {"is_inference", is_inference, METH_NOARGS, nullptr},
    {"_is_view", is_view, METH_NOARGS, nullptr},
    {"_backward", as_method(tensor_backward), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"register_hook", register_hook, METH_O,
     "register_hook(hook)\n--\n\nCalls hook(grad) when the gradient is known; what it returns, if "
     "not None, replaces the gradient."},
    {"register_post_accumulate_grad_hook", register_leaf_hook, METH_O,
     "register_post_accumulate_grad_hook(hook)\n--\n\nCalls hook(leaf) when backward has completed "
     "its gradient."},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef autograd_properties[] = {
    {"requires_grad", get_requires_grad, set_requires_grad, "Whether gradients are computed.",
     nullptr},
    {"grad", get_grad_of_any, set_grad, "The accumulated gradient, or None.", nullptr},
    {"_grad", get_grad, set_grad, nullptr, nullptr},
    {"data", get_data, set_data, "The same data outside the graph.", nullptr},
    {"is_leaf", get_is_leaf, nullptr, "Whether it was not made by a recorded op.", nullptr},
    {"grad_fn", get_grad_fn, nullptr, "The node of the graph that made it, or None.", nullptr},
    {"_base", get_base, nullptr, "The tensor that this one is a view of, or None.", nullptr},
    {"output_nr", get_output_nr, nullptr, "Which output of its node it is.", nullptr},
    {"retains_grad", get_retains_grad, nullptr, "Whether retain_grad was called.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

void add_autograd(PyObject* module) {
  node_type = add_type(module, node_spec);
  undo_type = add_type(module, undo_spec);
  for (PyMethodDef* functions : {module_methods, sparse_methods})
    if (PyModule_AddFunctions(module, functions) != 0) throw PythonError{};
}

}  // namespace tensora::python
