#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tensora/llm/metadata.h"
#include "tensora/llm/model_config.h"

namespace tensora::llm {

/// A public model: its shape, and where a file of it is.
struct RegistryEntry {
  struct Sizes {
    int64_t hidden_size, layers, heads, kv_heads, head_dim, feed_forward, vocab_size;
    int64_t context_length;
  };
  struct Details {
    double rope_base = 10000, norm_eps = 1e-5;
    bool tied = false;  // the embedding makes the logits too
    int64_t window = 0, experts = 0, experts_used = 0;
    double rope_factor = 1;  // llama: of llama3's scaling over 8192 positions; else linear
    // A GGUF on huggingface.co that `tensora pull` fetches. The revision is a commit where one is
    // known; without a checksum here, only the server's own can be compared with.
    std::string_view repository = {}, file = {}, revision = "main", sha256 = {};
  };

  std::string_view name;   // "llama3-1b"
  std::string_view title;  // "Llama 3.2 1B"
  std::string_view architecture;
  Sizes sizes;
  Details details;

  /// GGUF's keys of such a model.
  Metadata metadata() const;
  ModelConfig config() const;
  int64_t parameters() const;
  /// Where the file is, on `server`: https://huggingface.co or a mirror of it. Throws if no file is
  /// known.
  std::string address(std::string_view server) const;
};

std::span<const RegistryEntry> registry();
/// Throws for an unknown name, and lists the known ones.
const RegistryEntry& find_registered(std::string_view name);

/// Where pulled models are kept: TENSORA_MODELS, or else ~/.cache/tensora/models.
std::string models_folder();
/// The file of a registered model in that folder, whether or not it is there.
std::string pulled_path(const RegistryEntry& entry);

/// What ModelFile::open takes for what a user typed: the path of a .gguf file, of a Hugging Face
/// folder or of a folder with one GGUF model in it, or the name of a registered model that was
/// pulled. Otherwise throws and says what was tried and what is known.
std::string resolve_model(const std::string& path_or_name);

}  // namespace tensora::llm
