#pragma once

#include <any>
#include <map>
#include <type_traits>
#include <typeinfo>

#include "tensora/autograd/grad_mode.h"
#include "tensora/autograd/queued_node.h"

namespace tensora {

class FunctionNode;

/// What the two halves of a custom function share.
class Context {
 public:
  /// Keeps tensors for backward: inputs, outputs or intermediates of forward. Call it once.
  void save_for_backward(TensorList tensors);
  /// What was saved, in order; throws if one of them was changed in place since.
  TensorList saved_tensors() const;
  /// Anything else that backward wants to know: numbers, shapes, …
  std::map<std::string, std::any> data;

  /// These outputs of forward take no part in the graph.
  void mark_non_differentiable(const TensorList& outputs);
  /// Forward changed these inputs in place, and returns them.
  void mark_dirty(const TensorList& inputs);
  /// By default backward sees zeros for outputs that nothing depended on; without, undefined
  /// tensors.
  void set_materialize_grads(bool value) { materialize_grads_ = value; }
  /// Whether argument `i` of forward wants a gradient.
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

  std::string_view name() const override { return name_; }
  Tensors backward(Tensors grads) override;
  void release() override;

  Context& context() { return context_; }
  /// Declares the next argument of forward; undefined for what is no tensor.
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
/// `forward` runs without recording and returns a Tensor or a TensorList. `backward` gets one
/// gradient per output and returns one per argument of forward, undefined where there is none; if
/// it consists of differentiable ops, the function can be differentiated again.
template <class T>
class Function {
 public:
  template <class... Arguments>
  static auto apply(Arguments&&... arguments) {
    auto node = IntrusivePtr<FunctionNode>::adopt(new FunctionNode(typeid(T), T::backward));
    (node->add_argument(as_tensor(arguments)), ...);
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
  static Tensor as_tensor(const Argument& argument) {
    if constexpr (std::is_same_v<Argument, Tensor>)
      return argument;
    else
      return {};
  }
};

}  // namespace tensora
