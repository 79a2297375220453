#pragma once

#include <string>

#include "tensora/llm/metadata.h"

namespace tensora::llm {

/// Adds what GGUF says about a tokenizer (`tokenizer.ggml.…`) from a folder's tokenizer.json: byte
/// pairs over bytes (model "gpt2") or over characters with byte tokens ("llama"). `pre` names how
/// words are cut; empty: found out from the patterns, and an error where GGUF has no name for them.
/// A folder without tokenizer.json adds nothing.
void add_tokenizer_keys(const std::string& folder, const std::string& pre, Metadata& metadata);

}  // namespace tensora::llm
