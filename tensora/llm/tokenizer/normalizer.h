#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tensora/llm/tokenizer/pattern.h"
#include "tensora/llm/tokenizer/unicode_forms.h"

namespace tensora::llm {

/// What is done to a text before it is cut into words: a list of steps. They come from files, so
/// their number and what they make of a text are limited.
class Normalizer {
 public:
  using Step = std::function<std::string(std::string)>;

  bool empty() const { return steps_.empty(); }
  void add(Step step);
  /// Throws where a text becomes more than a hundred times as long.
  std::string operator()(std::string text) const;

 private:
  std::vector<Step> steps_;
};

/// The steps. An empty text stays empty.
namespace normalizing {

Normalizer::Step form(UnicodeForm form);
Normalizer::Step lowercase();
Normalizer::Step prepend(std::string what);
Normalizer::Step replace(std::string from, std::string to);
Normalizer::Step replace_matches(const Pattern& pattern, std::string to);
/// Takes white space from the ends.
Normalizer::Step strip(bool left, bool right);
/// Takes the marks (categories Mn, Mc and Me) away.
Normalizer::Step strip_accents();
struct BertOptions {
  bool clean = true;          // no control characters; any white space is a blank
  bool chinese = true;        // blanks around ideographs
  bool strip_accents = true;  // decomposes letters and takes the nonspacing marks (Mn) away
  bool lowercase = true;
};
Normalizer::Step bert(const BertOptions& options);
/// Sentencepiece's precompiled map: a double-array trie and the texts that it leads to. All of it
/// is checked when it is read.
Normalizer::Step character_map(std::string_view bytes);
/// One blank for a run of them, none at the ends, as sentencepiece does.
Normalizer::Step remove_extra_spaces();

}  // namespace normalizing
}  // namespace tensora::llm
