#include "tensora/llm/tokenizer/normalizer.h"

#include <cstring>
#include <memory>

#include "tensora/base/check.h"
#include "tensora/base/utf8.h"
#include "tensora/llm/tokenizer/hugging_face_classes.h"
#include "tensora/llm/tokenizer/unicode_classes.h"
#include "tensora/llm/tokenizer/vocabulary.h"
#include "tensora/llm/tokenizer/word_scanner.h"

namespace tensora::llm {

void Normalizer::add(Step step) {
  check(steps_.size() < 64, "a normalizer has more than 64 steps");
  steps_.push_back(std::move(step));
}

std::string Normalizer::operator()(std::string text) const {
  const size_t most = 100 * text.size() + 1000;
  for (const Step& step : steps_) {
    text = step(std::move(text));
    check(text.size() <= most, "the normalizer makes a text more than a hundred times as long");
  }
  return text;
}

}  // namespace tensora::llm

namespace tensora::llm::normalizing {
namespace {

void check_short(std::string_view what) {
  check(what.size() <= 1000, "a text that is put in by a normalizer has ", what.size(),
        " bytes; at most 1000 are supported");
}

// Calls body(code, bytes) for each character; code is kInvalidUtf8 for a byte that is none.
template <class Body>
void for_each_character(std::string_view text, const Body& body) {
  for (size_t at = 0; at < text.size();) {
    const auto [code, length] = decode_utf8(text.substr(at));
    body(code, text.substr(at, static_cast<size_t>(length)));
    at += static_cast<size_t>(length);
  }
}

bool is_space(uint32_t code) {
  return code == ' ' || (code >= 9 && code <= 13) || code == 0x85 || code == 0x2028 ||
         code == 0x2029 || unicode_category(code) == UnicodeCategory::Zs;
}

bool is_ideograph(uint32_t code) {
  return (code >= 0x4E00 && code <= 0x9FFF) || (code >= 0x3400 && code <= 0x4DBF) ||
         (code >= 0x20000 && code <= 0x2A6DF) || (code >= 0x2A700 && code <= 0x2B81F) ||
         (code >= 0x2B920 && code <= 0x2CEAF) || (code >= 0xF900 && code <= 0xFAFF) ||
         (code >= 0x2F800 && code <= 0x2FA1F);
}

std::string clean(std::string_view text) {
  std::string out;
  for_each_character(text, [&](uint32_t code, std::string_view bytes) {
    const bool line = code == '\t' || code == '\n' || code == '\r';
    const bool other = code == kInvalidUtf8 || is_bert_control(code);
    if (line || (!other && is_space(code)))
      out += ' ';
    else if (!other)
      out += bytes;
  });
  return out;
}

template <class Goes>
std::string without(std::string_view text, const Goes& goes) {
  std::string out;
  for_each_character(text, [&](uint32_t code, std::string_view bytes) {
    if (!goes(code)) out += bytes;
  });
  return out;
}

// The trie of the Darts library: a unit per edge, and the children of a node share a block of
// units.
class CharacterMap {
 public:
  explicit CharacterMap(std::string_view bytes) {
    uint32_t size = 0;
    check(bytes.size() >= 4, "the character map is too short");
    std::memcpy(&size, bytes.data(), 4);
    check(size % 4 == 0 && size > 0 && size <= bytes.size() - 4,
          "the character map's trie is said to have ", size, " bytes, there are ",
          bytes.size() - 4);
    units_.resize(size / 4);
    std::memcpy(units_.data(), bytes.data() + 4, size);
    texts_ = bytes.substr(4 + size_t(size));
    check(texts_.empty() || texts_.back() == '\0', "the character map's texts do not end");
  }

  std::string operator()(std::string_view text) const {
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const auto [length, value] = longest(text.substr(at));
      if (length > 0 && value < texts_.size()) {
        out += texts_.data() + value;
        at += length;
        continue;
      }
      const auto [code, bytes] = decode_utf8(text.substr(at));
      out += text.substr(at, static_cast<size_t>(bytes));
      at += static_cast<size_t>(bytes);
    }
    return out;
  }

