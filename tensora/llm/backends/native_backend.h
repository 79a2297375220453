#pragma once

#include <memory>
#include <optional>

#include "tensora/llm/backends/framework_backend.h"
#include "tensora/llm/engine.h"

namespace tensora::llm {

/// This library's own engine, on one device.
class NativeBackend final : public FrameworkBackend {
 public:
  explicit NativeBackend(Device device);
  ~NativeBackend() override;

  std::string name() const override;
  bool uses_gpu() const override { return !device_.is_cpu(); }
  void load_model(const std::string& path, const BackendOptions& options) override;
  void load_tokenizer(const std::string& path) override;
  Completion generate(const Request& request,
                      const std::function<void(const Piece&)>& on_piece) override;
  BackendMemory memory_usage() const override;
  void cleanup() noexcept override;

  /// Made when it is first needed, with what is loaded then.
  Engine& engine();

 private:
  Device device_;
  EngineParts parts_;
  EngineOptions options_;
  std::unique_ptr<Engine> engine_;
  mutable std::optional<MemoryTracker> memory_;
};

}  // namespace tensora::llm
