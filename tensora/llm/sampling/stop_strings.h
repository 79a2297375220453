#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tensora::llm {

/// Watches a text that arrives in pieces for strings that end it. What might be the beginning of
/// such a string is held back until that is decided. How the text is cut into pieces does not
/// matter: the string that is complete first ends it, of several the longest.
class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> stops);

  /// The text that may be shown now. Nothing more comes once a string was met.
  std::string push(std::string_view text);
  /// The text ends here: what was held back.
  std::string finish();

  bool stopped() const { return met_.has_value(); }
  /// Which of the strings was met.
  std::optional<size_t> met() const { return met_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  std::optional<size_t> met_;
};

}  // namespace tensora::llm
