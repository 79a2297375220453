#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tensora/llm/gguf/gguf_writer.h"
#include "tensora/llm/model_file.h"

namespace tensora::llm {

struct GgufExportOptions {
  /// What the matrices become, as in LoadOptions::quantize; empty: what they are. Vectors are
  /// float32 in any case.
  std::string type = {};
  /// How a byte-level tokenizer of a folder cuts words, by GGUF's name; empty: found out from its
  /// patterns.
  std::string pre = {};
  /// Called with the bytes of tensors written so far and of all.
  std::function<void(uint64_t done, uint64_t total)> progress = nullptr;
};

/// What a model becomes as a GGUF file. Nothing large is in memory before a tensor is loaded.
struct GgufExport {
  Metadata metadata;
  std::vector<TensorSource> tensors;
  uint64_t bytes = 0;       // of all tensors
  int64_t requantized = 0;  // matrices that were quantized already, and lose once more
};
GgufExport plan_gguf_export(const ModelFile& file, const GgufExportOptions& options = {});

/// Writes a model as one GGUF file, atomically: a folder's tensors with GGUF's names and order of
/// rows, a split model's parts as one, with the matrices converted as the options say.
void export_gguf(const ModelFile& file, const std::string& path,
                 const GgufExportOptions& options = {});

/// The rows of q or k of `heads` heads from "element i is paired with i + d/2" to "2i with 2i + 1",
/// which is how GGUF has them for `llama`; and back. A bias works too.
Tensor interleave_halves(const Tensor& rows, int64_t heads);
Tensor separate_halves(const Tensor& rows, int64_t heads);

}  // namespace tensora::llm
