#pragma once

#include <any>
#include <map>
#include <type_traits>
#include <typeinfo>

#include "tensora/autograd/grad_mode.h"
#include "tensora/autograd/queued_node.h"

namespace tensora {

class FunctionNode;

/// What forward and backward of a custom function share.
class Context {
 public:
  ~Context();
  /// Keeps tensors for backward: inputs, outputs or intermediates of forward. Call it once.
  void save_for_backward(TensorList tensors);
  /// What was saved, in order; throws if one of them was changed in place since.
  TensorList saved_tensors() const;
  /// Anything else that backward needs: numbers, shapes, …
  std::map<std::string, std::any> data;

  /// These outputs of forward take no part in the graph.
  void mark_non_differentiable(const TensorList& outputs);
  /// Forward changed these inputs in place, and returns them.
  void mark_dirty(const TensorList& inputs);
  /// By default backward gets zeros for outputs that nothing depended on; if false, undefined
  /// tensors.
  void set_materialize_grads(bool value) { materialize_grads_ = value; }
  /// Whether argument `i` of forward wants a gradient; a list counts as many as it has tensors.
  bool needs_input_grad(size_t i) const;

 private:
  friend class FunctionNode;
  struct Saved {
    Tensor tensor;
    uint32_t version;
    int output;  // which output of forward it is, or -1
  };
  explicit Context(FunctionNode& node) : node_(node) {}

  FunctionNode& node_;
  std::vector<Saved> saved_;
  TensorList non_differentiable_, dirty_;
  bool materialize_grads_ = true;
};

/// The graph node of a custom function.
class FunctionNode final : public QueuedNode {
 public:
  using Backward = TensorList (*)(Context&, const TensorList& grads);
  FunctionNode(const std::type_info& type, Backward backward);
  ~FunctionNode() override;

  std::string_view name() const override { return name_; }
  Tensors backward(Tensors grads) override;
  void release() override;

  Context& context() { return context_; }
  /// Declares the next tensor among forward's arguments; undefined for an argument that is no
  /// tensor.
  void add_argument(const Tensor& argument);
  bool records() const;
  /// Gives the outputs of forward their history; some are replaced by aliases.
  void finish(TensorList& outputs);

 private:
  friend class Context;
  void take_output(Tensor& output, uint32_t index);
  Tensor as_argument_alias(const Tensor& output) const;

  std::string name_;
  Backward backward_;
  Context context_;
  std::vector<InputInfo> arguments_, outputs_;
  TensorList argument_tensors_;  // only until finish()
  bool released_ = false;
};

namespace detail {

template <class T>
concept TensorArgument = std::is_convertible_v<const T&, Tensor>;
template <class T>
concept OptionalTensorArgument = std::is_same_v<T, std::optional<Tensor>>;
template <class T>
concept TensorListArgument = requires(const T& list) {
  { *std::begin(list) } -> std::convertible_to<const Tensor&>;
  std::end(list);
};

/// Whether tensors can be reached through a `T`: by iteration, by `*`, or as parts of a tuple.
template <class T>
constexpr bool holds_tensors() {
  if constexpr (std::is_function_v<T>) {
    return false;
  } else if constexpr (TensorArgument<T>) {
    return true;
  } else if constexpr (requires(const T& x) { std::begin(x), std::end(x); }) {
    using Element = std::remove_cvref_t<decltype(*std::begin(std::declval<const T&>()))>;
    if constexpr (!std::is_same_v<Element, T>) return holds_tensors<Element>();
    return false;
  } else if constexpr (requires(const T& x) { *x; }) {
    return holds_tensors<std::remove_cvref_t<decltype(*std::declval<const T&>())>>();
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    return []<size_t... i>(std::index_sequence<i...>) {
      return (holds_tensors<std::remove_cvref_t<std::tuple_element_t<i, T>>>() || ...);
    }(std::make_index_sequence<std::tuple_size_v<T>>());
  } else {
    return false;
  }
}

/// What forward of a custom function may take. Tensors inside other arguments (lists of lists,
/// pointers, pairs, maps) would silently stay outside the graph.
template <class T>
concept FunctionArgument =
    TensorArgument<std::remove_cvref_t<T>> || OptionalTensorArgument<std::remove_cvref_t<T>> ||
    TensorListArgument<std::remove_cvref_t<T>> || !holds_tensors<std::remove_cvref_t<T>>();

}  // namespace detail

/// A differentiable function with a backward of its own:
///
///   struct Scale : Function<Scale> {
///     static Tensor forward(Context& context, const Tensor& x, double factor) {
///       context.data["factor"] = factor;
///       return x * factor;
///     }
///     static TensorList backward(Context& context, const TensorList& grads) {
///       return {grads[0] * std::any_cast<double>(context.data["factor"]), Tensor()};
///     }
///   };
///   Tensor y = Scale::apply(x, 2.0);
///
/// `forward` runs without recording and returns a Tensor or a TensorList. Its arguments are
/// tensors, optional tensors, lists of tensors, and anything without tensors. `backward` gets one
/// gradient per output and returns one per argument of forward, and for a list one per tensor in
/// it, undefined where there is none; if it consists of differentiable ops, the function can be
/// differentiated again. Messages name the function after `Named`.
template <class T, class Named = T>
class Function {
 public:
  template <detail::FunctionArgument... Arguments>
  static auto apply(Arguments&&... arguments) {
    auto node = IntrusivePtr<FunctionNode>::adopt(new FunctionNode(typeid(Named), T::backward));
    (add(*node, arguments), ...);
    using Result = decltype(T::forward(node->context(), arguments...));
    TensorList outputs;
    {
      const no_grad silent;
      if constexpr (std::is_same_v<Result, Tensor>)
        outputs.push_back(T::forward(node->context(), arguments...));
      else
        outputs = T::forward(node->context(), arguments...);
    }
    node->finish(outputs);
    if constexpr (std::is_same_v<Result, Tensor>)
      return std::move(outputs[0]);
    else
      return outputs;
  }

 private:
  template <class Argument>
  static void add(FunctionNode& node, const Argument& argument) {
    if constexpr (detail::TensorArgument<Argument>) {
      node.add_argument(argument);
    } else if constexpr (detail::OptionalTensorArgument<Argument>) {
      node.add_argument(argument.value_or(Tensor()));
    } else if constexpr (detail::TensorListArgument<Argument>) {
      for (const Tensor& tensor : argument) node.add_argument(tensor);
    } else {
      node.add_argument(Tensor());
    }
  }
};

}  // namespace tensora
