#include "tensora/llm/tokenizer/word_scanner.h"

#include "tensora/base/utf8.h"
#include "tensora/llm/tokenizer/pre_tokenizers.h"

namespace tensora::llm {

WordScanner::WordScanner(std::string_view text)
    : WordScanner(text, *pre_tokenizer("gpt-2").patterns[0]) {}

std::string_view WordScanner::next() {
  const size_t start = at_;
  if (start == text_.size()) return {};
  size_t end = match_end_ > start ? match_end_ : pattern_->match(text_, start, memory_);
  matched_ = end > start;
  if (!matched_) {
    // What lies before the next match is a word of its own.
    size_t from = start;
    do {
      from += static_cast<size_t>(decode_utf8(text_.substr(from)).length);
      end = from < text_.size() ? pattern_->match(text_, from, memory_) : from;
    } while (end == from && from < text_.size());
    match_end_ = end;
    end = from;
  }
  at_ = end;
  return text_.substr(start, end - start);
}

}  // namespace tensora::llm
