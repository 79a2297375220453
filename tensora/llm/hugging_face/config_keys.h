#pragma once

#include <string>
#include <vector>

#include "tensora/llm/hugging_face/tensor_names.h"
#include "tensora/llm/metadata.h"

namespace tensora::llm {

/// What config.json and the small files beside it say, in GGUF's keys.
struct FolderConfig {
  std::string architecture;  // GGUF's name
  Metadata metadata;
  bool tied = false;  // the output matrix is the embedding
  BiasUse biases;
  /// Divisors of the rotary frequencies, which GGUF stores as tensors; empty unless scaled.
  std::vector<double> rope_freqs, rope_factors_long, rope_factors_short;
  /// Fields of config.json that are ignored, as transformers ignores them.
  std::vector<std::string> ignored;
};

/// Reads config.json, and generation_config.json and tokenizer_config.json where they are there.
/// Throws for an unknown kind of model, and for a field whose value is not supported; see
/// config_fields.h.
FolderConfig read_folder_config(const std::string& folder);

}  // namespace tensora::llm
