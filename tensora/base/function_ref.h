#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

namespace tensora {

template <class Signature>
class FunctionRef;

/// A view of something callable: two words, no allocation, no ownership.
/// Meant for parameters only; the callable must outlive the call it is passed to.
template <class Result, class... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, FunctionRef> &&
             std::is_invocable_r_v<Result, F&, Args...>)
  FunctionRef(F&& callable) noexcept {
    if constexpr (std::is_function_v<std::remove_reference_t<F>>) {
      target_.function = reinterpret_cast<void (*)()>(&callable);
      call_ = [](Target target, Args... args) -> Result {
        return reinterpret_cast<std::remove_reference_t<F>*>(target.function)(
            std::forward<Args>(args)...);
      };
    } else {
      target_.object = const_cast<void*>(static_cast<const void*>(__builtin_addressof(callable)));
      call_ = [](Target target, Args... args) -> Result {
        return (*static_cast<std::remove_reference_t<F>*>(target.object))(
            std::forward<Args>(args)...);
      };
    }
  }

  Result operator()(Args... args) const { return call_(target_, std::forward<Args>(args)...); }

 private:
  union Target {
    void* object;
    void (*function)();
  };
  Target target_;
  Result (*call_)(Target, Args...);
};

}  // namespace tensora
