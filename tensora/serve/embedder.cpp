#include "tensora/serve/embedder.h"

#include <algorithm>

#include "tensora/base/check.h"
#include "tensora/serve/api_error.h"

namespace tensora::serve {

Embedder::Embedder(std::shared_ptr<llm::FrameworkBackend> backend, const llm::EmbedOptions& options)
    : backend_(std::move(backend)), options_(options) {}

std::vector<float> Embedder::embed(const std::vector<int32_t>& tokens) {
  if (tokens.empty()) throw ApiError(400, "input: a text has no tokens", "input");
  const auto size = static_cast<int64_t>(tokens.size());
  const int64_t most = backend_->context();
  if (size > most)
    throw ApiError(
        400, concat("input: a text has ", size, " tokens, but the context has room for ", most),
        "input", "context_length_exceeded");
  const int64_t vocabulary = backend_->model_info().config.vocab_size;
  for (const int32_t token : tokens)
    if (token < 0 || token >= vocabulary)
      throw ApiError(400,
                     concat("input: expected tokens from 0 to ", vocabulary - 1, ", got ", token),
                     "input");
  const std::lock_guard lock(mutex_);
  if (!session_ || session_->options().context < size) {
    session_.reset();
    int64_t context = 512;
    while (context < size) context *= 2;
    session_ = backend_->open_sequences({.context = std::min(context, most)});
  }
  return llm::embed(*session_, tokens, options_);
}

}  // namespace tensora::serve
