#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "tensora/llm/backends/framework_backend.h"
#include "tensora/llm/embed.h"

namespace tensora::serve {

/// Computes embeddings with a model, one text after another. Its sequence is made when it is first
/// needed, and grows with the texts. May be used from any thread.
class Embedder {
 public:
  Embedder(std::shared_ptr<llm::FrameworkBackend> backend, const llm::EmbedOptions& options);
  /// Throws ApiError for a text that is empty or too long.
  std::vector<float> embed(const std::vector<int32_t>& tokens);

 private:
  std::shared_ptr<llm::FrameworkBackend> backend_;
  llm::EmbedOptions options_;
  std::mutex mutex_;  // of what follows
  std::unique_ptr<llm::SequenceSession> session_;
};

}  // namespace tensora::serve
