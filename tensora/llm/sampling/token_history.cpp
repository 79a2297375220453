#include "tensora/llm/sampling/token_history.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tensora/llm/tokenizer/tokenizer.h"

namespace tensora::llm {
namespace {

constexpr double kMost = std::numeric_limits<float>::max() / 4;

bool penalizes(const SamplingOptions& options) {
  return options.repeat_last_n != 0 &&
         (options.repeat_penalty != 1 || options.presence_penalty != 0 ||
          options.frequency_penalty != 0);
}

bool is_dry(const SamplingOptions& options) {
  return options.dry_multiplier > 0 && options.dry_last_n != 0;
}

}  // namespace

TokenHistory::TokenHistory(const SamplingOptions& options, int64_t vocab_size,
                           std::shared_ptr<const Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)) {
  const auto size = static_cast<size_t>(vocab_size);
  if (penalizes(options)) counts_.resize(size);
  if (is_dry(options)) longest_.resize(size);
  for (const std::string& breaker : options.dry_breakers)
    longest_breaker_ = std::max(longest_breaker_, breaker.size());
  if (is_wanted()) tokens_.reserve(4096);
}

std::span<const int32_t> TokenHistory::recent(int64_t count) const {
  const size_t size = tokens_.size();
  return std::span(tokens_).last(count < 0 ? size : std::min(size, static_cast<size_t>(count)));
}

void TokenHistory::add(int32_t token, const SamplingOptions& options) {
  if (!is_wanted()) return;
  tokens_.push_back(token);
  if (!counts_.empty()) {
    ++counts_[static_cast<size_t>(token)];
    const int64_t gone = std::ssize(tokens_) - options.repeat_last_n - 1;
    if (options.repeat_last_n > 0 && gone >= 0)
      --counts_[static_cast<size_t>(tokens_[static_cast<size_t>(gone)])];
  }
  if (!longest_.empty() && tokenizer_) note_breaker(token, options);
}

void TokenHistory::note_breaker(int32_t token, const SamplingOptions& options) {
  const size_t before = tail_.size();
  tail_ += tokenizer_->bytes_of(token);
  for (const std::string& breaker : options.dry_breakers) {
    // Only occurrences that end within the new token are new.
    const size_t from = before < breaker.size() ? 0 : before - breaker.size() + 1;
    if (tail_.find(breaker, from) != std::string::npos) after_breaker_ = tokens_.size();
  }
  if (tail_.size() >= longest_breaker_) tail_.erase(0, tail_.size() - longest_breaker_ + 1);
}

void TokenHistory::penalize(std::span<float> logits, const SamplingOptions& options) {
  if (counts_.empty()) return;
  const double repeat = options.repeat_penalty;
  const auto window = recent(options.repeat_last_n);
  for (const int32_t token : window) {
    int32_t& count = counts_[static_cast<size_t>(token)];
    if (count < 0) continue;  // seen already in this pass
    float& logit = logits[static_cast<size_t>(token)];
    const double scaled = logit <= 0 ? logit * repeat : logit / repeat;
    const double less = count * options.frequency_penalty + options.presence_penalty;
    // Extreme penalties stay finite; a token that is forbidden stays so.
    if (std::isfinite(logit)) logit = static_cast<float>(std::clamp(scaled - less, -kMost, kMost));
    count = -count;
  }
  for (const int32_t token : window) {
    int32_t& count = counts_[static_cast<size_t>(token)];
    count = std::abs(count);
  }
}

void TokenHistory::discourage_repetition(std::span<float> logits, const SamplingOptions& options) {
  if (longest_.empty()) return;
  const auto window = recent(options.dry_last_n);
  const int64_t size = std::ssize(window);
  const int64_t limit = std::min(size, std::ssize(tokens_) - static_cast<int64_t>(after_breaker_));
  if (limit < options.dry_allowed_length) return;
  const auto back = [&](int64_t i) { return window[static_cast<size_t>(size - 1 - i)]; };
  // The Z function of the sequence read backwards: matches[i] is how far the tokens that end i
  // places before the last agree with the last ones.
  matches_.assign(static_cast<size_t>(size), 0);
  for (int64_t i = 1, left = 0, right = 0; i < size; ++i) {
    int64_t n =
        i < right ? std::min<int64_t>(right - i, matches_[static_cast<size_t>(i - left)]) : 0;
    while (i + n < size && back(n) == back(i + n)) ++n;
    matches_[static_cast<size_t>(i)] = static_cast<int32_t>(n);
    if (i + n > right) {
      left = i;
      right = i + n;
    }
  }
  for (int64_t i = 1; i < size; ++i) {
    const auto length =
        static_cast<int32_t>(std::min<int64_t>(matches_[static_cast<size_t>(i)], limit));
    int32_t& longest = longest_[static_cast<size_t>(back(i - 1))];
    if (length >= options.dry_allowed_length) longest = std::max(longest, length);
  }
  for (int64_t i = 1; i < size; ++i) {
    const auto token = static_cast<size_t>(back(i - 1));
    const int32_t length = std::exchange(longest_[token], 0);
    if (length == 0) continue;
    const double growth =
        std::pow(options.dry_base, static_cast<double>(length - options.dry_allowed_length));
    logits[token] -= static_cast<float>(std::min(options.dry_multiplier * growth, kMost));
  }
}

}  // namespace tensora::llm
