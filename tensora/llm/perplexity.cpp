#include "tensora/llm/perplexity.h"

#include <algorithm>
#include <cmath>

#include "tensora/ops.h"

namespace tensora::llm {
namespace {

struct Sums {
  double surprise = 0, squares = 0;
  int64_t count = 0;

  void add(double value) {
    surprise += value;
    squares += value * value;
    ++count;
  }
  PerplexityResult result() const {
    const auto n = static_cast<double>(count);
    const double mean = surprise / n;
    const double variance = count > 1 ? std::max(0., (squares / n - mean * mean) / (n - 1)) : 0;
    const double value = std::exp(mean);
    return {value, value * std::sqrt(variance), mean / std::log(2.), count};
  }
};

double surprise_of(const float* logits, int64_t vocabulary, int32_t token) {
  const float highest = *std::max_element(logits, logits + vocabulary);
  double sum = 0;
  for (int64_t i = 0; i < vocabulary; ++i)
    sum += std::exp(static_cast<double>(logits[i] - highest));
  return std::log(sum) + highest - logits[token];
}

// Reads one part; the tokens from `counted` on count.
void read_part(SequenceSession& session, std::span<const int32_t> part, int64_t counted,
               Sums& sums) {
  session.clear();
  const auto size = static_cast<int64_t>(part.size());
  for (int64_t at = 0; at + 1 < size;) {
    const int64_t count = std::min(session.options().max_batch_tokens, size - 1 - at);
    const SequenceSession::Part piece{
        0, part.subspan(static_cast<size_t>(at), static_cast<size_t>(count))};
    const bool is_wanted = at + count >= counted;
    const Tensor logits = session.forward(
        {&piece, 1}, is_wanted ? SequenceSession::Rows::all : SequenceSession::Rows::none);
    if (is_wanted) {
      const Tensor rows = logits.cpu().contiguous();
      const int64_t vocabulary = rows.size(1);
      for (int64_t i = std::max<int64_t>(0, counted - 1 - at); i < count; ++i)
        sums.add(surprise_of(rows.data_ptr<float>() + i * vocabulary, vocabulary,
                             part[static_cast<size_t>(at + i + 1)]));
    }
    at += count;
  }
}

}  // namespace

PerplexityResult perplexity(SequenceSession& session, std::span<const int32_t> tokens,
                            const PerplexityOptions& options) {
  const auto size = static_cast<int64_t>(tokens.size());
  const int64_t context = session.options().context;
  check(context >= 2, "perplexity: expected a context of at least 2 tokens, got ", context);
  check(options.stride >= 0 && options.stride < context, "perplexity: expected a stride from 0 to ",
        context - 1, ", got ", options.stride);
  check(
      options.stride > 0 || context >= 3,
      "perplexity: expected a context of at least 3 tokens, of which the second half counts, got ",
      context);
  check(size >= context, "perplexity: the text has ", size, " tokens, fewer than the context of ",
        context);
  const int64_t stride = options.stride > 0 ? options.stride : context;
  const int64_t parts = 1 + (size - context) / stride;
  Sums sums;
  for (int64_t i = 0; i < parts; ++i) {
    const auto part = tokens.subspan(static_cast<size_t>(i * stride), static_cast<size_t>(context));
    std::vector<int32_t> copy(part.begin(), part.end());
    if (options.bos) copy[0] = *options.bos;
    const int64_t counted = options.stride == 0 ? context / 2 + 1 : i == 0 ? 1 : context - stride;
    read_part(session, copy, counted, sums);
    if (options.progress) options.progress(i + 1, parts, sums.result().perplexity);
  }
  return sums.result();
}

}  // namespace tensora::llm