 private:
  static uint32_t offset(uint32_t unit) { return unit >> 10 << ((unit & (1u << 9)) >> 6); }
  static bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
  static uint32_t label(uint32_t unit) { return unit & (1u << 31 | 0xFFu); }

  // The longest text of the map that `text` begins with, and what it becomes.
  std::pair<size_t, uint32_t> longest(std::string_view text) const {
    std::pair<size_t, uint32_t> best{0, 0};
    size_t node = offset(units_[0]);
    for (size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<uint8_t>(text[i]);
      node ^= byte;
      if (node >= units_.size() || label(units_[node]) != byte) break;
      const uint32_t unit = units_[node];
      node ^= offset(unit);
      if (has_leaf(unit) && node < units_.size()) best = {i + 1, units_[node] & 0x7FFFFFFFu};
    }
    return best;
  }

  std::vector<uint32_t> units_;
  std::string texts_;
};

}  // namespace

Normalizer::Step form(UnicodeForm form) {
  return [form](const std::string& text) { return to_form(text, form); };
}

Normalizer::Step lowercase() {
  return [](const std::string& text) { return to_lower(text); };
}

Normalizer::Step prepend(std::string what) {
  check_short(what);
  return [what = std::move(what)](std::string text) { return text.empty() ? text : what + text; };
}

Normalizer::Step replace(std::string from, std::string to) {
  check(!from.empty(), "a normalizer replaces an empty text");
  check_short(to);
  return [from = std::move(from), to = std::move(to)](std::string text) {
    size_t found = text.find(from);
    if (found == text.npos) return text;
    std::string out;
    out.reserve(text.size() + text.size() / 2);
    size_t at = 0;
    for (; found != text.npos; found = text.find(from, at)) {
      out.append(text, at, found - at).append(to);
      at = found + from.size();
    }
    return out.append(text, at, text.npos);
  };
}

Normalizer::Step replace_matches(const Pattern& pattern, std::string to) {
  check_short(to);
  return [shared = std::make_shared<Pattern>(pattern), to = std::move(to)](std::string text) {
    std::string out;
    WordScanner scanner(text, *shared);
    for (std::string_view word = scanner.next(); !word.empty(); word = scanner.next())
      out += scanner.matched() ? std::string_view(to) : word;
    return out;
  };
}

Normalizer::Step strip(bool left, bool right) {
  return [left, right](std::string text) {
    size_t start = text.size(), end = 0, at = 0;
    for_each_character(text, [&](uint32_t code, std::string_view bytes) {
      if (!is_space(code)) {
        start = std::min(start, at);
        end = at + bytes.size();
      }
      at += bytes.size();
    });
    if (!left) start = 0;
    if (!right) end = text.size();
    return start < end ? text.substr(start, end - start) : std::string();
  };
}

Normalizer::Step strip_accents() {
  return [](const std::string& text) { return without(text, is_stripped_accent); };
}

Normalizer::Step bert(const BertOptions& options) {
  return [options](std::string text) {
    if (options.clean) text = clean(text);
    if (options.chinese) {
      std::string out;
      for_each_character(text, [&](uint32_t code, std::string_view bytes) {
        const bool apart = is_ideograph(code);
        if (apart) out += ' ';
        out += bytes;
        if (apart) out += ' ';
      });
      text = std::move(out);
    }
    if (options.strip_accents) text = without(to_form(text, UnicodeForm::nfd), is_bert_accent);
    return options.lowercase ? to_lower(text) : text;
  };
}

Normalizer::Step character_map(std::string_view bytes) {
  return [map = std::make_shared<CharacterMap>(bytes)](const std::string& text) {
    return (*map)(text);
  };
}

Normalizer::Step remove_extra_spaces() {
  return [](const std::string& text) {
    std::string out;
    for (const char byte : text)
      if (byte != ' ' || (!out.empty() && out.back() != ' ')) out += byte;
    // At the end, what stands for a blank counts as one.
    while (out.ends_with(' ') || out.ends_with(kSpaceMark))
      out.resize(out.size() - (out.back() == ' ' ? 1 : kSpaceMark.size()));
    return out;
  };
}

}  // namespace tensora::llm::normalizing
