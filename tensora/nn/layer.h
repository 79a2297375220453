#pragma once

#include <array>
#include <memory>

#include "tensora/nn/module.h"

namespace tensora::nn {

namespace detail {

/// Calls `visit(Tensor&)` for every tensor in an argument or a result: a tensor, an optional, a
/// tuple, a vector or an array of these.
template <class T, class Visit>
void visit_tensors(T& value, const Visit& visit) {
  if constexpr (std::is_base_of_v<Tensor, T>) {
    visit(static_cast<Tensor&>(value));
  } else if constexpr (requires {
                         value.has_value();
                         *value;
                       }) {
    if (value.has_value()) visit_tensors(*value, visit);
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    std::apply([&](auto&... parts) { (visit_tensors(parts, visit), ...); }, value);
  } else if constexpr (std::is_class_v<T> &&
                       requires { value.begin(), value.end(), value.data(); }) {
    if constexpr (!std::is_const_v<std::remove_reference_t<decltype(*value.begin())>>)
      for (auto& part : value) visit_tensors(part, visit);
  }
}

}  // namespace detail

/// The base of every layer and network `Self`. `Self` has a `forward` with any arguments and any
/// result; calling the layer runs it with the hooks around it.
template <class Self>
class Layer : public Module {
 public:
  Layer() { enlist(sizeof(Self)); }
  Layer(const Layer& other) : Module(other) { enlist(sizeof(Self)); }
  Layer(Layer&& other) noexcept : Module(std::move(other)) { enlist(sizeof(Self)); }
  Layer& operator=(const Layer&) = default;
  Layer& operator=(Layer&&) = default;  // NOLINT: throws where an assignment is ambiguous
  ~Layer() override = default;

  template <class... Args>
  auto operator()(Args&&... args) {
    if (!has_hooks()) [[likely]]
      return self().forward(std::forward<Args>(args)...);
    return call_with_hooks(self(), std::decay_t<Args>(std::forward<Args>(args))...);
  }
  template <class... Args>
  auto operator()(Args&&... args) const {
    if (!has_hooks()) [[likely]]
      return self().forward(std::forward<Args>(args)...);
    return call_with_hooks(self(), std::decay_t<Args>(std::forward<Args>(args))...);
  }

  /// A copy with parameters, buffers and modules of its own.
  Self clone() const {
    const CloneScope scope;
    return Self(self());
  }

  /// LibTorch's programs hold modules by pointer: `layer->weight`, `net->forward(x)`.
  Self* operator->() { return &self(); }
  const Self* operator->() const { return &self(); }

  Tensor call(const Tensor& input) override {
    if constexpr (requires(Self& layer) {
                    { layer.forward(input) } -> std::convertible_to<Tensor>;
                  })
      return (*this)(input);
    else
      return Module::call(input);
  }
  ModulePtr copy() const override { return std::make_shared<Self>(self()); }

 protected:
  void assign(const Module& other) override {
    if constexpr (std::is_copy_assignable_v<Self>) {
      if (const Self* same = dynamic_cast<const Self*>(&other)) {
        self() = *same;
        return;
      }
    }
    Module::assign(other);
  }

 private:
  Self& self() { return static_cast<Self&>(*this); }
  const Self& self() const { return static_cast<const Self&>(*this); }

  template <class Me, class... Args>
  static auto call_with_hooks(Me& me, Args... args) {
    Self& module = const_cast<Self&>(me);  // the handle is const, what it refers to is not
    TensorList inputs, outputs;
    const auto gather = [](TensorList& list) {
      return [&list](Tensor& tensor) { list.push_back(tensor); };
    };
    const auto scatter = [](const TensorList& list, size_t& next) {
      return [&](Tensor& tensor) { tensor = list[next++]; };
    };
    (detail::visit_tensors(args, gather(inputs)), ...);
    module.run_forward_pre_hooks(inputs);
    const auto backward_hooks = module.watch_inputs(inputs);
    size_t next = 0;
    (detail::visit_tensors(args, scatter(inputs, next)), ...);
    auto result = me.forward(args...);
    detail::visit_tensors(result, gather(outputs));
    module.run_forward_hooks(inputs, outputs);
    watch_outputs(backward_hooks, outputs);
    next = 0;
    detail::visit_tensors(result, scatter(outputs, next));
    return result;
  }
};

}  // namespace tensora::nn
