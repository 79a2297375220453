#include "tensora/llm/backends/native_backend.h"

namespace tensora::llm {

std::shared_ptr<const Model> NativeBackend::make_model(const ModelFile& file,
                                                       const LoadOptions& options) const {
  return llm::load_model(file, options);
}

void NativeBackend::load_synthetic(const std::string& shape, const std::string& type,
                                   const BackendOptions& options) {
  cleanup();
  auto model = synthetic_model(shape, type, device(), options.engine.context);
  ModelSummary summary = summary_of(shape, type, *model);
  use_model(std::move(model), std::move(summary), options);
}

}  // namespace tensora::llm
