#pragma once

// LibTorch's macros. Programs use them by these names, so that they cannot be functions.

#include "tensora/base/error_kinds.h"

// NOLINTBEGIN(bugprone-macro-parentheses): their arguments are types and names.

/// A setting of an options class: `options.name(value)` sets it and returns the options,
/// `options.name()` reads it.
#define TORCH_ARG(T, name)                                 \
 public:                                                   \
  auto name(const T& new_##name)->decltype(*this) {        \
    this->name##_ = new_##name;                            \
    return *this;                                          \
  }                                                        \
  auto name(T&& new_##name)->decltype(*this) {             \
    this->name##_ = std::move(new_##name);                 \
    return *this;                                          \
  }                                                        \
  const T& name() const noexcept { return this->name##_; } \
  T& name() noexcept { return this->name##_; }             \
                                                           \
 private:                                                  \
  T name##_ /* NOLINT: a default may follow */

/// `class Name`, the handle to a module of class `ImplType`.
#define TORCH_MODULE_IMPL(Name, ImplType)                  \
  class Name : public torch::nn::ModuleHolder<ImplType> {  \
   public:                                                 \
    using torch::nn::ModuleHolder<ImplType>::ModuleHolder; \
    using Impl [[maybe_unused]] = ImplType;                \
  }
#define TORCH_MODULE(Name) TORCH_MODULE_IMPL(Name, Name##Impl)

// NOLINTEND(bugprone-macro-parentheses)

/// In a module whose forward has default arguments, so that AnyModule and Sequential know them:
/// `FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(torch::Tensor())})`.
#define FORWARD_HAS_DEFAULT_ARGS(...)                                              \
 public:                                                                           \
  torch::nn::detail::DefaultArguments forward_default_arguments() const override { \
    return {__VA_ARGS__};                                                          \
  }                                                                                \
                                                                                   \
 protected:

/// Throws c10::Error with the message parts unless the condition holds.
#define TORCH_CHECK(condition, ...)                                                  \
  do {                                                                               \
    if (!(condition)) [[unlikely]]                                                   \
      torch::detail::throw_check<c10::Error>(#condition __VA_OPT__(, ) __VA_ARGS__); \
  } while (false)
#define TORCH_CHECK_WITH(kind, condition, ...)                                      \
  do {                                                                              \
    if (!(condition)) [[unlikely]]                                                  \
      torch::detail::throw_check<c10::kind>(#condition __VA_OPT__(, ) __VA_ARGS__); \
  } while (false)
#define TORCH_CHECK_INDEX(condition, ...) \
  TORCH_CHECK_WITH(IndexError, condition __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_CHECK_VALUE(condition, ...) \
  TORCH_CHECK_WITH(ValueError, condition __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_CHECK_TYPE(condition, ...) \
  TORCH_CHECK_WITH(TypeError, condition __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(condition, ...) \
  TORCH_CHECK_WITH(NotImplementedError, condition __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_INTERNAL_ASSERT(condition, ...) TORCH_CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(condition, ...) \
  TORCH_CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
#define AT_ASSERT(condition) TORCH_CHECK(condition)
#define AT_ASSERTM(condition, ...) TORCH_CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
#define AT_ERROR(...) torch::detail::throw_check<c10::Error>("" __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_WARN(...) torch::detail::warn(__VA_ARGS__)
#define TORCH_WARN_ONCE(...)                          \
  do {                                                \
    [[maybe_unused]] static const bool warned = [&] { \
      torch::detail::warn(__VA_ARGS__);               \
      return true;                                    \
    }();                                              \
  } while (false)
#define TORCH_API
#define AT_CUDA_CHECK(result) TORCH_CHECK((result) == 0, "CUDA error ", static_cast<int>(result))

// Runs a lambda with `scalar_t` the C++ type of a dtype:
// AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "name", [&] { x.data_ptr<scalar_t>(); }). What the
// lambda returns is returned.
#define TENSORA_DISPATCH(set, type, name, ...)                        \
  [&] {                                                               \
    return torch::detail::dispatch<torch::detail::set>(               \
        type, name, [&]<class scalar_t>() { return __VA_ARGS__(); }); \
  }()
#define AT_DISPATCH_FLOATING_TYPES(type, name, ...) \
  TENSORA_DISPATCH(FloatingTypes, type, name, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(type, name, ...) \
  TENSORA_DISPATCH(FloatingTypes::With<c10::Half>, type, name, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND(extra, type, name, ...) \
  TENSORA_DISPATCH(FloatingTypes::With<c10::cpp_type<extra>>, type, name, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND2(extra1, extra2, type, name, ...)                          \
  TENSORA_DISPATCH(FloatingTypes::With<c10::cpp_type<extra1>>::With<c10::cpp_type<extra2>>, type, \
                   name, __VA_ARGS__)
#define AT_DISPATCH_INTEGRAL_TYPES(type, name, ...) \
  TENSORA_DISPATCH(IntegralTypes, type, name, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES(type, name, ...) TENSORA_DISPATCH(AllTypes, type, name, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND(extra, type, name, ...) \
  TENSORA_DISPATCH(AllTypes::With<c10::cpp_type<extra>>, type, name, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND2(extra1, extra2, type, name, ...)                                \
  TENSORA_DISPATCH(AllTypes::With<c10::cpp_type<extra1>>::With<c10::cpp_type<extra2>>, type, name, \
                   __VA_ARGS__)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES(type, name, ...) \
  TENSORA_DISPATCH(FloatingAndComplexTypes, type, name, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX(type, name, ...) \
  TENSORA_DISPATCH(AllAndComplexTypes, type, name, __VA_ARGS__)
