#pragma once

// A value of any type, as AnyModule passes it from one module to the next.

#include <any>
#include <vector>

#include "tensora/libtorch/names.h"

namespace torch::nn {

namespace detail {
/// The readable name of a type.
std::string demangled(const std::type_info& type);
[[noreturn]] void throw_wrong_value(const std::type_info& wanted, const std::type_info& held);

// A parameter or buffer is passed as the tensor that it is.
template <class T>
using Stored =
    std::conditional_t<std::is_base_of_v<Tensor, std::decay_t<T>>, Tensor, std::decay_t<T>>;
}  // namespace detail

class AnyValue {
 public:
  AnyValue() = default;
  template <class T>
    requires(!std::same_as<std::decay_t<T>, AnyValue>)
  explicit AnyValue(T&& value) : content_(detail::Stored<T>(std::forward<T>(value))) {}

  template <class T>
  T* try_get() {
    return std::any_cast<T>(&content_);
  }
  template <class T>
  T get() {
    T* value = try_get<T>();
    if (!value) detail::throw_wrong_value(typeid(T), content_.type());
    return *value;
  }
  const std::type_info& type_info() const noexcept { return content_.type(); }

 private:
  std::any content_;
};

namespace detail {

/// The values of forward's last arguments where a caller leaves them out, by position.
struct DefaultArguments {
  struct Entry {
    size_t position;
    AnyValue value;
  };
  std::vector<Entry> entries;
  DefaultArguments() = default;
  DefaultArguments(std::initializer_list<Entry> list) : entries(list) {}
};

}  // namespace detail
}  // namespace torch::nn
