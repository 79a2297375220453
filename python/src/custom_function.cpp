#include "python/src/autograd.h"
#include "python/src/tensor_object.h"
#include "python/src/values.h"
#include "tensora/tensora.h"

// autograd.Function and checkpoint: graph nodes whose body is Python.

namespace tensora::python {
namespace {

struct PythonFunction {};  // gives the node's type a name
using KeptPtr = std::shared_ptr<Kept>;
constexpr const char* kContext = "context";

/// A list attribute of the context as tensors; None becomes an undefined tensor.
TensorList tensors_of(PyObject* context, const char* name) {
  const Owned list(PyObject_GetAttrString(context, name));
  return get<std::vector<Tensor>>(list.get());
}

TensorList list_from_result(PyObject* result, const char* who) {
  TensorList list;
  const auto add = [&](PyObject* item) {
    if (item != Py_None && !is_tensor(item))
      raise_type_error(who, " must return tensors, got ", Py_TYPE(item)->tp_name);
    list.push_back(tensor_argument(item));
  };
  if (is_sequence(result))
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(result); ++i)
      add(PySequence_Fast_GET_ITEM(result, i));
  else
    add(result);
  return list;
}

/// Runs a body that calls Python, from C++ code that may not hold the GIL.
template <class Body>
auto calling_python(Body&& body) {
  const HoldGil gil;
  try {
    return body();
  } catch (const PythonError&) {
    throw CarriedError();
  }
}

TensorList python_backward(Context& context, const TensorList& grads) {
  return calling_python([&] {
    PyObject* python = std::any_cast<const KeptPtr&>(context.data.at(kContext))->get();
    const TensorList saved = context.saved_tensors();
    const Owned saved_tuple(wrap_all(saved));
    if (PyObject_SetAttrString(python, "saved_tensors", saved_tuple.get()) != 0)
      throw PythonError{};
    const Owned arguments(wrap_all(grads));
    const Owned result(PyObject_CallMethod(python, "_run_backward", "(O)", arguments.get()));
    if (PyObject_SetAttrString(python, "saved_tensors", Owned(PyTuple_New(0)).get()) != 0)
      throw PythonError{};
    return list_from_result(result.get(), "backward");
  });
}

TensorList run_forward(Context& context, PyObject* python, PyObject* args, bool& single) {
  const no_grad silent;
  const Owned result(PyObject_CallMethod(python, "_run_forward", "(O)", args));
  single = !is_sequence(result.get());
  TensorList outputs = list_from_result(result.get(), "forward");
  context.mark_dirty(tensors_of(python, "_dirty"));
  context.mark_non_differentiable(tensors_of(python, "_non_differentiable"));
  const Owned materialize(PyObject_GetAttrString(python, "materialize_grads"));
  context.set_materialize_grads(get<bool>(materialize.get()));
  context.save_for_backward(tensors_of(python, "_to_save"));
  if (PyObject_SetAttrString(python, "_to_save", Owned(PyTuple_New(0)).get()) != 0 ||
      PyObject_SetAttrString(python, "_dirty", Owned(PyTuple_New(0)).get()) != 0 ||
      PyObject_SetAttrString(python, "_non_differentiable", Owned(PyTuple_New(0)).get()) != 0)
    throw PythonError{};
  return outputs;
}

}  // namespace

PyObject* function_apply(PyObject*, PyObject* arguments) {
  return guarded([&]() -> PyObject* {
    PyObject *python = nullptr, *args = nullptr;
    if (!PyArg_ParseTuple(arguments, "OO!", &python, &PyTuple_Type, &args)) return nullptr;
    auto node = IntrusivePtr<FunctionNode>::adopt(
        new FunctionNode(typeid(PythonFunction), python_backward));
    const Py_ssize_t count = PyTuple_GET_SIZE(args);
    const Owned needs(PyTuple_New(count));
    for (Py_ssize_t i = 0; i < count; ++i) {
      PyObject* item = PyTuple_GET_ITEM(args, i);
      node->add_argument(is_tensor(item) ? tensor_of(item) : Tensor());
      const bool wanted = is_tensor(item) && is_grad_enabled() && tensor_of(item).requires_grad();
      PyTuple_SET_ITEM(needs.get(), i, PyBool_FromLong(wanted));
    }
    if (PyObject_SetAttrString(python, "needs_input_grad", needs.get()) != 0) throw PythonError{};
    node->context().data[kContext] = std::make_shared<Kept>(python);
    bool single = false;
    TensorList outputs = run_forward(node->context(), python, args, single);
    node->finish(outputs);
    return single ? wrap(outputs[0]) : wrap_all(outputs);
  });
}

PyObject* run_checkpoint(PyObject*, PyObject* arguments) {
  return guarded([&]() -> PyObject* {
    PyObject *function = nullptr, *tensors = nullptr;
    int preserve = 1;
    if (!PyArg_ParseTuple(arguments, "OOp", &function, &tensors, &preserve)) return nullptr;
    const auto body = [kept = std::make_shared<Kept>(function)](const TensorList& inputs) {
      return calling_python([&] {
        const Owned tuple(wrap_all(inputs));
        const Owned result(PyObject_CallObject(kept->get(), tuple.get()));
        return list_from_result(result.get(), "checkpoint's function");
      });
    };
    const TensorList inputs = get<std::vector<Tensor>>(tensors);
    const TensorList outputs = checkpoint(body, inputs, {.preserve_random_state = preserve != 0});
    return wrap_all(outputs);
  });
}

}  // namespace tensora::python
