#include "tensora/train/number_text.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <system_error>

#include "tensora/base/check.h"

namespace tensora::train {
namespace {

std::string two_digits(int64_t value) { return concat(value < 10 ? "0" : "", value); }

}  // namespace

std::string exact_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  ensure(error == std::errc(), "exact_text: the buffer is too small");
  return std::string(buffer, end);
}

std::string figure_text(double value) {
  if (!std::isfinite(value)) return exact_text(value);
  char buffer[48];
  const double size = std::fabs(value);
  const bool whole = size < 1e15 && value == std::floor(value);
  if (whole && size >= 1000) return exact_text(value);
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value,
                                          std::chars_format::general, size >= 1000 ? 6 : 4);
  ensure(error == std::errc(), "figure_text: the buffer is too small");
  return std::string(buffer, end);
}

std::string duration_text(double seconds) {
  if (!(seconds >= 0) || seconds > 1e10) return "?";
  const auto all = static_cast<int64_t>(std::llround(seconds));
  const int64_t hours = all / 3600, minutes = all / 60 % 60;
  if (hours >= 48) return concat(hours / 24, " d ", hours % 24, " h");
  if (hours > 0) return concat(hours, ":", two_digits(minutes), ":", two_digits(all % 60));
  return concat(minutes, ":", two_digits(all % 60));
}

}  // namespace tensora::train
