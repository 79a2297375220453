#include "bench_equivalence.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <span>

#include "tensora/base/check.h"

namespace tensora::cli {
namespace {

constexpr double kNearTie = 0.02;  // of a row's standard deviation

// Logits of a file, a row at a time.
class Rows {
 public:
  Rows(const std::string& path, int64_t width)
      : file_(path, std::ios::binary), row_(static_cast<size_t>(width)), path_(path) {}
  std::span<const float> next() {
    file_.read(reinterpret_cast<char*>(row_.data()),
               static_cast<std::streamsize>(row_.size() * sizeof(float)));
    check(file_.good(), path_, ": the file of logits is too short");
    return row_;
  }

 private:
  std::ifstream file_;
  std::vector<float> row_;
  std::string path_;
};

double log_sum_exp(std::span<const float> row) {
  const double most = *std::ranges::max_element(row);
  double sum = 0;
  for (const float logit : row) sum += std::exp(logit - most);
  return most + std::log(sum);
}

// Of the distribution q from p: the sum of p (log p - log q).
double divergence_of(std::span<const float> p, std::span<const float> q) {
  const double p_norm = log_sum_exp(p), q_norm = log_sum_exp(q);
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double log_p = p[i] - p_norm;
    sum += std::exp(log_p) * (log_p - (q[i] - q_norm));
  }
  return std::max(sum, 0.);
}

double deviation_of(std::span<const float> row) {
  double sum = 0, squares = 0;
  for (const float logit : row) {
    sum += logit;
    squares += static_cast<double>(logit) * logit;
  }
  const auto count = static_cast<double>(row.size());
  return std::sqrt(std::max(squares / count - sum / count * (sum / count), 0.));
}

std::string failure_of(const Equivalence& found, const EquivalenceLimits& limits) {
  if (limits.relative_error > 0 && found.relative_error > limits.relative_error)
    return concat("logits differ by ", found.relative_error, " of the largest, more than ",
                  limits.relative_error);
  if (found.divergence > limits.divergence)
    return concat("the KL divergence is ", found.divergence, ", more than ", limits.divergence);
  if (found.agreement < limits.agreement)
    return concat("the most probable token is the same in ", 100 * found.agreement,
                  " % of the rows, fewer than ", 100 * limits.agreement, " %");
  return {};
}

}  // namespace

EquivalenceLimits limits_of(const std::string& precision, const std::string& cache_type) {
  const auto is_half = [](const std::string& name) {
    return name == "float16" || name == "bfloat16";
  };
  if (precision == "float32" && cache_type == "float32") return {1e-4, 1e-6, 0.99};
  if ((precision == "float32" || is_half(precision)) &&
      (cache_type == "float32" || is_half(cache_type)))
    return {0, 1e-3, 0.99};
  // Integer kernels round activations to 8 bits, each framework in its own way.
  return {0, 1e-2, 0.95};
}

nlohmann::ordered_json Equivalence::to_json() const {
  return {{"passed", failure.empty()},
          {"failure", failure},
          {"max_error", max_error},
          {"relative_error", relative_error},
          {"kl_divergence", divergence},
          {"max_kl_divergence", max_divergence},
          {"top1_agreement", agreement},
          {"near_ties", near_ties},
          {"rows", rows},
          {"first_differing_token", first_differing_token}};
}

Equivalence compare_logits(const std::string& reference, const std::string& other,
                           const std::vector<int32_t>& tokens, int64_t prompt, int64_t vocabulary,
                           const EquivalenceLimits& limits) {
  Rows first(reference, vocabulary), second(other, vocabulary);
  Equivalence found;
  const int64_t count = std::ssize(tokens);
  found.rows = count + (count - prompt);  // at once, and in decode steps
  double largest = 0, agreeing = 0;
  for (int64_t i = 0; i < found.rows; ++i) {
    const std::span<const float> p = first.next(), q = second.next();
    for (size_t j = 0; j < p.size(); ++j) {
      if (!std::isfinite(p[j]) || !std::isfinite(q[j])) {
        found.failure = concat("the logit of token ", j, " in row ", i, " is not finite");
        return found;
      }
      largest = std::max<double>(largest, std::abs(p[j]));
      found.max_error = std::max(found.max_error, std::abs(static_cast<double>(p[j]) - q[j]));
    }
    const double divergence = divergence_of(p, q);
    found.divergence += divergence / static_cast<double>(found.rows);
    found.max_divergence = std::max(found.max_divergence, divergence);
    const auto best = std::ranges::max_element(p) - p.begin();
    const auto chosen = std::ranges::max_element(q) - q.begin();
    const bool near_tie =
        best != chosen &&
        p[static_cast<size_t>(best)] - p[static_cast<size_t>(chosen)] < kNearTie * deviation_of(p);
    found.near_ties += near_tie;
    agreeing += best == chosen || near_tie;
    const int64_t token = i < count ? i : i - count + prompt, next = token + 1;
    if (next < prompt || next == count || chosen == tokens[static_cast<size_t>(next)]) continue;
    int64_t& earliest = found.first_differing_token;
    if (earliest < 0 || next - prompt < earliest) earliest = next - prompt;
  }
  found.agreement = agreeing / static_cast<double>(found.rows);
  found.relative_error = largest > 0 ? found.max_error / largest : 0;
  found.failure = failure_of(found, limits);
  return found;
}

}  // namespace tensora::cli
