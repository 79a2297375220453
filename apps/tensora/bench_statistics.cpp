#include "bench_statistics.h"

#include <algorithm>
#include <functional>
#include <random>

#include "tensora/llm/metrics.h"

namespace tensora::cli {
namespace {

constexpr int kResamples = 4000;

double median(std::vector<double> values) { return llm::percentile(std::move(values), 0.5); }

class Resampler {
 public:
  std::vector<double> draw(const std::vector<double>& values) {
    std::vector<double> out(values.size());
    for (double& one : out) one = values[random_() % values.size()];
    return out;
  }

 private:
  std::mt19937_64 random_{20};
};

Interval bootstrap(double value, const std::function<double(Resampler&)>& draw) {
  Resampler resampler;
  std::vector<double> found(kResamples);
  for (double& one : found) one = draw(resampler);
  return {value, llm::percentile(found, 0.025), llm::percentile(found, 0.975)};
}

}  // namespace

Interval median_interval(const std::vector<double>& values) {
  if (values.empty()) return {};
  return bootstrap(median(values), [&](Resampler& from) { return median(from.draw(values)); });
}

Interval paired_ratio(const std::vector<double>& first, const std::vector<double>& second) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(first.size(), second.size()); ++i)
    ratios.push_back(first[i] / second[i]);
  return median_interval(ratios);
}

Interval unpaired_ratio(const std::vector<double>& first, const std::vector<double>& second) {
  if (first.empty() || second.empty()) return {};
  return bootstrap(median(first) / median(second), [&](Resampler& from) {
    const double above = median(from.draw(first));
    return above / median(from.draw(second));
  });
}

double coefficient_of_variation(const std::vector<double>& values) {
  const llm::Spread spread = llm::spread_of(values);
  return spread.mean != 0 ? spread.deviation / spread.mean : 0;
}

std::string verdict_of(const Interval& ratio, double margin) {
  if (ratio.low > 1 + margin) return "faster";
  if (ratio.high < 1 - margin) return "slower";
  return "no difference";
}

}  // namespace tensora::cli
