#include "tensora/nn/repr.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

namespace tensora::nn {

std::string repr(bool value) { return value ? "True" : "False"; }
std::string repr(int64_t value) { return std::to_string(value); }

// The fewest digits that are read back as the same number; an exponent below -4 or above 15 is
// written out.
std::string repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char text[400];
  const auto write = [&](std::chars_format format) {
    return std::string(text, std::to_chars(text, text + sizeof text, value, format).ptr);
  };
  const std::string scientific = write(std::chars_format::scientific);
  const int exponent = std::atoi(scientific.c_str() + scientific.find('e') + 1);
  if (exponent < -4 || exponent > 15) return scientific;
  const std::string fixed = write(std::chars_format::fixed);
  return fixed.find('.') == std::string::npos ? fixed + ".0" : fixed;
}

std::string repr_tuple(const Shape& values) {
  std::string text = "(";
  for (int i = 0; i < values.size(); ++i) text += (i ? ", " : "") + std::to_string(values[i]);
  return text + (values.size() == 1 ? ",)" : ")");
}
std::string repr(const Shape& values) {
  return values.size() == 1 ? std::to_string(values[0]) : repr_tuple(values);
}

std::string repr_inplace(bool inplace) { return inplace ? ", inplace=True" : ""; }

}  // namespace tensora::nn
