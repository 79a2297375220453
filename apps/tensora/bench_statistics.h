#pragma once

#include <string>
#include <vector>

namespace tensora::cli {

/// A figure and its 95 % confidence interval.
struct Interval {
  double value = 0, low = 0, high = 0;
};

/// The median, with the interval of a percentile bootstrap. The same every time: the resampling has
/// a fixed seed.
Interval median_interval(const std::vector<double>& values);
/// The median of first[i] / second[i]: for samples that were taken in turns, whose drift cancels.
Interval paired_ratio(const std::vector<double>& first, const std::vector<double>& second);
/// The ratio of the medians of samples that have nothing to do with one another.
Interval unpaired_ratio(const std::vector<double>& first, const std::vector<double>& second);
/// Standard deviation over mean.
double coefficient_of_variation(const std::vector<double>& values);

/// "faster" or "slower" where the whole interval of a ratio of speeds lies beyond 1 ± margin, else
/// "no difference".
std::string verdict_of(const Interval& ratio, double margin);

}  // namespace tensora::cli
