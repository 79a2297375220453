#include "tensora/train/jsonl_logger.h"

#include <charconv>
#include <cmath>
#include <system_error>

#include "tensora/base/check.h"
#include "tensora/base/utf8.h"
#include "tensora/train/number_text.h"

namespace tensora::train {
namespace {

constexpr std::string_view kStart = "{\"step\":";

std::string start_of_row(int64_t step) {
  return concat(kStart, step, ",\"wall\":", exact_text(wall_seconds()));
}

// False too for what is not a row of ours.
bool is_row_up_to(std::string_view line, int64_t last) {
  if (!line.starts_with(kStart) || !line.ends_with('}')) return false;
  int64_t step = 0;
  const char* begin = line.data() + kStart.size();
  const auto [end, error] = std::from_chars(begin, line.data() + line.size(), step);
  return error == std::errc() && *end == ',' && step <= last;
}

}  // namespace

std::string json_string(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (size_t at = 0; at < text.size();) {
    const auto [code, length] = decode_utf8(text.substr(at));
    if (code == kInvalidUtf8) {
      out += "\uFFFD";
    } else if (code == '"' || code == '\\') {
      out += {'\\', static_cast<char>(code)};
    } else if (code == '\n') {
      out += "\\n";
    } else if (code == '\t') {
      out += "\\t";
    } else if (code < 0x20) {
      out += {'\\', 'u', '0', '0', kHex[code >> 4], kHex[code & 15]};
    } else {
      out += text.substr(at, static_cast<size_t>(length));
    }
    at += static_cast<size_t>(length);
  }
  return out + '"';
}

void JsonlLogger::scalars(int64_t step, const Scalars& values) {
  std::string row = start_of_row(step);
  for (const auto& [name, value] : values)
    row += concat(",", json_string(name), ":", std::isfinite(value) ? exact_text(value) : "null");
  file_.append(row + "}\n");
}

void JsonlLogger::text(int64_t step, std::string_view tag, std::string_view text) {
  file_.append(concat(start_of_row(step), ",\"tag\":", json_string(tag),
                      ",\"text\":", json_string(text), "}\n"));
}

void JsonlLogger::rewind(int64_t step) {
  file_.truncate(
      kept_lines(file_.read(), [&](std::string_view line) { return is_row_up_to(line, step); }));
}

}  // namespace tensora::train
