#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tensora/llm/backends/engine_backend.h"
#include "tensora/llm/model.h"

namespace tensora::llm {
class WeightSource;
}

namespace tensora::distributed {

/// A model for inference whose matrices and KV cache are divided over `ranks` threads of this
/// process, on the CPU: heads, feed-forward size and the vocabulary of the head (see
/// llm::ModelShard). Every rank computes on one thread. The model is used as a model on one thread
/// is, and gives the same logits up to rounding. LoRA adapters are refused. Throws where the model
/// cannot be divided.
std::shared_ptr<const llm::Model> load_sharded_model(const llm::ModelFile& file,
                                                     const llm::LoadOptions& options, int ranks);
/// The same with the weights of any source.
std::shared_ptr<const llm::Model> make_sharded_model(const llm::ModelConfig& config,
                                                     llm::WeightSource& weights, int ranks);
/// The same with random weights; see llm::synthetic_model.
std::shared_ptr<const llm::Model> synthetic_sharded_model(std::string_view name,
                                                          std::string_view type, int ranks,
                                                          int64_t positions = 0);

/// Tensora's own engine with a sharded model.
class ShardedBackend final : public llm::EngineBackend {
 public:
  explicit ShardedBackend(int ranks);

  std::string name() const override;
  void load_synthetic(const std::string& shape, const std::string& type,
                      const llm::BackendOptions& options) override;

 protected:
  std::shared_ptr<const llm::Model> make_model(const llm::ModelFile& file,
                                               const llm::LoadOptions& options) const override;

 private:
  int ranks_;
};

}  // namespace tensora::distributed
