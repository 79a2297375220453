#pragma once

// Internal header: values as Python prints them, for `extra_repr`.

#include <optional>
#include <string>

#include "tensora/core/shape.h"

namespace tensora::nn {

std::string repr(bool value);     // True
std::string repr(int64_t value);  // 3
std::string repr(double value);   // 1.0, 1e-05
/// One number as it is, several as a tuple: 3, or (3, 5).
std::string repr(const Shape& values);
/// Always a tuple: (3,).
std::string repr_tuple(const Shape& values);
/// None where there is no value.
template <class T>
std::string repr(const std::optional<T>& value) {
  return value ? repr(*value) : "None";
}
/// ", inplace=True" or nothing.
std::string repr_inplace(bool inplace);

}  // namespace tensora::nn
