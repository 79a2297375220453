#include "tensora/llm/tokenizer/unicode_forms.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "tensora/base/utf8.h"
#include "tensora/llm/tokenizer/unicode_tables.h"

namespace tensora::llm {
namespace {

// Hangul syllables are composed by arithmetic: 19 leading, 21 middle, 27 trailing letters or none.
constexpr uint32_t kSyllable = 0xAC00, kLeading = 0x1100, kMiddle = 0x1161, kTrailing = 0x11A7;
constexpr uint32_t kMiddles = 21, kTrailings = 28, kSyllables = 19 * kMiddles * kTrailings;
// A byte that is not UTF-8 travels through the forms as a number beyond Unicode.
constexpr uint32_t kByte = 0x80000000;

uint8_t combining_class(uint32_t code) {
  if (code < 0x300 || code >= kByte) return 0;
  const auto table = unicode::combining();
  const auto after = std::upper_bound(
      table.begin(), table.end(), code,
      [](uint32_t value, const unicode::Combining& entry) { return value < entry.first; });
  return after == table.begin() ? uint8_t(0) : after[-1].kind;
}

const unicode::Decomposition* canonical(uint32_t code) {
  const auto table = unicode::canonical();
  const auto found = std::lower_bound(
      table.begin(), table.end(), code,
      [](const unicode::Decomposition& entry, uint32_t value) { return entry.code < value; });
  return found != table.end() && found->code == code ? &*found : nullptr;
}

const std::unordered_map<uint32_t, const uint32_t*>& compatible() {
  static const auto table = [] {
    std::unordered_map<uint32_t, const uint32_t*> out;
    const auto rows = unicode::compatible();
    for (size_t at = 0; at < rows.size(); at += 2 + rows[at + 1]) out[rows[at]] = &rows[at + 1];
    return out;
  }();
  return table;
}

uint32_t composed(uint32_t first, uint32_t second) {
  if (first - kLeading < 19 && second - kMiddle < kMiddles)
    return kSyllable + ((first - kLeading) * kMiddles + second - kMiddle) * kTrailings;
  if (first - kSyllable < kSyllables && (first - kSyllable) % kTrailings == 0 &&
      second - kTrailing - 1 < kTrailings - 1)
    return first + second - kTrailing;
  static const auto table = [] {
    std::unordered_map<uint64_t, uint32_t> out;
    for (const unicode::Decomposition& entry : unicode::canonical())
      if (entry.second != 0 && entry.composes)
        out[uint64_t(entry.first) << 32 | entry.second] = entry.code;
    return out;
  }();
  const auto found = table.find(uint64_t(first) << 32 | second);
  return found == table.end() ? 0 : found->second;
}

void decompose(uint32_t code, bool compatibly, std::vector<uint32_t>& out) {
  if (code < 0xA0 || code >= kByte) return out.push_back(code);
  if (code - kSyllable < kSyllables) {
    const uint32_t index = code - kSyllable;
    out.push_back(kLeading + index / (kMiddles * kTrailings));
    out.push_back(kMiddle + index / kTrailings % kMiddles);
    if (index % kTrailings != 0) out.push_back(kTrailing + index % kTrailings);
    return;
  }
  if (const auto* entry = canonical(code)) {
    decompose(entry->first, compatibly, out);
    if (entry->second != 0) decompose(entry->second, compatibly, out);
    return;
  }
  const auto found = compatibly ? compatible().find(code) : compatible().end();
  if (found == compatible().end()) return out.push_back(code);
  for (uint32_t i = 0; i < found->second[0]; ++i) decompose(found->second[1 + i], compatibly, out);
}

// Marks after a letter, in the order of their classes.
void order_marks(std::vector<uint32_t>& text) {
  for (size_t at = 0; at < text.size();) {
    if (combining_class(text[at]) == 0) {
      ++at;
      continue;
    }
    size_t end = at;
    while (end < text.size() && combining_class(text[end]) != 0) ++end;
    std::stable_sort(
        text.begin() + static_cast<int64_t>(at), text.begin() + static_cast<int64_t>(end),
        [](uint32_t a, uint32_t b) { return combining_class(a) < combining_class(b); });
    at = end;
  }
}

void compose(std::vector<uint32_t>& text) {
  size_t kept = 0, letter = SIZE_MAX;
  int last_class = -1;  // of the mark before this one; -1 directly after the letter
  for (const uint32_t code : text) {
    const int kind = combining_class(code);
    // A mark reaches the letter if none of its own class, or higher, stands between.
    if (letter != SIZE_MAX && (last_class < kind || last_class == -1)) {
      const uint32_t both = composed(text[letter], code);
      if (both != 0) {
        text[letter] = both;
        continue;
      }
    }
    if (kind == 0) {
      letter = kept;
      last_class = -1;
    } else {
      last_class = kind;
    }
    text[kept++] = code;
  }
  text.resize(kept);
}

std::vector<uint32_t> code_points(std::string_view text) {
  std::vector<uint32_t> out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const auto [code, length] = decode_utf8(text.substr(at));
    out.push_back(code == kInvalidUtf8 ? kByte | static_cast<uint8_t>(text[at]) : code);
    at += static_cast<size_t>(length);
  }
  return out;
}

}  // namespace

std::string to_form(std::string_view text, UnicodeForm form) {
  const bool compatibly = form == UnicodeForm::nfkc || form == UnicodeForm::nfkd;
  const bool composes = form == UnicodeForm::nfc || form == UnicodeForm::nfkc;
  // Nothing below U+00A0 changes, and below U+0300 nothing that NFC would change.
  const auto lead = static_cast<uint8_t>(form == UnicodeForm::nfc ? 0xCC : 0xC2);
  if (std::none_of(text.begin(), text.end(),
                   [&](char byte) { return static_cast<uint8_t>(byte) >= lead; }))
    return std::string(text);
  std::vector<uint32_t> points;
  points.reserve(text.size());
  for (const uint32_t code : code_points(text)) decompose(code, compatibly, points);
  order_marks(points);
  if (composes) compose(points);
  std::string out;
  out.reserve(text.size());
  for (const uint32_t code : points) {
    if (code >= kByte)
      out += static_cast<char>(code & 0xFF);
    else
      append_utf8(out, code);
  }
  return out;
}

uint32_t to_lower(uint32_t code) {
  if (code < 128) return code >= 'A' && code <= 'Z' ? code + 32 : code;
  const auto table = unicode::lower_runs();
  const auto after = std::upper_bound(
      table.begin(), table.end(), code,
      [](uint32_t value, const unicode::LowerRun& run) { return value < run.first; });
  if (after == table.begin()) return code;
  const unicode::LowerRun& run = after[-1];
  if (code > run.last || (code - run.first) % static_cast<uint32_t>(run.step) != 0) return code;
  return static_cast<uint32_t>(static_cast<int32_t>(code) + run.distance);
}

std::string to_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const auto [code, length] = decode_utf8(text.substr(at));
    if (code == kInvalidUtf8)
      out += text[at];
    else if (code == 0x130)
      out += "i\u0307";  // the only one whose form has two code points
    else
      append_utf8(out, to_lower(code));
    at += static_cast<size_t>(length);
  }
  return out;
}

}  // namespace tensora::llm
