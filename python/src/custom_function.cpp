#include "python/src/autograd.h"
#include "python/src/tensor_object.h"
#include "python/src/values.h"
#include "tensora/autograd/history.h"
#include "tensora/autograd/node_hooks.h"
#include "tensora/autograd/saved_tensor_hooks.h"
#include "tensora/tensora.h"

// autograd.Function and checkpoint: graph nodes whose body is Python; and hooks on nodes.

namespace tensora::python {
namespace {

struct PythonFunction {};  // gives the node's type a name
using KeptPtr = std::shared_ptr<Kept>;
constexpr const char* kContext = "context";
constexpr const char* kPacked = "packed";

/// A tensor that a function saved within a scope of hooks, and the history that it had.
struct PackedInput {
  std::shared_ptr<PackedTensor> packed;  // null: the function saved None
  Edge edge;

  Tensor unpack() const {
    if (!packed) return {};
    Tensor tensor = shallow_detach(packed->unpack());
    if (edge.node) set_history(tensor, edge.node, edge.output);
    return tensor;
  }
};
using PackedInputs = std::vector<PackedInput>;

/// Keeps tensors in the context, through the hooks where a scope of them is open.
void save_in(FunctionNode& node, TensorList tensors) {
  Context& context = node.context();
  if (!node.records()) return;
  PackedInputs inputs;
  for (const Tensor& tensor : tensors) {
    std::shared_ptr<PackedTensor> packed;
    if (tensor.defined() && !(packed = SavedTensorHooks::pack(tensor)))
      return context.save_for_backward(std::move(tensors));
    inputs.push_back({std::move(packed), tensor.defined() ? gradient_edge(tensor) : Edge{}});
  }
  context.data[kPacked] = std::move(inputs);
}

TensorList saved_in(Context& context) {
  const auto found = context.data.find(kPacked);
  if (found == context.data.end()) return context.saved_tensors();
  TensorList tensors;
  for (const PackedInput& input : std::any_cast<const PackedInputs&>(found->second))
    tensors.push_back(input.unpack());
  return tensors;
}

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

/// The FunctionCtx behind a node, borrowed; null for nodes of other kinds.
PyObject* context_of(Node& node) {
  auto* function = dynamic_cast<FunctionNode*>(&node);
  if (!function) return nullptr;
  const auto found = function->context().data.find(kContext);
  if (found == function->context().data.end()) return nullptr;
  const auto* kept = std::any_cast<KeptPtr>(&found->second);
  return kept ? (*kept)->get() : nullptr;
}

TensorList python_backward(Context& context, const TensorList& grads) {
  return calling_python([&] {
    PyObject* python = std::any_cast<const KeptPtr&>(context.data.at(kContext))->get();
    const TensorList saved = saved_in(context);
    const Owned saved_tuple(wrap_all(saved));
    if (PyObject_SetAttrString(python, "saved_tensors", saved_tuple.get()) != 0)
      throw PythonError{};
    const Owned arguments(wrap_all(grads));
    const Owned result(in_python(
        [&] { return PyObject_CallMethod(python, "_run_backward", "(O)", arguments.get()); }));
    if (PyObject_SetAttrString(python, "saved_tensors", Owned(PyTuple_New(0)).get()) != 0)
      throw PythonError{};
    return list_from_result(result.get(), "backward");
  });
}

TensorList run_forward(FunctionNode& node, PyObject* python, PyObject* args, bool& single) {
  Context& context = node.context();
  const no_grad silent;
  const Owned result(
      in_python([&] { return PyObject_CallMethod(python, "_run_forward", "(O)", args); }));
  single = !is_sequence(result.get());
  TensorList outputs = list_from_result(result.get(), "forward");
  context.mark_dirty(tensors_of(python, "_dirty"));
  context.mark_non_differentiable(tensors_of(python, "_non_differentiable"));
  const Owned materialize(PyObject_GetAttrString(python, "materialize_grads"));
  context.set_materialize_grads(get<bool>(materialize.get()));
  save_in(node, tensors_of(python, "_to_save"));
  if (PyObject_SetAttrString(python, "_to_save", Owned(PyTuple_New(0)).get()) != 0 ||
      PyObject_SetAttrString(python, "_dirty", Owned(PyTuple_New(0)).get()) != 0 ||
      PyObject_SetAttrString(python, "_non_differentiable", Owned(PyTuple_New(0)).get()) != 0)
    throw PythonError{};
  return outputs;
}

}  // namespace

PyObject* function_name(Node& node) {
  PyObject* python = context_of(node);
  return python ? Owned(PyObject_CallMethod(python, "_node_name", nullptr)).release() : nullptr;
}

PyObject* function_attribute(Node& node, PyObject* name) {
  PyObject* python = context_of(node);
  const char* text = PyUnicode_AsUTF8(name);
  if (!python || !text || *text == '_') return nullptr;
  PyErr_Clear();
  if (std::string_view(text) == "saved_tensors")
    return wrap_all(saved_in(static_cast<FunctionNode&>(node).context()));
  return PyObject_GetAttr(python, name);
}

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
    TensorList outputs = run_forward(*node, python, args, single);
    node->finish(outputs);
    return single ? wrap(outputs[0]) : wrap_all(outputs);
  });
}

