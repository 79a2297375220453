#include "tensora/llm/tokenizer/pre_tokenizer.h"

#include <algorithm>

#include "tensora/base/check.h"
#include "tensora/llm/tokenizer/byte_letters.h"
#include "tensora/llm/tokenizer/hugging_face_classes.h"
#include "tensora/llm/tokenizer/normalizer.h"
#include "tensora/llm/tokenizer/word_scanner.h"

namespace tensora::llm {

void PreTokenizer::add(Step step) {
  check(steps_.size() < 64, "a pre-tokenizer has more than 64 steps");
  steps_.push_back(std::move(step));
}

void PreTokenizer::run(size_t step, std::string_view text, bool first, Emit emit) const {
  if (text.empty()) return;
  if (step == steps_.size()) return emit(text);
  const auto go_on = [&](std::string_view word) {
    run(step + 1, word, first && word.data() == text.data(), emit);
  };
  if (const auto* split = std::get_if<Split>(&steps_[step])) {
    if (split->letters)
      split_letters(*split, text, go_on);
    else
      split_by(*split, text, go_on);
  } else if (const auto* prepend = std::get_if<Prepend>(&steps_[step])) {
    const bool needed =
        (prepend->when == When::always || first) && !text.starts_with(prepend->what);
    run(step + 1, needed ? std::string_view(prepend->what + std::string(text)) : text, first, emit);
  } else {
    const auto& replace = std::get<Replace>(steps_[step]);
    const std::string changed = normalizing::replace(replace.from, replace.to)(std::string(text));
    run(step + 1, changed, first, emit);
  }
}

// Each letter is a byte: a word of so many letters, after so many that were dropped, is as many
// bytes of the text.
void PreTokenizer::split_letters(const Split& step, std::string_view text, Emit emit) {
  const std::string letters = to_byte_letters(text);
  const auto count = [](std::string_view part) {
    return static_cast<size_t>(std::count_if(
        part.begin(), part.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
  };
  size_t at = 0, byte = 0;  // in the letters, and in the text
  split_by(step, letters, [&](std::string_view word) {
    const auto start = static_cast<size_t>(word.data() - letters.data());
    byte += count(std::string_view(letters).substr(at, start - at));
    const size_t size = count(word);
    emit(text.substr(byte, size));
    byte += size;
    at = start + word.size();
  });
}

void PreTokenizer::split_by(const Split& step, std::string_view text, Emit emit) {
  WordScanner scanner(text, *step.pattern);
  if (step.matches == Matches::isolated) {  // the usual case
    for (std::string_view word = scanner.next(); !word.empty(); word = scanner.next()) emit(word);
    return;
  }
  size_t start = 0, at = 0;  // of the word that is being put together, and where we are
  bool last_match = false;   // whether it ends with a match
  const auto flush = [&](size_t end) {
    if (end > start) emit(text.substr(start, end - start));
    start = end;
  };
  for (std::string_view word = scanner.next(); !word.empty(); word = scanner.next()) {
    const bool match = scanner.matched() != step.invert;
    const size_t end = at + word.size();
    switch (step.matches) {
      case Matches::isolated:
        break;
      case Matches::removed:
        flush(at);
        if (match)
          start = end;
        else
          flush(end);
        break;
      case Matches::join_previous:
        if (!match || last_match) flush(at);
        break;
      case Matches::join_next:
        if (match || !last_match) flush(at);
        break;
      case Matches::contiguous:
        if (match != last_match) flush(at);
        break;
    }
    last_match = match;
    at = end;
  }
  flush(text.size());
}

void add_bert_words(PreTokenizer& pre_tokenizer) {
  using Split = PreTokenizer::Split;
  pre_tokenizer.add(Split{.pattern = std::make_shared<const Pattern>(R"(\s+)"),
                          .matches = PreTokenizer::Matches::removed});
  pre_tokenizer.add(Split{.pattern = std::make_shared<const Pattern>(bert_punctuation())});
}

}  // namespace tensora::llm
