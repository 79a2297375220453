#pragma once

#include "tensora/llm/tokenizer/tokenizer.h"

namespace tensora::llm {

/// A tokenizer for a model whose vocabulary is larger: matrices are often padded to a round number
/// of rows. Tokens that the tokenizer does not have are control tokens without a text, so that an
/// answer in which one occurs goes on; transformers and llama.cpp do the same. Returns `tokenizer`
/// itself where it has all tokens.
TokenizerPtr padded_tokenizer(TokenizerPtr tokenizer, int64_t vocab_size);

}  // namespace tensora::llm
