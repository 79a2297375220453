#pragma once

#include <concepts>
#include <iosfwd>
#include <string>
#include <string_view>

#include "tensora/core/scalar.h"
#include "tensora/core/shape.h"
#include "tensora/core/tensor_options.h"

namespace tensora {

inline void append(std::string& out, DeviceType type) { out += name(type); }
/// "3", "0.5", "true"
void append(std::string& out, Scalar number);
/// "TensorOptions(dtype=float32, device=cpu, requires_grad=false)"; what is not set is left out.
void append(std::string& out, const TensorOptions& options);
inline std::string to_string(DType dtype) { return std::string(name(dtype)); }
inline std::string to_string(Scalar number) { return concat(number); }
inline std::string to_string(const TensorOptions& options) { return concat(options); }

/// The value types that are written to streams as `append` writes them; core/format.h lets
/// std::format and fmt do the same.
template <class T>
concept ValueType =
    std::same_as<T, Shape> || std::same_as<T, DType> || std::same_as<T, Device> ||
    std::same_as<T, DeviceType> || std::same_as<T, Scalar> || std::same_as<T, TensorOptions>;

namespace detail {
std::ostream& write(std::ostream& stream, std::string_view text);
}
template <ValueType T>
std::ostream& operator<<(std::ostream& stream, const T& value) {
  return detail::write(stream, concat(value));
}

}  // namespace tensora
