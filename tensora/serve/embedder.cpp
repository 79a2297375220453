#include "tensora/serve/embedder.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "tensora/base/check.h"
#include "tensora/ops.h"
#include "tensora/serve/api_error.h"

namespace tensora::serve {

void shorten(std::vector<float>& vector, size_t dimensions) {
  if (vector.size() <= dimensions) return;
  vector.resize(dimensions);
  double squares = 0;
  for (const float value : vector) squares += static_cast<double>(value) * value;
  const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
  for (float& value : vector) value = static_cast<float>(value * scale);
}

Embedder::Embedder(std::shared_ptr<llm::FrameworkBackend> backend, llm::Pooling pooling)
    : backend_(std::move(backend)), pooling_(pooling) {}

void Embedder::check_text(const std::vector<int32_t>& tokens, const char* field) const {
  if (tokens.empty()) throw ApiError(400, concat(field, ": a text has no tokens"), field);
  const auto size = static_cast<int64_t>(tokens.size());
  const int64_t most = backend_->context();
  if (size > most)
    throw ApiError(
        400, concat(field, ": a text has ", size, " tokens, but the context has room for ", most),
        field, "context_length_exceeded");
  const int64_t vocabulary = backend_->model_info().config.vocab_size;
  for (const int32_t token : tokens)
    if (token < 0 || token >= vocabulary)
      throw ApiError(400,
                     concat(field, ": expected tokens from 0 to ", vocabulary - 1, ", got ", token),
                     field);
}

// Call under the lock.
void Embedder::make_room(int64_t tokens) {
  if (session_ && session_->options().context >= tokens) return;
  session_.reset();
  int64_t context = 512;
  while (context < tokens) context *= 2;
  session_ = backend_->open_sequences({.context = std::min(context, backend_->context())});
}

std::vector<float> Embedder::embed(const std::vector<int32_t>& tokens) {
  if (pooling_ == llm::Pooling::rank)
    throw ApiError(400, "the model ranks documents and has no embeddings", "model",
                   "not_supported");
  check_text(tokens, "input");
  const std::lock_guard lock(mutex_);
  make_room(static_cast<int64_t>(tokens.size()));
  return llm::embed(*session_, tokens, {.pooling = pooling_});
}

std::vector<double> Embedder::judge(const std::vector<std::vector<int32_t>>& prompts, int32_t yes,
                                    int32_t no, const std::function<void()>& check_wanted) {
  size_t longest = 0;
  for (const std::vector<int32_t>& prompt : prompts) {
    check_text(prompt, "documents");
    longest = std::max(longest, prompt.size());
  }
  const std::lock_guard lock(mutex_);
  make_room(static_cast<int64_t>(longest));
  session_->clear();  // of what others have asked
  std::vector<double> scores;
  std::span<const int32_t> held;
  for (const std::vector<int32_t>& prompt : prompts) {
    check_wanted();
    const auto [here, there] = std::ranges::mismatch(held, prompt);
    // At least one token is computed: its logits are the answer.
    const auto common = std::min<int64_t>(there - prompt.begin(), std::ssize(prompt) - 1);
    session_->truncate(0, common);
    const Tensor logits = session_->read(0, std::span(prompt).subspan(static_cast<size_t>(common)))
                              .cpu()
                              .contiguous()
                              .view({-1});
    const auto* values = logits.data_ptr<float>();
    scores.push_back(1 / (1 + std::exp(double{values[no]} - double{values[yes]})));
    held = prompt;
  }
  return scores;
}

}  // namespace tensora::serve
