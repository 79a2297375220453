#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace tensora::llm {

/// A regular expression (see parse_pattern for what it may contain) as an automaton that reads each
/// character once; alternatives are tried in order, as in Perl and Oniguruma. Constant once made.
class Pattern {
 public:
  explicit Pattern(std::string_view expression);

  /// What a search through one text remembers, so that a text in which the automaton reads far
  /// ahead in vain, again and again, is still read in linear time.
  class Memory {
    friend class Pattern;
    std::unordered_set<uint64_t> dead_ends_;  // a state at a place from which no match ends
    std::vector<uint64_t> trail_;
  };

  /// Where the match that starts at `at` ends; `at` itself if there is none.
  size_t match(std::string_view text, size_t at, Memory& memory) const;

 private:
  struct Builder;

  // An entry of the table: the next state, times two, plus one if a match ends before the
  // character. State 0 is the end of all hope.
  std::vector<uint16_t> table_;
  size_t symbols_ = 0;  // the kinds of characters that are told apart; the last is the text's end
  std::array<uint8_t, 128> ascii_{};
  std::vector<uint16_t> pages_;  // of 256 code points
  std::vector<uint8_t> page_symbols_;
};

/// The expression that matches just this text.
std::string literal_pattern(std::string_view text);

}  // namespace tensora::llm
