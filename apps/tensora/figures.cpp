#include "figures.h"

#include <algorithm>
#include <cstdio>

#include "tensora/base/utf8.h"

namespace tensora::cli {
namespace {

std::string scaled(double value, double step, const std::vector<const char*>& units) {
  size_t unit = 0;
  while (value >= step && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  char text[64];
  std::snprintf(text, sizeof text,
                unit == 0    ? "%.0f%s"
                : value < 10 ? "%.2f %s"
                             : "%.1f %s",
                value, units[unit]);
  return text;
}

// Characters, not bytes.
size_t width_of(std::string_view text) {
  size_t width = 0;
  for (; !text.empty(); ++width) text.remove_prefix(static_cast<size_t>(decode_utf8(text).length));
  return width;
}

}  // namespace

std::string count_text(double count) { return scaled(count, 1000, {"", "k", "M", "B", "T"}); }

std::string bytes_text(double bytes) {
  return scaled(bytes, 1024, {" B", "KiB", "MiB", "GiB", "TiB"});
}

std::string printable(std::string_view text, size_t most) {
  std::string out;
  for (size_t shown = 0; !text.empty(); ++shown) {
    if (shown >= most) return out + "…";
    const CodePoint next = decode_utf8(text);
    // C0 and C1 controls, and what turns the direction of writing around.
    const auto within = [&](uint32_t first, uint32_t last) {
      return next.code >= first && next.code <= last;
    };
    const bool odd = next.code == kInvalidUtf8 || next.code < 0x20 || within(0x7F, 0x9F) ||
                     within(0x200E, 0x200F) || within(0x202A, 0x202E) || within(0x2066, 0x2069);
    if (next.code == '\n')
      out += "\\n";
    else
      out += odd ? std::string_view("\uFFFD") : text.substr(0, static_cast<size_t>(next.length));
    text.remove_prefix(static_cast<size_t>(next.length));
  }
  return out;
}

std::string shell_word(const std::string& word) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,=+%@";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) return word;
  std::string quoted = "'";
  for (const char letter : word) quoted += letter == '\'' ? "'\\''" : std::string(1, letter);
  return quoted + "'";
}

std::string table_text(std::vector<std::vector<std::string>> rows) {
  if (rows.empty()) return {};
  const size_t columns = rows[0].size();
  std::vector<bool> on_the_right(columns);
  std::vector<size_t> widths(columns);
  for (size_t c = 0; c < columns; ++c) {
    on_the_right[c] = rows[0][c].starts_with('>');
    if (on_the_right[c]) rows[0][c].erase(0, 1);
    for (const auto& row : rows) widths[c] = std::max(widths[c], width_of(row[c]));
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < columns; ++c) {
      const std::string room(widths[c] - width_of(row[c]), ' ');
      line += (c == 0 ? "  " : "   ") + (on_the_right[c] ? room + row[c] : row[c] + room);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace tensora::cli
