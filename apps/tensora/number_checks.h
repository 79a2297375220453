#pragma once

#include <cmath>
#include <cstdlib>
#include <string>

// Checks of options. CLI11's NonNegativeNumber and PositiveNumber print the largest double with its
// 309 digits, and let NaN pass.

namespace tensora::cli {

/// What is wrong with a number that must be finite and not negative; empty: nothing.
inline std::string non_negative(const std::string& text) {
  const double value = std::strtod(text.c_str(), nullptr);
  return value >= 0 && std::isfinite(value) ? "" : "expected a number from 0 on, got " + text;
}

/// The same for one above 0.
inline std::string positive(const std::string& text) {
  const double value = std::strtod(text.c_str(), nullptr);
  return value > 0 && std::isfinite(value) ? "" : "expected a number above 0, got " + text;
}

}  // namespace tensora::cli
