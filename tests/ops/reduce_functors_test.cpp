// The reductions' functors as such: however a range is cut into lanes, runs and parts, in one look
// or in two, the result is the definition's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tensora/ops/reduce/logsumexp_functors.h"
#include "tensora/ops/reduce/variance_functors.h"

namespace tensora::reductions {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class F>
typename F::Lane one_lane(const F& f, const std::vector<typename F::Value>& x, size_t begin,
                          size_t end, size_t stride = 1) {
  typename F::Lane lane = f.lane();
  for (size_t i = begin; i < end; i += stride) {
    if constexpr (F::kIndexed)
      lane = f.step(lane, x[i], static_cast<unsigned>(i));
    else
      lane = f.step(lane, x[i]);
  }
  return lane;
}

/// By `parts` runs of `lanes` interleaved lanes each.
template <class F>
typename F::Acc by_lanes(const F& f, const std::vector<typename F::Value>& x, size_t parts,
                         size_t lanes) {
  typename F::Acc acc = f.widen(f.lane());
  for (size_t p = 0; p < parts; ++p) {
    const size_t begin = x.size() * p / parts, end = x.size() * (p + 1) / parts;
    typename F::Lane joined = f.lane();
    for (size_t l = 0; l < lanes; ++l)
      joined = f.merge(joined, one_lane(f, x, begin + l, end, lanes));
    acc = f.combine(acc, f.widen(joined));
  }
  return acc;
}

/// By runs that are looked at twice.
template <class F>
typename F::Acc by_looks(const F& f, const std::vector<typename F::Value>& x, size_t parts) {
  typename F::Acc acc = f.widen(f.lane());
  for (size_t p = 0; p < parts; ++p) {
    const size_t begin = x.size() * p / parts, end = x.size() * (p + 1) / parts;
    if (begin == end) continue;
    const auto count = static_cast<double>(end - begin);
    const auto seen = one_lane(f.first_look(x[begin]), x, begin, end);
    const auto look = f.second_look(x[begin], seen, count);
    acc = f.combine(acc, f.of_run(x[begin], seen, look, one_lane(look, x, begin, end), count));
  }
  return acc;
}

template <class C>
std::vector<C> numbers(size_t n, double center, double spread) {
  std::mt19937_64 random(n);
  std::normal_distribution<double> draw(center, spread);
  std::vector<C> x(n);
  for (C& value : x) value = static_cast<C>(draw(random));
  return x;
}

struct Cut {
  size_t parts, lanes;
};
const Cut kCuts[] = {{1, 1}, {1, 8}, {3, 4}, {7, 16}};

template <class C>
void check_variance(double center, double spread, double tolerance) {
  for (const size_t n : {1, 2, 5, 100, 3001}) {
    const std::vector<C> x = numbers<C>(n, center, spread);
    double mean = 0, distance = 0;
    for (const C value : x) mean += static_cast<double>(value) / static_cast<double>(n);
    for (const C value : x) distance += (value - mean) * (value - mean);
    const Variance<C> f{{}, static_cast<double>(n), false};
    const auto expect = [&](const typename Variance<C>::Acc& acc) {
      EXPECT_NEAR(f.finish(acc) * static_cast<double>(n), distance, tolerance * distance);
      EXPECT_NEAR(f.second(acc), mean, tolerance * (std::abs(mean) + spread));
    };
    for (const Cut& cut : kCuts) {
      SCOPED_TRACE(testing::Message() << n << " in " << cut.parts << " x " << cut.lanes);
      expect(by_lanes(f, x, cut.parts, cut.lanes));
      expect(by_looks(f, x, cut.parts));
    }
  }
}

TEST(ReduceFunctors, Variance) {
  check_variance<float>(0, 1, 1e-5);
  check_variance<float>(1000, 1, 1e-5);  // far from zero
  check_variance<double>(1e6, 1, 1e-9);
}

TEST(ReduceFunctors, VarianceOfEqualElementsIsZero) {
  const Variance<float> f{{}, 999, false};
  const std::vector<float> x(1000, 0.1f);
  EXPECT_EQ(f.finish(by_lanes(f, x, 7, 8)), 0);
  EXPECT_EQ(f.finish(by_looks(f, x, 7)), 0);
}

// What distances are measured from is at first the worst it can be.
TEST(ReduceFunctors, VarianceWithAnOutlierFirst) {
  std::vector<float> x = numbers<float>(4096, 0, 1);
  x[0] = 1e6f;
  double mean = 0, distance = 0;
  for (const float value : x) mean += value / 4096.0;
  for (const float value : x) distance += (value - mean) * (value - mean);
  const Variance<float> f{{}, 1, false};
  EXPECT_NEAR(f.finish(by_lanes(f, x, 1, 1)), distance, 2e-5 * distance);
  EXPECT_NEAR(f.finish(by_lanes(f, x, 4, 8)), distance, 2e-5 * distance);
}

TEST(ReduceFunctors, VarianceThatOverflowsIsTakenAgain) {
  const std::vector<float> x = {1e25f, 2e25f, 3e25f};
  const Variance<float> f{{}, 2, true};
  EXPECT_FALSE(f.fits(by_lanes(f, x, 1, 1)));
  EXPECT_FALSE(f.fits(by_looks(f, x, 1)));
  WideVariance::Lane lane = f.wide().lane();
  for (const float value : x) lane = f.wide().step(lane, value);
  EXPECT_TRUE(f.fits(f.wide().widen(lane)));
  EXPECT_NEAR(f.finish(f.wide().widen(lane)) / 1e25, 1, 1e-6);
  EXPECT_TRUE(f.fits(by_lanes(f, {1, 2, 3}, 1, 1)));
}

TEST(ReduceFunctors, LogSumExp) {
  const LogSumExp<float> f;
  for (const double center : {0.0, 500.0, -500.0}) {
    const std::vector<float> x = numbers<float>(777, center, 3);
    double sum = 0;
    for (const float value : x) sum += std::exp(value - center);
    for (const Cut& cut : kCuts) {
      EXPECT_NEAR(f.finish(by_lanes(f, x, cut.parts, cut.lanes)), center + std::log(sum), 1e-4);
      EXPECT_NEAR(f.finish(by_looks(f, x, cut.parts)), center + std::log(sum), 1e-4);
    }
  }
  const auto infinity = static_cast<float>(kInfinity);
  for (const auto& [x, expected] :
       std::vector<std::pair<std::vector<float>, double>>{{{}, -kInfinity},
                                                          {{-infinity, -infinity}, -kInfinity},
                                                          {{-infinity, 0}, 0},
                                                          {{1, infinity, -infinity}, kInfinity}}) {
    EXPECT_EQ(f.finish(by_lanes(f, x, 2, 2)), expected);
    EXPECT_EQ(f.finish(by_looks(f, x, 2)), expected);
  }
  EXPECT_TRUE(std::isnan(f.finish(by_lanes(f, {1, NAN, 2}, 2, 2))));
}

template <bool largest>
void check_extremum(const std::vector<float>& x, double value, long index) {
  const Extremum<float, largest> best;
  const Chosen<float, largest, true> chosen;
  for (const Cut& cut : kCuts) {
    const double found = best.finish(by_lanes(best, x, cut.parts, cut.lanes));
    const auto acc = by_lanes(chosen, x, cut.parts, cut.lanes);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(found) && std::isnan(chosen.finish(acc)));
    } else {
      EXPECT_EQ(found, value);
      EXPECT_EQ(chosen.finish(acc), value);
    }
    EXPECT_EQ(chosen.second(acc), index);
  }
}

