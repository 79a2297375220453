#pragma once

#include "tensora/llm/backends/engine_backend.h"

namespace tensora::llm {

/// Tensora's own kernels, on one device.
class NativeBackend final : public EngineBackend {
 public:
  explicit NativeBackend(Device device) : EngineBackend(device) {}

  std::string name() const override { return "native"; }
  ExecutionReport report() const override;
  static std::string version();  // Tensora's
  void load_synthetic(const std::string& shape, const std::string& type,
                      const BackendOptions& options) override;

 protected:
  std::shared_ptr<const Model> make_model(const ModelFile& file,
                                          const LoadOptions& options) const override;
};

}  // namespace tensora::llm
