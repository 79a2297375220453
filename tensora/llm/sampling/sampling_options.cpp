#include "tensora/llm/sampling/sampling_options.h"

#include <cmath>
#include <limits>

#include "tensora/base/check.h"

namespace tensora::llm {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Range {
  double from, to;
  const char* words;
};

// NaN is in no range, and infinity only where a range says so.
void check_range(const char* field, double value, const Range& range) {
  check(value >= range.from && value <= range.to && std::isfinite(value), "sampling: ", field,
        " must be ", range.words, ", got ", value);
}

constexpr double kMost = std::numeric_limits<float>::max();
constexpr Range kPart = {0, 1, "between 0 and 1"};
constexpr Range kNotNegative = {0, kMost, "a number that is not negative"};
constexpr Range kCount = {0, 9.2e18, "a count that is not negative"};
constexpr Range kWindow = {-1, 9.2e18, "a number of tokens, or -1 for all"};

}  // namespace

void SamplingOptions::validate() const {
  check_range("temperature", temperature, kNotNegative);
  check_range("top_k", static_cast<double>(top_k), kCount);
  check_range("top_p", top_p, kPart);
  check_range("min_p", min_p, kPart);
  check_range("typical_p", typical_p, kPart);
  check_range("top_n_sigma", top_n_sigma, {-kMost, kMost, "a finite number"});
  check_range("repeat_penalty", repeat_penalty,
              {std::numeric_limits<float>::min(), kMost, "a positive number"});
  check_range("repeat_last_n", static_cast<double>(repeat_last_n), kWindow);
  check_range("presence_penalty", presence_penalty, {-kMost, kMost, "a finite number"});
  check_range("frequency_penalty", frequency_penalty, {-kMost, kMost, "a finite number"});
  check_range("dry_multiplier", dry_multiplier, kNotNegative);
  check_range("dry_base", dry_base, {1, kMost, "a number from 1 on"});
  check_range("dry_allowed_length", static_cast<double>(dry_allowed_length),
              {1, 9.2e18, "a length from 1 on"});
  check_range("dry_last_n", static_cast<double>(dry_last_n), kWindow);
  for (const std::string& breaker : dry_breakers)
    check(!breaker.empty(), "sampling: dry_breakers must be texts, got an empty one");
  check_range("xtc_probability", xtc_probability, kPart);
  check_range("xtc_threshold", xtc_threshold, kPart);
  check_range("mirostat", static_cast<double>(mirostat), {0, 2, "0 (off), 1 or 2"});
  check_range("mirostat_tau", mirostat_tau, kNotNegative);
  check_range("mirostat_eta", mirostat_eta, kNotNegative);
  for (const auto& [token, bias] : logit_bias) {
    check(token >= 0, "sampling: logit_bias must name tokens, got token ", token);
    check(std::isfinite(bias) || bias == -static_cast<float>(kInfinity),
          "sampling: logit_bias of token ", token, " must be finite or -infinity, got ", bias);
  }
  check(grammar.empty() || json_schema.empty(),
        "sampling: expected grammar or json_schema, got both");
  check_range("top_logprobs", static_cast<double>(top_logprobs),
              {0, 20, "a count between 0 and 20"});
}

}  // namespace tensora::llm
