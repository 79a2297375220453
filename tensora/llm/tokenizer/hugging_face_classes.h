#pragma once

#include <cstdint>
#include <string>

namespace tensora::llm {

// Classes of characters in the normalizers and in BERT's pre-tokenizer of Hugging Face's
// tokenizers. They are those of older versions of Unicode than the one of the regular expressions
// (unicode_classes.h), and stay so: other ones would give other tokens than models were trained
// with.

/// What StripAccents takes away: marks of Unicode 9.
bool is_stripped_accent(uint32_t code);
/// What BertNormalizer takes away after decomposing letters: nonspacing marks of Unicode 8.
bool is_bert_accent(uint32_t code);
/// What BertNormalizer takes away when it cleans a text: control and format characters, characters
/// for private use and U+FFFD.
bool is_bert_control(uint32_t code);
/// A pattern that matches one sign of punctuation, for BertPreTokenizer and Punctuation.
const std::string& bert_punctuation();

}  // namespace tensora::llm
