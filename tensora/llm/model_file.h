#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensora/core/tensor.h"
#include "tensora/llm/metadata.h"

namespace tensora::llm {

/// The dtype, the sizes and the place of a tensor in a file; nothing of it has been read.
struct TensorInfo {
  std::string name;
  DType dtype = DType::float32;
  Shape sizes;         // PyTorch's order: {out, in} of a linear layer's weight
  uint64_t bytes = 0;  // in the file
};

/// A model on disk: its metadata and its tensors by name. A GGUF file (of a split model, the
/// first) and a Hugging Face folder look alike here: both have GGUF's keys (`llama.block_count`)
/// and GGUF's names (`blk.0.attn_q.weight`). A handle; copies share the mapping.
class ModelFile {
 public:
  /// Opens a .gguf file or a folder with config.json and safetensors. All of the structure is
  /// checked before anything large is allocated; a bad file throws and says what is wrong.
  static ModelFile open(const std::string& path);

  const Metadata& metadata() const;
  /// `general.architecture`: "llama", "qwen2", …
  const std::string& architecture() const;
  const std::vector<TensorInfo>& tensors() const;  // in the file's order
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const;
  const TensorInfo& info(std::string_view name) const;  // throws where there is none
  /// The tensor on the CPU; throws where there is none. It is a view of the mapped file, which it
  /// keeps alive, wherever the file has it in one piece and in the dtype that GGUF would; it must
  /// not be written to.
  Tensor tensor(std::string_view name) const;
  /// Bytes of all tensors as they lie in the file.
  uint64_t bytes() const;

  const std::string& path() const;
  /// The Hugging Face folder; empty for GGUF. Its tokenizer is in tokenizer.json, not in metadata.
  const std::string& folder() const;
  /// Whether q and k pair element i with i + d/2 for rotary embeddings. False only for GGUF files
  /// of `llama`, whose rows are permuted so that 2i and 2i + 1 are a pair.
  bool rope_in_halves() const;
  /// Fields of a folder's config.json that this kind of model does not have in transformers either,
  /// and that are set to something. They are ignored; empty for GGUF.
  const std::vector<std::string>& ignored_fields() const;

  struct Contents;  // what the readers of the formats fill in

 private:
  explicit ModelFile(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}

  std::shared_ptr<const Contents> contents_;
};

}  // namespace tensora::llm
