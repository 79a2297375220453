#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "tensora/llm/backends/framework_backend.h"
#include "tensora/llm/model_file.h"
#include "tensora/llm/resource_manager.h"

namespace tensora::llm {

/// A framework that computes `Model::forward` in its own way and leaves the rest to Tensora's
/// engine: continuous batching, KV-cache blocks, sampling, grammars, streaming, cancelling,
/// statistics. A subclass makes the model.
class EngineBackend : public FrameworkBackend {
 public:
  ~EngineBackend() override;

  Device device() const override { return device_; }
  void load_model(const std::string& path, const BackendOptions& options) override;
  void load_tokenizer(const std::string& path) override;
  Generation submit(Request request) override;
  std::vector<int32_t> tokens_of(const Request& request) override;
  std::unique_ptr<SequenceSession> open_sequences(const SessionOptions& options) override;
  std::shared_ptr<const LoraAdapter> load_adapter(const std::string& path) override;
  ModelInfo model_info() const override;
  int64_t context() override;
  TokenizerPtr tokenizer() const override { return parts_.tokenizer; }
  const ChatTemplate* chat_template() const override;
  EngineStats stats() const override;
  BackendMemory memory_usage() const override;
  ExecutionReport report() const override;
  void cleanup() noexcept override;

 protected:
  /// Throws, with the reason, where this machine does not have the device.
  explicit EngineBackend(Device device);

  virtual std::shared_ptr<const Model> make_model(const ModelFile& file,
                                                  const LoadOptions& options) const = 0;
  /// How the model is being loaded, or was.
  const BackendOptions& options() const { return options_; }
  /// Throws unless the framework has the optimization level of the options and knows their
  /// settings. By default levels are "eager" and, where the device records steps, "graph".
  virtual void check_options(const BackendOptions& options) const;
  /// Replaces what is loaded.
  void use_model(std::shared_ptr<const Model> model, ModelSummary summary,
                 const BackendOptions& options);

 private:
  std::shared_ptr<const Model> model() const;
  /// Made when it is first needed, with what is loaded then. Whoever holds it keeps it alive, while
  /// another thread may call `cleanup`.
  std::shared_ptr<Engine> engine();

  Device device_;
  mutable std::mutex mutex_;  // of what follows
  BackendOptions options_;
  EngineParts parts_;
  ModelSummary summary_;
  std::unique_ptr<ResourceManager> resources_;  // since load_model
  std::shared_ptr<Engine> engine_;
};

}  // namespace tensora::llm
