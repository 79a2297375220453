#pragma once

#include <string>

#include "tensora/llm/metadata.h"

namespace tensora::llm {

/// Adds what GGUF says about a tokenizer (`tokenizer.ggml.…`) from a folder's tokenizer.json: byte
/// pairs over bytes (model "gpt2") or over characters with byte tokens ("llama"), Unigram ("t5"),
/// WordPiece ("bert"). `pre` names how words of the first are cut; empty: found out from the
/// patterns. What GGUF cannot say is an error; it does not tell a run of blanks, or one at an end
/// of a text, from a single one where a Unigram tokenizer joins them.
/// A folder without tokenizer.json adds nothing.
void add_tokenizer_keys(const std::string& folder, const std::string& pre, Metadata& metadata);

}  // namespace tensora::llm
