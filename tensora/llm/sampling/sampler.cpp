#include "tensora/llm/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "tensora/base/check.h"
#include "tensora/base/entropy.h"
#include "tensora/base/math.h"
#include "tensora/core/philox.h"
#include "tensora/llm/grammar/grammar_cache.h"
#include "tensora/llm/sampling/candidates.h"
#include "tensora/llm/sampling/token_history.h"
#include "tensora/ops/sampling/token_keys.h"

namespace tensora::llm {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();
constexpr float kMost = std::numeric_limits<float>::max() / 4;

// A number from [0, 1) of two random words.
double uniform(unsigned high, unsigned low) {
  return static_cast<double>((uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
}

float highest_of(std::span<const float> logits) {
  float most = kForbidden;
#pragma omp simd reduction(max : most)
  for (size_t i = 0; i < logits.size(); ++i) most = logits[i] > most ? logits[i] : most;
  return most;
}

void check_logits(std::span<const float> logits) {
  // NaN and infinity are the only values x for which x - x is not 0 and that are not -infinity.
  int wrong = 0;
#pragma omp simd reduction(| : wrong)
  for (size_t i = 0; i < logits.size(); ++i)
    wrong |= static_cast<int>(!(logits[i] <= std::numeric_limits<float>::max()));
  if (!wrong) return;
  for (size_t i = 0; i < logits.size(); ++i)
    check(logits[i] <= std::numeric_limits<float>::max(),
          "sampling: expected logits below infinity, got ", logits[i], " for token ", i);
}

// The bound of top-n-sigma: so many standard deviations below the highest logit.
float sigma_floor(std::span<const float> logits, double deviations) {
  double sum = 0, squares = 0, count = 0;
  const float most = highest_of(logits);
  for (const float logit : logits) {
    if (logit == kForbidden) continue;
    const double away = static_cast<double>(logit) - most;
    sum += away;
    squares += away * away;
    ++count;
  }
  const double variance = std::max(0.0, squares / count - (sum / count) * (sum / count));
  return static_cast<float>(most - deviations * std::sqrt(variance));
}

double log_sum_exp(std::span<const float> logits) {
  const float most = highest_of(logits);
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (size_t i = 0; i < logits.size(); ++i) sum += math::exp(logits[i] - most);
  return most + std::log(sum);
}

std::optional<GrammarMatcher> make_matcher(const SamplingOptions& options,
                                           const std::shared_ptr<const Tokenizer>& tokenizer) {
  if (options.grammar.empty() && options.json_schema.empty()) return std::nullopt;
  check(tokenizer != nullptr, "sampling: expected a tokenizer with a grammar, got none");
  return options.grammar.empty() ? cached_schema_matcher(options.json_schema, tokenizer)
                                 : cached_matcher(options.grammar, tokenizer);
}

// Whether logits are taken as they are, and only the token is asked for.
bool is_plain(const SamplingOptions& options) {
  return options.mirostat == 0 && options.repeat_penalty == 1 && options.presence_penalty == 0 &&
         options.frequency_penalty == 0 && options.dry_multiplier == 0 &&
         options.logit_bias.empty() && options.grammar.empty() && options.json_schema.empty() &&
         !options.logprobs && options.top_logprobs == 0;
}

}  // namespace

struct Sampler::State {
  State(SamplingOptions given, int64_t vocab, const std::shared_ptr<const Tokenizer>& tokenizer)
      : options(std::move(given)), vocab_size(vocab), history(options, vocab, tokenizer) {
    seed = options.seed ? *options.seed : entropy_word();
    matcher = make_matcher(options, tokenizer);
    surprise_limit = 2 * options.mirostat_tau;
  }

  void constrain(std::span<float> logits);
  void forbid_early(std::span<float> logits) const;
  Sampled describe(std::span<const float> logits, int32_t token);
  int32_t choose(std::span<const float> logits);
  int64_t mirostat_count(std::span<const float> logits);
  int32_t choose_by_mirostat(std::span<const float> logits, double random);

  SamplingOptions options;
  int64_t vocab_size;
  uint64_t seed = 0;
  uint64_t steps = 0;  // the number of random draws so far
  TokenHistory history;
  std::optional<GrammarMatcher> matcher;
  struct Early {
    int32_t token = 0;
    int64_t left = 0;  // tokens to be generated before it is allowed
  };
  std::vector<Early> early;
  double surprise_limit = 0;  // Mirostat's, in bits
  Candidates candidates;
  Candidates best;              // for top_logprobs
  std::vector<float> original;  // logits, if logprobs are asked for
};

// Bias, grammar and penalties.
void Sampler::State::constrain(std::span<float> logits) {
  for (const auto& [token, bias] : options.logit_bias) {
    float& logit = logits[static_cast<size_t>(token)];
    logit = logit == kForbidden || bias == kForbidden ? kForbidden
                                                      : std::clamp(logit + bias, -kMost, kMost);
  }
  if (matcher) matcher->mask(logits);
  if (!early.empty()) forbid_early(logits);
  history.penalize(logits, options);
  history.discourage_repetition(logits, options);
}

void Sampler::State::forbid_early(std::span<float> logits) const {
  std::vector<float> before;
  for (const Early& one : early) {
    float& logit = logits[static_cast<size_t>(one.token)];
    before.push_back(logit);
    logit = kForbidden;
  }
  if (!matcher || highest_of(logits) > kForbidden) return;
  // Backwards: a token that is listed twice gets its first value.
  for (size_t i = early.size(); i-- > 0;) logits[static_cast<size_t>(early[i].token)] = before[i];
}

// Where `logits` are the model's own.
Sampled Sampler::State::describe(std::span<const float> logits, int32_t token) {
  const double total = log_sum_exp(logits);
  const auto logprob = [&](int32_t one) {
    return static_cast<float>(logits[static_cast<size_t>(one)] - total);
  };
  Sampled out{.token = token, .logprob = logprob(token)};
  if (options.top_logprobs == 0) return out;
  best.select(logits, options.top_logprobs, kForbidden);
  for (int64_t i = 0; i < best.size(); ++i)
    out.top.push_back({best.token(i), logprob(best.token(i))});
  return out;
}

int32_t Sampler::State::choose(std::span<const float> logits) {
  const float most = highest_of(logits);
  check(most > kForbidden, "sampling: expected a token that is allowed, got none: the grammar or ",
        "logit_bias forbids all tokens of the vocabulary");
  if (options.temperature == 0)
    return static_cast<int32_t>(std::find(logits.begin(), logits.end(), most) - logits.begin());
  const PhiloxWords words = philox(seed, steps++);
  const double random = uniform(words.word[0], words.word[1]);
  if (options.mirostat != 0) return choose_by_mirostat(logits, random);

  candidates.select(
      logits, options.top_k,
      options.top_n_sigma > 0 ? sigma_floor(logits, options.top_n_sigma) : kForbidden);
  if (options.typical_p < 1) candidates.typical(options.typical_p);
  if (options.top_p < 1) candidates.top_p(options.top_p);
  if (options.min_p > 0) candidates.min_p(options.min_p);
  if (uniform(words.word[2], words.word[3]) < options.xtc_probability)
    candidates.drop_likely(options.xtc_threshold);
  candidates.scale(1 / options.temperature);
  return candidates.draw(random);
}

// Estimates from the first hundred tokens how fast probabilities fall with rank, as a power of it,
// and from that how many tokens stay below the limit of surprise.
int64_t Sampler::State::mirostat_count(std::span<const float> logits) {
  constexpr int64_t kRanks = 100;
  candidates.select(logits, kRanks, kForbidden);
  double products = 0, squares = 0;
  for (int64_t i = 0; i + 1 < candidates.size(); ++i) {
    const double rank = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    const double fall = static_cast<double>(candidates.logit(i)) - candidates.logit(i + 1);
    products += rank * fall / options.temperature;
    squares += rank * rank;
  }
  const double exponent = products / squares, excess = exponent - 1;
  const double size = static_cast<double>(vocab_size);
  const double count =
      std::pow(excess * std::exp2(surprise_limit) / (1 - std::pow(size, -excess)), 1 / exponent);
  // A flat distribution has no exponent; then nothing is cut off.
  return std::isfinite(count) ? static_cast<int64_t>(std::clamp(count, 1.0, size)) : vocab_size;
}

// Keeps the surprise of the chosen tokens near a target by moving the limit of what may be chosen.
int32_t Sampler::State::choose_by_mirostat(std::span<const float> logits, double random) {
  const double colder = 1 / options.temperature;
  if (options.mirostat == 2) {
    candidates.select(logits, 0, kForbidden);
    candidates.scale(colder);
    candidates.limit_surprise(surprise_limit);
  } else {
    candidates.select(logits, mirostat_count(logits), kForbidden);
    candidates.scale(colder);
  }
  const int32_t token = candidates.draw(random);
  const double surprise = -std::log2(std::max(candidates.probability(token), 1e-300));
  surprise_limit -= options.mirostat_eta * (surprise - options.mirostat_tau);
  return token;
}

Sampler::Sampler(SamplingOptions options, int64_t vocab_size,
                 std::shared_ptr<const Tokenizer> tokenizer) {
  options.validate();
  check(vocab_size > 0 && vocab_size <= kMostTokens,
        "sampling: expected a vocabulary of 1 to 2^23 tokens, got ", vocab_size);
  for (const auto& [token, bias] : options.logit_bias)
    check(token < vocab_size, "sampling: logit_bias must name tokens below ", vocab_size,
          ", got token ", token);
  state_ = std::make_unique<State>(std::move(options), vocab_size, tokenizer);
}

Sampler::Sampler(std::unique_ptr<State> state) : state_(std::move(state)) {}
Sampler::Sampler(Sampler&&) noexcept = default;
Sampler& Sampler::operator=(Sampler&&) noexcept = default;
Sampler::~Sampler() = default;

Sampled Sampler::sample(std::span<float> logits) {
  State& state = *state_;
  check(std::ssize(logits) == state.vocab_size, "sampling: expected ", state.vocab_size,
        " logits, one per token, got ", logits.size());
  check_logits(logits);
  const bool logprobs = state.options.logprobs || state.options.top_logprobs > 0;
  if (logprobs) state.original.assign(logits.begin(), logits.end());
  state.constrain(logits);
  const int32_t token = state.choose(logits);
  if (!logprobs) return {.token = token, .logprob = std::numeric_limits<float>::quiet_NaN()};
  return state.describe(state.original, token);
}

Sampled Sampler::score(std::span<const float> logits, int32_t token) {
  check(std::ssize(logits) == state_->vocab_size, "sampling: expected ", state_->vocab_size,
        " logits, one per token, got ", logits.size());
  check_logits(logits);
  return state_->describe(logits, token);
}

void Sampler::forbid_until(int64_t count, std::vector<int32_t> tokens) {
  for (const int32_t token : tokens) {
    check(token >= 0 && token < state_->vocab_size, "sampling: expected a token below ",
          state_->vocab_size, ", got ", token);
    if (count > 0) state_->early.push_back({token, count});
  }
}

std::optional<TokenChoice> Sampler::choice(int64_t later) const {
  const SamplingOptions& options = state_->options;
  if (!is_plain(options) || !state_->early.empty()) return std::nullopt;
  if (options.temperature == 0) return TokenChoice();
  const bool has_steps = options.top_k >= 1 && options.top_k <= kMostTopK &&
                         options.typical_p == 1 && options.top_n_sigma <= 0 &&
                         options.xtc_probability == 0;
  if (!has_steps) return std::nullopt;
  return TokenChoice{.temperature = options.temperature,
                     .top_p = options.top_p,
                     .min_p = options.min_p,
                     .top_k = options.top_k,
                     .seed = static_cast<int64_t>(state_->seed),
                     .draw = static_cast<int64_t>(state_->steps) + later};
}

void Sampler::count_choice() {
  if (state_->options.temperature != 0) ++state_->steps;
}

void Sampler::accept(int32_t token) {
  if (state_->matcher) state_->matcher->accept(token);
  std::erase_if(state_->early, [](State::Early& one) { return --one.left == 0; });
  accept_prompt(std::span(&token, 1));
}

void Sampler::accept_prompt(std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) {
    check(token >= 0 && token < state_->vocab_size, "sampling: expected a token below ",
          state_->vocab_size, ", got ", token);
    state_->history.add(token, state_->options);
  }
}

bool Sampler::may_end() const { return !state_->matcher || state_->matcher->may_end(); }
uint64_t Sampler::seed() const { return state_->seed; }
const SamplingOptions& Sampler::options() const { return state_->options; }
Sampler Sampler::clone() const { return Sampler(std::make_unique<State>(*state_)); }

}  // namespace tensora::llm
