#pragma once

#include <algorithm>
#include <cctype>
#include <string_view>

namespace tensora::testing {

/// Whether a text is one JSON value. Enough for what tests look at; no numbers are converted.
class JsonChecker {
 public:
  explicit JsonChecker(std::string_view text) : text_(text) {}
  bool whole() { return value() && (space(), text_.empty()); }

 private:
  void space() {
    while (!text_.empty() && std::isspace(static_cast<unsigned char>(text_[0])))
      text_.remove_prefix(1);
  }
  bool take(std::string_view token) {
    space();
    if (!text_.starts_with(token)) return false;
    text_.remove_prefix(token.size());
    return true;
  }
  bool value() {
    if (take("{")) return list('}', [this] { return string() && take(":") && value(); });
    if (take("[")) return list(']', [this] { return value(); });
    return take("true") || take("false") || take("null") || string() || number();
  }
  template <class Item>
  bool list(char end, Item&& item) {
    const std::string_view close(&end, 1);
    if (take(close)) return true;
    do {
      if (!item()) return false;
    } while (take(","));
    return take(close);
  }
  bool string() {
    if (!take("\"")) return false;
    while (!text_.empty() && text_[0] != '"') {
      if (static_cast<unsigned char>(text_[0]) < 0x20) return false;
      text_.remove_prefix(text_[0] == '\\' && text_.size() > 1 ? 2 : 1);
    }
    return take("\"");
  }
  bool number() {
    const size_t length = std::min(text_.find_first_not_of("+-.0123456789eE"), text_.size());
    const bool ok = length != 0 && (text_[0] == '-' || std::isdigit(text_[0]));
    text_.remove_prefix(length);
    return ok;
  }

  std::string_view text_;
};

inline bool is_valid_json(std::string_view text) { return JsonChecker(text).whole(); }

}  // namespace tensora::testing
