#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tensora::llm {

/// How the next token is chosen. The steps are applied in this order: logit bias, grammar,
/// penalties, DRY, top-n-sigma, top-k, typical, top-p, min-p, XTC, temperature.
struct SamplingOptions {
  double temperature = 0.8;  // 0: always the highest logit, of equals the lowest id
  int64_t top_k = 40;        // keeps so many tokens; 0: all
  double top_p = 0.95;       // keeps the most probable tokens up to this mass; 1: off
  double min_p = 0.05;       // drops tokens less probable than this part of the highest; 0: off
  double typical_p = 1;      // keeps the tokens of most typical surprise up to this mass; 1: off
  double top_n_sigma = -1;   // keeps logits within so many deviations of the highest; <= 0: off

  double repeat_penalty = 1;     // logits of recent tokens are divided by it; 1: off
  int64_t repeat_last_n = 64;    // how many tokens are recent; -1: all of them
  double presence_penalty = 0;   // subtracted once from a recent token's logit
  double frequency_penalty = 0;  // subtracted once per occurrence

  double dry_multiplier = 0;       // of the penalty for a token that prolongs a repetition; 0: off
  double dry_base = 1.75;          // the penalty grows by this factor with every repeated token
  int64_t dry_allowed_length = 2;  // repetitions shorter than this are free
  int64_t dry_last_n = -1;         // how many tokens are looked at; -1: all of them
  /// Texts that a repetition does not reach across.
  std::vector<std::string> dry_breakers = {"\n", ":", "\"", "*"};

  double xtc_probability =
      0;  // how often all but the last of the likely tokens are dropped; 0: off
  double xtc_threshold = 0.1;  // from which probability on a token is likely

  /// 1 or 2: Mirostat takes the place of the steps from top-n-sigma to XTC. 0: off.
  int64_t mirostat = 0;
  double mirostat_tau = 5;    // the surprise aimed at, in bits
  double mirostat_eta = 0.1;  // how fast it is approached

  /// Added to the logits of these tokens; -infinity forbids one.
  std::vector<std::pair<int32_t, float>> logit_bias = {};
  std::optional<uint64_t> seed = {};  // without one, a fresh one is drawn; the sampler tells it
  /// The output must be a sentence of this grammar (GBNF), or fit this JSON schema; at most one.
  std::string grammar = {};
  std::string json_schema = {};
  bool logprobs = false;     // of the chosen token, from the model's own logits
  int64_t top_logprobs = 0;  // and of so many most probable ones, up to 20

  /// Throws unless every value is in its range; the message names field, expectation and value.
  void validate() const;
};

}  // namespace tensora::llm
