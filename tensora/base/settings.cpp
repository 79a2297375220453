#include "tensora/base/settings.h"

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>
#include <system_error>

#include "tensora/base/check.h"

namespace tensora {
namespace {

template <class Number>
std::optional<Number> parsed(std::string_view text) {
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

[[noreturn]] void refuse(const char* name, std::string_view expected, std::string_view value) {
  fail(name, ": expected ", expected, ", got \"", value, "\"");
}

std::string_view view_of(const char* text) { return text ? text : std::string_view(); }

}  // namespace

std::string_view setting(const char* name) { return view_of(std::getenv(name)); }
std::string_view path_setting(const char* name) { return view_of(secure_getenv(name)); }

size_t choice_setting(const char* name, std::initializer_list<std::string_view> accepted,
                      size_t otherwise) {
  const std::string_view value = setting(name);
  if (value.empty()) return otherwise;
  std::string list;
  size_t index = 0;
  for (const std::string_view choice : accepted) {
    if (value == choice) return index;
    list += concat(index == 0 ? "" : index + 1 == accepted.size() ? " or " : ", ", choice);
    ++index;
  }
  refuse(name, list, value);
}

bool switch_setting(const char* name, bool otherwise) {
  return choice_setting(name, {"0", "1"}, otherwise ? 1 : 0) == 1;
}

int64_t number_setting(const char* name, int64_t least, int64_t most, int64_t otherwise) {
  const std::string_view value = setting(name);
  if (value.empty()) return otherwise;
  const std::optional<int64_t> number = parsed<int64_t>(value);
  if (!number || *number < least || *number > most)
    refuse(name, concat("a number from ", least, " to ", most), value);
  return *number;
}

uint64_t bytes_setting(const char* name, uint64_t whole, uint64_t otherwise) {
  const std::string_view value = setting(name);
  if (value.empty()) return otherwise;
  constexpr std::string_view expected =
      "a number of bytes such as 1048576, 1024K, 512M or 2G, or a share such as 25%";
  constexpr std::string_view units = "KMG";
  const std::string_view digits = value.substr(0, value.size() - 1);
  if (value.back() == '%') {
    const std::optional<uint64_t> share = parsed<uint64_t>(digits);
    if (!share || *share > 100) refuse(name, expected, value);
    return whole / 100 * *share;
  }
  const size_t unit = units.find(value.back());
  const bool plain = unit == std::string_view::npos;
  const std::optional<uint64_t> number = parsed<uint64_t>(plain ? value : digits);
  const size_t shift = plain ? 0 : 10 * (unit + 1);
  if (!number || *number > UINT64_MAX >> shift) refuse(name, expected, value);
  return *number << shift;
}

}  // namespace tensora
