#pragma once

#include <string_view>

#include "tensora/llm/tokenizer/tokenizer.h"

namespace tensora::llm {

/// The contents of the files that describe a tokenizer of Hugging Face's; only the first is needed.
struct TokenizerJson {
  std::string_view tokenizer;        // tokenizer.json
  std::string_view config = {};      // tokenizer_config.json
  std::string_view generation = {};  // generation_config.json
};
TokenizerPtr tokenizer_from_json_files(const TokenizerJson& files);
/// A tokenizer.model of sentencepiece, which is a protobuf message.
TokenizerPtr tokenizer_from_sentencepiece(std::string_view bytes);
/// Lines of a token in base 64 and its rank. The file does not say how text is cut; options.pre
/// does, or the number of ranks gives a well-known model away.
TokenizerPtr tokenizer_from_tiktoken(std::string_view text, const TokenizerOptions& options);

}  // namespace tensora::llm
