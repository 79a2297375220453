#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tensora/base/function_ref.h"
#include "tensora/llm/tokenizer/pattern.h"

namespace tensora::llm {

/// Cuts a text into words: a list of steps, each of which works on the words of the one before.
class PreTokenizer {
 public:
  /// What becomes of the matches of a pattern.
  enum class Matches : uint8_t { isolated, removed, join_previous, join_next, contiguous };
  struct Split {
    std::shared_ptr<const Pattern> pattern;
    Matches matches = Matches::isolated;
    bool invert = false;   // what lies between the matches takes their place
    bool letters = false;  // the pattern looks at the word in byte letters
  };
  enum class When : uint8_t { always, first };
  /// Puts a text before a word that does not begin with it; `first`: only at the very beginning.
  struct Prepend {
    std::string what;
    When when = When::always;
  };
  struct Replace {
    std::string from, to;
  };
  using Step = std::variant<Split, Prepend, Replace>;

  /// At most 64: steps come from files.
  void add(Step step);
  bool empty() const { return steps_.empty(); }

  using Emit = FunctionRef<void(std::string_view word)>;
  /// `first`: the text is the beginning of what was to be encoded. Words are valid during the call.
  void split(std::string_view text, bool first, Emit emit) const { run(0, text, first, emit); }

 private:
  void run(size_t step, std::string_view text, bool first, Emit emit) const;
  static void split_by(const Split& step, std::string_view text, Emit emit);
  static void split_letters(const Split& step, std::string_view text, Emit emit);

  std::vector<Step> steps_;
};

/// BERT's words: white space is dropped, and punctuation stands alone.
void add_bert_words(PreTokenizer& pre_tokenizer);

}  // namespace tensora::llm