TEST(ReduceFunctors, TheFirstOfEqualExtremaIsChosen) {
  const auto infinity = static_cast<float>(kInfinity);
  check_extremum<true>({1, 5, 2, 5, 5, -1}, 5, 1);
  check_extremum<false>({1, 0, 2, 0, 0, 3}, 0, 1);
  check_extremum<true>({1, NAN, 7, NAN}, NAN, 1);
  check_extremum<false>({1, NAN, -7, NAN}, NAN, 1);
  check_extremum<true>({-infinity, -infinity}, -kInfinity, 0);
  const Extremum<long, true> integers;
  EXPECT_EQ(integers.finish(by_lanes(integers, {-5, -3}, 1, 4)), -3);
  EXPECT_EQ(integers.lane(), std::numeric_limits<long>::lowest());
}

template <bool largest>
void check_zero_extremum(const std::vector<float>& x) {
  const Extremum<float, largest> best;
  for (const Cut& cut : kCuts) {
    const float found = best.finish(by_lanes(best, x, cut.parts, cut.lanes));
    EXPECT_TRUE(found == 0 && !std::signbit(found));
  }
}

TEST(ReduceFunctors, AZeroExtremumIsNeverNegative) {
  for (unsigned signs = 0; signs < 32; ++signs) {
    std::vector<float> x;
    for (unsigned i = 0; i < 5; ++i) x.push_back(signs >> i & 1 ? -0.0f : 0.0f);
    check_zero_extremum<true>(x);
    check_zero_extremum<false>(x);
  }
}

TEST(ReduceFunctors, SumsCountsAndNorms) {
  const std::vector<float> x = {3, 0, -4, 0, 12};
  const auto value = [&](const auto& f) { return f.finish(by_lanes(f, x, 2, 2)); };
  EXPECT_EQ(value(Sum<float>{}), 11);
  EXPECT_EQ(value(Mean<float>{{}, 5}), 2.2);
  EXPECT_EQ(value(Product<float>{}), 0);
  EXPECT_EQ(value(CountNonzero<float>{}), 3);
  EXPECT_EQ(value(Truth<float, true>{}), 0);
  EXPECT_EQ(value(Truth<float, false>{}), 1);
  EXPECT_EQ(value(Norm0<float>{}), 3);
  EXPECT_EQ(value(Norm1<float>{}), 19);
  EXPECT_EQ(value(Norm2<float>{}), 13);
  EXPECT_NEAR(value(NormP<float>(3)), std::cbrt(27 + 64 + 1728), 1e-5);
  EXPECT_EQ(value(NormInf<float, true>{}), 12);
  EXPECT_EQ(value(NormInf<float, false>{}), 0);
  EXPECT_EQ(value(MinMax<float>{}), -4);
  EXPECT_EQ(NanSum<float>{}.finish(by_lanes(NanSum<float>{}, {1, NAN, 2}, 1, 2)), 3);
}

}  // namespace
}  // namespace tensora::reductions
