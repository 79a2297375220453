#pragma once

#include <map>

#include "tensora/llm/backends/engine_backend.h"
#include "tensora/torch/decoder.h"

namespace tensora::torch {

/// The frameworks `libtorch` and `hybrid`: Tensora's engine over a decoder that LibTorch computes,
/// alone or with Tensora's kernels.
class Backend final : public llm::EngineBackend {
 public:
  enum class Kind : uint8_t { libtorch, hybrid };
  Backend(Kind kind, Device device);

  std::string name() const override { return kind_ == Kind::libtorch ? "libtorch" : "hybrid"; }
  /// The version of LibTorch that this was compiled with, and that is loaded.
  static std::string version();
  void load_model(const std::string& path, const llm::BackendOptions& options) override;
  void load_synthetic(const std::string& shape, const std::string& type,
                      const llm::BackendOptions& options) override;
  std::unique_ptr<llm::SequenceSession> open_sequences(const llm::SessionOptions& options) override;
  std::shared_ptr<const llm::LoraAdapter> load_adapter(const std::string& path) override;
  llm::ExecutionReport report() const override;
  void cleanup() noexcept override;

 protected:
  std::shared_ptr<const llm::Model> make_model(const llm::ModelFile& file,
                                               const llm::LoadOptions& options) const override;
  void check_options(const llm::BackendOptions& options) const override;

 private:
  /// The options with which the engine keeps a static cache.
  llm::BackendOptions adapted(const llm::BackendOptions& options, const llm::ModelConfig& config,
                              const llm::WeightSource& weights) const;
  std::shared_ptr<const Decoder> make(const llm::ModelConfig& config, llm::WeightSource& weights,
                                      const llm::BackendOptions& options) const;

  Kind kind_;
  mutable std::weak_ptr<const Decoder> decoder_;  // the one that is loaded
};

}  // namespace tensora::torch