namespace {

/// What a pack hook returned, and the hook that turns it into a tensor again.
class PythonPacked final : public PackedTensor {
 public:
  PythonPacked(PyObject* content, KeptPtr unpack) : content_(content), unpack_(std::move(unpack)) {}
  Tensor unpack() const override {
    return calling_python([&] {
      const Owned result(
          in_python([&] { return PyObject_CallOneArg(unpack_->get(), content_.get()); }));
      if (!is_tensor(result.get()))
        raise_type_error(
            "Output of saved tensor unpack_hook expected to be a Tensor but got result of type ",
            Py_TYPE(result.get())->tp_name);
      return tensor_of(result.get());
    });
  }

 private:
  Kept content_;
  KeptPtr unpack_;
};

void end_hooks(PyObject* capsule) {
  delete static_cast<SavedTensorHooks*>(PyCapsule_GetPointer(capsule, nullptr));
}

}  // namespace

PyObject* saved_tensors_scope(PyObject*, PyObject* arguments) {
  return guarded([&]() -> PyObject* {
    PyObject *pack = nullptr, *unpack = nullptr;
    if (!PyArg_ParseTuple(arguments, "OO", &pack, &unpack)) return nullptr;
    auto hooks = std::make_unique<SavedTensorHooks>(
        [pack = std::make_shared<Kept>(pack),
         unpack = std::make_shared<Kept>(unpack)](const Tensor& tensor) {
          return calling_python([&]() -> std::unique_ptr<PackedTensor> {
            const Owned argument(wrap(tensor));
            const Owned content(
                in_python([&] { return PyObject_CallOneArg(pack->get(), argument.get()); }));
            return std::make_unique<PythonPacked>(content.get(), unpack);
          });
        });
    PyObject* scope = PyCapsule_New(hooks.get(), nullptr, end_hooks);
    if (scope) hooks.release();  // NOLINT: the capsule owns it now
    return scope;
  });
}

namespace {

/// What a hook on a node returned; empty: None.
Tensors gradients_from_hook(PyObject* result, size_t count) {
  const Owned owned(result);
  Tensors gradients;
  if (result == Py_None) return gradients;
  for (Tensor& tensor : list_from_result(result, "a hook on a node"))
    gradients.push_back(std::move(tensor));
  check(gradients.size() == count, "a hook on a node has returned an incorrect number of values (",
        gradients.size(), ", expected ", count, ")");
  return gradients;
}

PyObject* wrap_gradients(const Tensors& gradients) {
  return wrap_all({gradients.begin(), gradients.size()});
}

HookBeforeNode before_node(PyObject* hook) {
  if (!PyCallable_Check(hook)) raise_type_error("a hook must be callable");
  return [kept = Kept(hook)](const Tensors& grads) {
    return calling_python([&] {
      const Owned given(wrap_gradients(grads));
      return gradients_from_hook(
          in_python([&] { return PyObject_CallOneArg(kept.get(), given.get()); }), grads.size());
    });
  };
}

HookAfterNode after_node(PyObject* hook) {
  if (!PyCallable_Check(hook)) raise_type_error("a hook must be callable");
  return [kept = Kept(hook)](const Tensors& results, const Tensors& grads) {
    return calling_python([&] {
      const Owned made(wrap_gradients(results)), given(wrap_gradients(grads));
      return gradients_from_hook(in_python([&] {
                                   return PyObject_CallFunctionObjArgs(kept.get(), made.get(),
                                                                       given.get(), nullptr);
                                 }),
                                 results.size());
    });
  };
}

}  // namespace

std::function<void()> add_python_prehook(const NodePtr& node, PyObject* hook) {
  if (!node->is_leaf()) {
    const uint64_t id = add_hook_before(*node, before_node(hook));
    return [node, id] { remove_node_hook(*node, id); };
  }
  const uint64_t id = node->add_hook(0, [call = before_node(hook)](const Tensor& grad) {
    const Tensors changed = call({grad});
    return changed.empty() ? Tensor() : changed[0];
  });
  return [node, id] { node->remove_hook(id); };
}

std::function<void()> add_python_hook(const NodePtr& node, PyObject* hook) {
  if (!node->is_leaf()) {
    const uint64_t id = add_hook_after(*node, after_node(hook));
    return [node, id] { remove_node_hook(*node, id); };
  }
  // What arrives is kept until it has been accumulated.
  const auto arrived = std::make_shared<Tensor>();
  const uint64_t before = node->add_last_hook(0, [arrived](const Tensor& grad) {
    *arrived = grad;
    return Tensor();
  });
  auto* leaf = static_cast<AccumulateGrad*>(node.get());
  const uint64_t after =
      leaf->add_after_hook(Tensor(), [arrived, call = after_node(hook)](const Tensor&) {
        call({}, {std::exchange(*arrived, {})});
      });
  return [node, leaf, before, after] {
    node->remove_hook(before);
    leaf->remove_after_hook(after);
  };
}

PyObject* run_checkpoint(PyObject*, PyObject* arguments) {
  return guarded([&]() -> PyObject* {
    PyObject *function = nullptr, *tensors = nullptr;
    int preserve = 1;
    if (!PyArg_ParseTuple(arguments, "OOp", &function, &tensors, &preserve)) return nullptr;
    const auto body = [kept = std::make_shared<Kept>(function)](const TensorList& inputs) {
      return calling_python([&] {
        const Owned tuple(wrap_all(inputs));
        const Owned result(
            in_python([&] { return PyObject_CallObject(kept->get(), tuple.get()); }));
        return list_from_result(result.get(), "checkpoint's function");
      });
    };
    const TensorList inputs = get<std::vector<Tensor>>(tensors);
    const TensorList outputs = checkpoint(body, inputs, {.preserve_random_state = preserve != 0});
    return wrap_all(outputs);
  });
}

}  // namespace tensora::python
