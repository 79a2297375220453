#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <tuple>
#include <type_traits>
#include <vector>

#include "tensora/core/device.h"
#include "tensora/core/dtype.h"

namespace tensora {

class Tensor;
using TensorList = std::vector<Tensor>;
struct TensorOptions;

/// Strided is the only layout.
enum class Layout : uint8_t { strided };

// Note [Options by name and by call]
// Options are an aggregate, so that `{.dtype = kFloat64}` reads as it does everywhere here, and
// LibTorch's programs say `TensorOptions().dtype(kFloat64).device("cuda")`. A member and a member
// function cannot share a name, so the members are callable: a call gives the options they belong
// to, with this one changed. A setting can therefore be called only as a member of a
// TensorOptions; copied out of it, it is only the optional value that it derives from.

/// A member of TensorOptions: an optional value that can also be called.
template <class T>
struct OptionSetting : std::optional<T> {
  using std::optional<T>::optional;
  constexpr OptionSetting() = default;
  constexpr OptionSetting(const std::optional<T>& value) : std::optional<T>(value) {}

  /// The value, or the default where none is set.
  T operator()() const;
  template <class... Parts>
    requires(sizeof...(Parts) > 0 && std::constructible_from<T, Parts...>)
  TensorOptions operator()(Parts&&... parts) const;
};

struct RequiresGradSetting {
  constexpr RequiresGradSetting(bool wanted = false) : value(wanted) {}
  constexpr operator bool() const { return value; }
  constexpr bool operator()() const { return value; }
  TensorOptions operator()(bool wanted) const;

  bool value;
};

/// How a factory makes its tensor: `zeros({2, 3}, {.dtype = kFloat64, .device = "cuda"})`, or
/// `TensorOptions().dtype(kFloat64).device("cuda")`. What is not set is the factory's to choose.
struct TensorOptions {
  OptionSetting<DType> dtype = {};
  OptionSetting<Device> device = {};
  RequiresGradSetting requires_grad = {};

  TensorOptions layout(Layout) const { return *this; }
  constexpr Layout layout() const { return Layout::strided; }
};
static_assert(std::is_aggregate_v<TensorOptions> && std::is_standard_layout_v<TensorOptions>);

namespace detail {
template <class Setting>
TensorOptions options_around(const Setting* setting, size_t offset) {
  return *reinterpret_cast<const TensorOptions*>(reinterpret_cast<const char*>(setting) - offset);
}
}  // namespace detail

template <class T>
T OptionSetting<T>::operator()() const {
  if constexpr (std::same_as<T, DType>)
    return this->value_or(default_dtype());
  else
    return this->value_or(T());
}

template <class T>
template <class... Parts>
  requires(sizeof...(Parts) > 0 && std::constructible_from<T, Parts...>)
TensorOptions OptionSetting<T>::operator()(Parts&&... parts) const {
  if constexpr (std::same_as<T, DType>) {
    TensorOptions result = detail::options_around(this, offsetof(TensorOptions, dtype));
    result.dtype = T(std::forward<Parts>(parts)...);
    return result;
  } else {
    TensorOptions result = detail::options_around(this, offsetof(TensorOptions, device));
    result.device = T(std::forward<Parts>(parts)...);
    return result;
  }
}

inline TensorOptions RequiresGradSetting::operator()(bool wanted) const {
  TensorOptions result = detail::options_around(this, offsetof(TensorOptions, requires_grad));
  result.requires_grad = wanted;
  return result;
}

/// Options of which one is set: `randn({2}, device("cuda").requires_grad(true))`.
inline TensorOptions dtype(DType value) { return {.dtype = value}; }
inline TensorOptions device(Device value) { return {.device = value}; }
inline TensorOptions requires_grad(bool value = true) { return {.requires_grad = value}; }

/// What may stand alone where options are expected: `zeros({2}, kInt64)`, `zeros({2}, kCUDA)`.
template <class T>
concept SingleOption =
    std::same_as<T, DType> || std::same_as<T, DeviceType> || std::same_as<T, Device>;
template <SingleOption T>
TensorOptions as_options(const T& option) {
  if constexpr (std::same_as<T, DType>)
    return {.dtype = option};
  else
    return {.device = Device(option)};
}

}  // namespace tensora
