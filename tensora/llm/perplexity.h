#pragma once

#include <functional>
#include <memory>
#include <span>

#include "tensora/llm/sequence_session.h"

namespace tensora::llm {

struct PerplexityOptions {
  /// Stride between windows of the session's context, in tokens. 0: windows do not overlap, and the
  /// second half of each counts, as in llama-perplexity. Otherwise every token counts once: those
  /// that no earlier window had.
  int64_t stride = 0;
  std::optional<int32_t> bos = {};  // replaces the first token of each window
  /// Called with the number of finished windows, of all windows, and the perplexity so far.
  std::function<void(int64_t done, int64_t total, double perplexity)> progress = nullptr;
};

struct PerplexityResult {
  double perplexity = 0;
  double error = 0;  // the standard error of that
  double bits_per_token = 0;
  int64_t tokens = 0;  // that counted
};

/// The perplexity of a text: the exponential of the mean negative log-likelihood per token. The
/// text is read in windows of the session's context.
PerplexityResult perplexity(SequenceSession& session, std::span<const int32_t> tokens,
                            const PerplexityOptions& options);

}  // namespace tensora::llm
