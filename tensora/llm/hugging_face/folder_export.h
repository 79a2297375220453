#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tensora/llm/model_file.h"

namespace tensora::llm {

struct FolderExportOptions {
  /// float32, float16 or bfloat16 of all matrices; empty: what they are, and float16 where they are
  /// quantized.
  std::string type = {};
  uint64_t shard_bytes = uint64_t{4} << 30;  // of one safetensors file; what is in memory at once
  /// Called with the bytes of tensors written so far and of all.
  std::function<void(uint64_t done, uint64_t total)> progress = nullptr;
};

/// Writes a model as a Hugging Face folder: config.json, generation_config.json, safetensors (with
/// an index where there are several) and, where the file has a vocabulary, tokenizer.json and
/// tokenizer_config.json. The folder is made where it is not there.
void export_folder(const ModelFile& file, const std::string& folder,
                   const FolderExportOptions& options = {});

}  // namespace tensora::llm
