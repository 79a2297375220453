#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensora/llm/batch.h"
#include "tensora/llm/model_config.h"
#include "tensora/llm/paged_cache.h"
#include "tensora/llm/weight.h"

namespace tensora::llm {

/// A language model that continues many sequences at once over a paged cache. It is immutable: any
/// number of threads may call it, each with sequences of its own.
class Model {
 public:
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  virtual ~Model() = default;

  /// float32 logits [R, vocab_size] of the batch's `logit_rows`. Writes the tokens' keys and values
  /// into the cache. The host reads nothing from the device.
  virtual Tensor forward(const Batch& batch, PagedCache& cache) const = 0;
  /// The normalised hidden states float32 [R, hidden_size] that logits are made of: embeddings.
  virtual Tensor hidden(const Batch& batch, PagedCache& cache) const = 0;
  /// Bytes of the weights; those that stay in the mapped file count too.
  virtual int64_t bytes() const = 0;
  /// No sequence may be longer than this.
  virtual int64_t positions() const { return config_.context_length; }

  const ModelConfig& config() const { return config_; }
  Device device() const { return device_; }
  /// The dtype of activations between the float32 residuals.
  DType activation_dtype() const { return activation_dtype_; }
  /// What the cache is made of unless the user says otherwise.
  DType cache_dtype() const { return activation_dtype_ == kBFloat16 ? kBFloat16 : kFloat16; }

 protected:
  Model(ModelConfig config, Device device, DType activation_dtype = kFloat32)
      : config_(std::move(config)), device_(device), activation_dtype_(activation_dtype) {}

 private:
  ModelConfig config_;
  Device device_;
  DType activation_dtype_;
};

/// How weights get from a file into memory.
struct LoadOptions {
  Device device = {};
  /// What matrices become when they are loaded: a dtype's name (float16, q8_0, nf4, …), "int8" or
  /// "fp8" with a scale per row, or a mix such as "q4_k_m". Empty: they stay as they are, which on
  /// the CPU costs no memory beyond the mapped file.
  std::string quantize = {};
  /// How long sequences may become, which decides the size of the table of rotary angles, and with
  /// longrope its contents; 0: as long as the model was trained for.
  int64_t positions = 0;
  /// Called with the bytes that are ready and all bytes.
  std::function<void(int64_t done, int64_t total)> progress = nullptr;
};

/// Makes the model that a file describes. Everything is checked (numbers, names, shapes) before
/// memory is taken; an architecture that is not known is an error that lists those that are.
std::shared_ptr<const Model> load_model(const ModelFile& file, const LoadOptions& options = {});

/// A model of the registry's shape `name` with random weights of `type`, a name as in
/// LoadOptions::quantize: what benchmarks run without a file. `positions`: as in LoadOptions.
std::shared_ptr<const Model> synthetic_model(std::string_view name, std::string_view type,
                                             Device device = {}, int64_t positions = 0);

/// The architectures that can be loaded, sorted.
std::vector<std::string> known_architectures();

}  // namespace tensora::llm
