#pragma once

// torch::autograd: functions with a backward of their own, and gradients.

#include "tensora/io/state.h"
#include "tensora/libtorch/names.h"

namespace c10 {

/// A value of one of the types that archives keep.
class IValue : public tensora::Value {
 public:
  using Value::Value;
  IValue(const Value& value) : Value(value) {}  // NOLINT: implicit
  bool isTensor() const { return is_tensor(); }
  bool isInt() const { return is_int(); }
  bool isDouble() const { return is_double(); }
  bool isBool() const { return is_bool(); }
  bool isString() const { return is_string(); }
  bool isList() const { return is_list(); }
  bool isGenericDict() const { return is_dict(); }
  bool isNone() const { return is_none(); }
  bool toBool() const { return to_bool(); }
  int64_t toInt() const { return to_int(); }
  double toDouble() const { return to_double(); }
  const std::string& toStringRef() const { return to_string(); }
  const tensora::Tensor& toTensor() const { return to_tensor(); }
  std::vector<tensora::Tensor> toTensorVector() const {
    std::vector<tensora::Tensor> tensors;
    for (const Value& value : to_list()) tensors.push_back(value.to_tensor());
    return tensors;
  }
};

}  // namespace c10

namespace torch {

using c10::IValue;

namespace autograd {

using c10::AutoGradMode, c10::GradMode, c10::InferenceMode, c10::NoGradGuard;
using tensora::autograd::grad;
using tensora::autograd::Variable;
using tensora::autograd::variable_list;
using tensor_list = std::vector<Tensor>;
using IndexRange = std::pair<size_t, size_t>;

/// In its scope a backward that produces NaN throws, naming the forward op; without `check_nan`
/// nothing is watched.
struct DetectAnomalyGuard : tensora::detect_anomaly {
  explicit DetectAnomalyGuard(bool check_nan = true) : detect_anomaly(check_nan) {}
};
/// The array of `data` as a leaf.
inline Variable make_variable(const Tensor& data, bool requires_grad = false) {
  return data.detach().requires_grad_(requires_grad);
}

/// Adds the gradients to `grad()` of the leaves, or only of `inputs` where some are given.
void backward(const variable_list& tensors, const variable_list& grad_tensors = {},
              std::optional<bool> retain_graph = {}, bool create_graph = false,
              const variable_list& inputs = {});

/// `tensora::Context` with LibTorch's names.
class AutogradContext {
  struct Kept {
    std::map<std::string, IValue> values;
    size_t arguments = 0;  // of forward; a list counts as many as it has tensors
  };

 public:
  explicit AutogradContext(tensora::Context& context)
      : context_(context), kept_(kept_in(context)), saved_data(kept_->values) {}

  void save_for_backward(tensor_list tensors) { context_.save_for_backward(std::move(tensors)); }
  tensor_list get_saved_variables() const { return context_.saved_tensors(); }
  void mark_dirty(const tensor_list& inputs) { context_.mark_dirty(inputs); }
  void mark_non_differentiable(const tensor_list& outputs) {
    context_.mark_non_differentiable(outputs);
  }
  void set_materialize_grads(bool value) { context_.set_materialize_grads(value); }
  bool needs_input_grad(size_t index) const { return context_.needs_input_grad(index); }
  /// Whether one of the inputs in these ranges needs a gradient.
  bool needs_input_grad(std::initializer_list<IndexRange> ranges) const {
    for (const auto& [begin, end] : ranges)
      for (size_t i = begin; i < end; ++i)
        if (context_.needs_input_grad(i)) return true;
    return false;
  }

 private:
  template <class T>
  friend class Function;

  static std::shared_ptr<Kept> kept_in(tensora::Context& context) {
    std::any& place = context.data["AutogradContext"];
    if (!place.has_value()) place = std::make_shared<Kept>();
    return std::any_cast<std::shared_ptr<Kept>>(place);
  }

  tensora::Context& context_;
  std::shared_ptr<Kept> kept_;

 public:
  std::map<std::string, IValue>& saved_data;
};

/// `tensora::Function` for a class whose forward and backward take an `AutogradContext*`. As in
/// LibTorch, undefined gradients beyond those of the arguments that were given are left out.
template <class T>
class Function {
 public:
  template <class... Arguments>
  static auto apply(Arguments&&... arguments) {
    return Adapter::apply(std::forward<Arguments>(arguments)...);
  }

 private:
  struct Adapter : tensora::Function<Adapter, T> {
    template <class... Arguments>
    static auto forward(tensora::Context& context, const Arguments&... arguments) {
      AutogradContext own(context);
      own.kept_->arguments = (size_t{0} + ... + count(arguments));
      return T::forward(&own, arguments...);
    }
    static tensor_list backward(tensora::Context& context, const tensor_list& grads) {
      AutogradContext own(context);
      tensor_list found = T::backward(&own, grads);
      while (found.size() > own.kept_->arguments && !found.back().defined()) found.pop_back();
      return found;
    }
    template <class Argument>
    static size_t count(const Argument& argument) {
      if constexpr (tensora::detail::TensorListArgument<Argument> &&
                    !tensora::detail::TensorArgument<Argument>)
        return argument.size();
      else
        return 1;
    }
  };
};

}  // namespace autograd
}  // namespace torch
