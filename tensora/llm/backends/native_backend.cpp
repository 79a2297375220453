#include "tensora/llm/backends/native_backend.h"

#include "tensora/core/backend.h"
#include "tensora/llm/model_file.h"
#include "tensora/llm/registry.h"

namespace tensora::llm {

NativeBackend::NativeBackend(Device device) : device_(device) { require_device(device); }

NativeBackend::~NativeBackend() { cleanup(); }

std::string NativeBackend::name() const { return concat("native-", tensora::name(device_.type)); }

void NativeBackend::load_model(const std::string& path, const BackendOptions& options) {
  cleanup();
  memory_.emplace(device_);
  options_ = {.context = options.context, .max_sequences = options.max_sequences};
  parts_.model =
      llm::load_model(ModelFile::open(resolve_model(path)), {.device = device_,
                                                             .quantize = options.quantize,
                                                             .positions = options.context,
                                                             .progress = options.progress});
}

void NativeBackend::load_tokenizer(const std::string& path) {
  const ModelFile file = ModelFile::open(resolve_model(path));
  engine_.reset();
  parts_.tokenizer = llm::load_tokenizer(file);
  parts_.chat = load_chat_template(file, *parts_.tokenizer);
}

Engine& NativeBackend::engine() {
  check(parts_.model != nullptr, name(), ": no model is loaded");
  if (!engine_) engine_ = std::make_unique<Engine>(parts_, options_);
  return *engine_;
}

Completion NativeBackend::generate(const Request& request,
                                   const std::function<void(const Piece&)>& on_piece) {
  return engine().generate(request, on_piece);
}

BackendMemory NativeBackend::memory_usage() const {
  BackendMemory memory;
  if (parts_.model) memory.model_bytes = parts_.model->bytes();
  if (engine_) memory.cache_bytes = engine_->cache_bytes();
  if (memory_) memory.devices = memory_->read();
  return memory;
}

void NativeBackend::cleanup() noexcept {
  engine_.reset();
  parts_ = {};
  if (!memory_) return;
  memory_.reset();
  try {
    empty_cache(device_);
  } catch (...) {  // NOLINT: memory that a broken device keeps cannot be returned
  }
}

}  // namespace tensora::llm
