#include <charconv>

#include "bench_record.h"
#include "commands.h"

namespace tensora::cli {
namespace {

// first-last, first-last+step or first-last*factor
void add_range(const std::string& text, const std::string& option, std::vector<int64_t>& out) {
  const auto refuse = [&] {
    throw UsageError(option +
                     ": expected numbers such as 512 or 128,256, or a range such as 1-4, "
                     "128-512+128 or 1-64*2, got '" +
                     text + "'");
  };
  const char *at = text.data(), *end = at + text.size();
  const auto number = [&] {
    int64_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < 0) refuse();
    at = next;
    return value;
  };
  const int64_t first = number();
  if (at == end) {
    out.push_back(first);
    return;
  }
  if (*at++ != '-') refuse();
  const int64_t last = number();
  int64_t step = 1;
  bool multiplies = false;
  if (at != end) {
    multiplies = *at == '*';
    if (*at != '+' && !multiplies) refuse();
    ++at;
    step = number();
  }
  const bool ends = multiplies ? step > 1 && first > 0 : step > 0;
  if (at != end || !ends || last < first) refuse();
  for (int64_t value = first; value <= last && out.size() <= 10000;
       value = multiplies ? value * step : value + step) {
    out.push_back(value);
    if (value > last / (multiplies ? step : 1)) break;
  }
}

}  // namespace

std::vector<int64_t> parse_numbers(const std::string& text, const std::string& option) {
  std::vector<int64_t> out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    add_range(text.substr(begin, end - begin), option, out);
    begin = end + 1;
  }
  if (out.size() > 10000) throw UsageError(option + ": '" + text + "' is too long a list");
  return out;
}

}  // namespace tensora::cli
