#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "tensora/llm/backends/framework_backend.h"
#include "tensora/llm/embed.h"

namespace tensora::serve {

/// Keeps the first dimensions and makes the rest of length 1 again, as models that were trained for
/// it expect.
void shorten(std::vector<float>& vector, size_t dimensions);

/// Computes embeddings with a model, one text after another. Its sequence is made when it is first
/// needed, and grows with the texts. May be used from any thread.
class Embedder {
 public:
  Embedder(std::shared_ptr<llm::FrameworkBackend> backend, llm::Pooling pooling);
  llm::Pooling pooling() const { return pooling_; }
  /// Throws ApiError for a text that is empty or too long, and for a model that only ranks.
  std::vector<float> embed(const std::vector<int32_t>& tokens);
  /// For each prompt, the probability of `yes` as the next token against that of `no`. What
  /// neighbouring prompts have in common at their beginning is computed once. Throws as `embed`,
  /// and what `check_wanted` throws, which is called before each prompt.
  std::vector<double> judge(const std::vector<std::vector<int32_t>>& prompts, int32_t yes,
                            int32_t no, const std::function<void()>& check_wanted);

 private:
  void check_text(const std::vector<int32_t>& tokens, const char* field) const;
  void make_room(int64_t tokens);

  std::shared_ptr<llm::FrameworkBackend> backend_;
  llm::Pooling pooling_;
  std::mutex mutex_;  // of what follows
  std::unique_ptr<llm::SequenceSession> session_;
};

}  // namespace tensora::serve
