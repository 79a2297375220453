#pragma once

// What <torch/torch.h> gives a program that was written for LibTorch: everything, and LibTorch's
// form of what has another one here. docs/coming-from-libtorch.md lists what remains to be changed.

#include <any>
#include <map>
#include <memory>

#include "tensora/amp.h"
#include "tensora/backend/cuda/cuda.h"
#include "tensora/data.h"
#include "tensora/io.h"
#include "tensora/nn.h"
#include "tensora/optim.h"
#include "tensora/tensora.h"

namespace tensora {

using std::nullopt;
using std::optional;

namespace autograd {

using tensor_list = std::vector<Tensor>;

/// A value that forward leaves for backward.
class IValue : public Value {
 public:
  using Value::Value;
  bool toBool() const { return to_bool(); }
  int64_t toInt() const { return to_int(); }
  double toDouble() const { return to_double(); }
  const std::string& toStringRef() const { return to_string(); }
  const Tensor& toTensor() const { return to_tensor(); }
};

/// `tensora::Context` with LibTorch's names.
class AutogradContext {
  struct Kept {
    std::map<std::string, IValue> values;
    size_t arguments = 0;  // of forward; a list counts as many as it has tensors
  };

 public:
  explicit AutogradContext(Context& context)
      : context_(context), kept_(kept_in(context)), saved_data(kept_->values) {}

  void save_for_backward(tensor_list tensors) { context_.save_for_backward(std::move(tensors)); }
  tensor_list get_saved_variables() const { return context_.saved_tensors(); }
  void mark_dirty(const tensor_list& inputs) { context_.mark_dirty(inputs); }
  void mark_non_differentiable(const tensor_list& outputs) {
    context_.mark_non_differentiable(outputs);
  }
  void set_materialize_grads(bool value) { context_.set_materialize_grads(value); }
  bool needs_input_grad(size_t index) const { return context_.needs_input_grad(index); }

 private:
  template <class T>
  friend class Function;

  static std::shared_ptr<Kept> kept_in(Context& context) {
    std::any& place = context.data["AutogradContext"];
    if (!place.has_value()) place = std::make_shared<Kept>();
    return std::any_cast<std::shared_ptr<Kept>>(place);
  }

  Context& context_;
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
  struct Adapter : tensora::Function<Adapter> {
    template <class... Arguments>
    static auto forward(Context& context, const Arguments&... arguments) {
      AutogradContext own(context);
      own.kept_->arguments = (size_t{0} + ... + count(arguments));
      return T::forward(&own, arguments...);
    }
    static TensorList backward(Context& context, const TensorList& grads) {
      AutogradContext own(context);
      TensorList found = T::backward(&own, grads);
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

// Files are PyTorch's: `torch.load` reads a tensor, a list of tensors, a state_dict.

inline void save(const Tensor& tensor, const std::string& path) { io::save_pytorch(tensor, path); }
inline void save(const std::vector<Tensor>& tensors, const std::string& path) {
  io::save_pytorch(Value::List(tensors.begin(), tensors.end()), path);
}
inline void save(const nn::Module& module, const std::string& path) {
  io::save_pytorch(module.state_dict(), path);
}
inline void save(const optim::Optimizer& optimizer, const std::string& path) {
  io::save_pytorch(optimizer.state_dict(), path);
}
template <std::derived_from<nn::Module> M>
void save(const std::shared_ptr<M>& module, const std::string& path) {
  save(*module, path);
}

inline void load(Tensor& tensor, const std::string& path) { tensor = io::load(path).to_tensor(); }
inline void load(std::vector<Tensor>& tensors, const std::string& path) {
  const Value saved = io::load(path);
  tensors.clear();
  for (const Value& value : saved.to_list()) tensors.push_back(value.to_tensor());
}
inline void load(nn::Module& module, const std::string& path) {
  module.load_state_dict(io::load(path).to_state_dict());
}
inline void load(optim::Optimizer& optimizer, const std::string& path) {
  optimizer.load_state_dict(io::load(path));
}
template <std::derived_from<nn::Module> M>
void load(const std::shared_ptr<M>& module, const std::string& path) {
  load(*module, path);
}

}  // namespace tensora
