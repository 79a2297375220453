#include "tensora/llm/backends/native_backend.h"

#include "tensora/jit/kernel_store.h"

namespace tensora::llm {

std::string NativeBackend::version() { return TENSORA_VERSION; }

ExecutionReport NativeBackend::report() const {
  ExecutionReport report = EngineBackend::report();
  report.version = version();
  const jit::KernelStatistics& kernels = jit::kernel_statistics();
  for (const jit::StoreEntry& entry : jit::kernel_store().list()) {
    ++report.kernels.entries;
    report.kernels.bytes += static_cast<int64_t>(entry.bytes);
  }
  report.kernels.hits = static_cast<int64_t>(kernels.memory_hits + kernels.disk_hits);
  report.kernels.misses = static_cast<int64_t>(kernels.misses.load());
  report.kernels.compile_seconds = static_cast<double>(kernels.compile_microseconds.load()) / 1e6;
  return report;
}

std::shared_ptr<const Model> NativeBackend::make_model(const ModelFile& file,
                                                       const LoadOptions& options) const {
  return llm::load_model(file, options);
}

void NativeBackend::load_synthetic(const std::string& shape, const std::string& type,
                                   const BackendOptions& options) {
  cleanup();
  check_options(options);
  auto model = synthetic_model(shape, type, device(), options.engine.context);
  ModelSummary summary = summary_of(shape, type, *model);
  use_model(std::move(model), std::move(summary), options);
}

}  // namespace tensora::llm
