#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tensora::cli {

/// How far the logits of two frameworks may lie apart.
struct EquivalenceLimits {
  double relative_error = 0;  // the largest difference over the largest logit; 0: not limited
  double divergence = 0;      // mean Kullback-Leibler divergence of the distributions
  double agreement = 0;       // share of rows whose most probable token is the same
};
/// For weights of this precision and keys and values of that dtype.
EquivalenceLimits limits_of(const std::string& precision, const std::string& cache_type);

struct Equivalence {
  double max_error = 0, relative_error = 0;
  double divergence = 0, max_divergence = 0;
  double agreement = 0;  // near-ties count as agreement; see compare_logits
  int64_t near_ties = 0, rows = 0;
  int64_t first_differing_token = -1;  // of the generated ones; -1: none
  std::string failure;                 // empty: within the limits

  nlohmann::ordered_json to_json() const;
};

/// The logits of the same tokens in two files, as BenchWorker::write_logits writes them; the tokens
/// behind the first `prompt` ones are the reference's most probable continuation. Where the most
/// probable token differs, yet the reference gives both tokens nearly the same logit (within 2 % of
/// the row's standard deviation), rounding decides: a near-tie.
Equivalence compare_logits(const std::string& reference, const std::string& other,
                           const std::vector<int32_t>& tokens, int64_t prompt, int64_t vocabulary,
                           const EquivalenceLimits& limits);

}  // namespace tensora::cli
