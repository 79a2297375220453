#pragma once

// Tensors, shapes, dtypes, devices, scalars and options as arguments of std::format, where the
// standard library has it, and of fmt::format, where fmt is installed:
// `std::format("{} of shape {:>12}", x.dtype(), x.sizes())`. Formatted as strings are. Not part of
// tensora/tensora.h, because <format> takes longer to compile than all of that.

#include <version>
#if defined(__cpp_lib_format)
#include <format>
#endif
#if __has_include(<fmt/ranges.h>)
#include <fmt/ranges.h>
#endif

#include "tensora/core/tensor.h"
#include "tensora/core/text.h"

namespace tensora {
template <class T>
concept Formatted = ValueType<T> || std::same_as<T, Tensor>;
}

#if defined(__cpp_lib_format)
template <tensora::Formatted T>
struct std::formatter<T, char> : std::formatter<std::string_view, char> {
  auto format(const T& value, auto& context) const {
    return std::formatter<std::string_view, char>::format(tensora::concat(value), context);
  }
};
#if defined(__cpp_lib_format_ranges)
template <tensora::Formatted T>  // a Shape and a Tensor are ranges, but not to a formatter
constexpr std::range_format std::format_kind<T> = std::range_format::disabled;
#endif
#endif

#if __has_include(<fmt/ranges.h>)
template <tensora::Formatted T>
struct fmt::is_range<T, char> : std::false_type {};
template <tensora::Formatted T>
struct fmt::formatter<T, char> : fmt::formatter<fmt::string_view, char> {
  auto format(const T& value, auto& context) const {
    return fmt::formatter<fmt::string_view, char>::format(tensora::concat(value), context);
  }
};
#endif
