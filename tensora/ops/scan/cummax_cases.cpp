#include <cmath>

#include "tensora/ops/scan/cummax.h"

#include "tensora/ops/scan/logcumsumexp.h"
#include "tensora/ops/sort/line_cases.h"

namespace tensora::suite {
namespace {

struct Sample {
  const char* name;
  Shape sizes;
  int64_t dim;
  Line values = {};
};

std::vector<int64_t> running_extremum(const Line& line, bool largest) {
  std::vector<int64_t> result;
  int64_t best = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const double x = line[i], old = line[static_cast<size_t>(best)];
    if (std::isnan(x) || (largest ? x >= old : x <= old)) best = static_cast<int64_t>(i);
    result.push_back(best);
  }
  return result;
}

Line running_log_sum(const Line& line) {
  Line result;
  double largest = -kInf, sum = 0;
  for (double x : line) {
    const double next = std::isnan(x) || x > largest ? x : largest;
    sum = sum * std::exp(largest == next ? 0 : largest - next) + std::exp(x == next ? 0 : x - next);
    largest = next;
    result.push_back(largest + std::log(sum));
  }
  return result;
}

int64_t length_of(const Sample& s) {
  return s.sizes.empty() ? 1 : s.sizes[wrap_dim(s.dim, s.sizes.size(), "cummax")];
}

Case extremum_case(const Sample& s, bool largest) {
  return {.op = largest ? "cummax" : "cummin",
          .name = s.name,
          .inputs = {{.sizes = s.sizes, .values = s.values}},
          .run =
              [=](In x) {
                const auto [values, indices] = largest ? cummax(x[0], s.dim) : cummin(x[0], s.dim);
                return Out{values, indices};
              },
          .reference =
              [=](Arrays x) {
                return chosen_of_lines(x[0], s.dim, length_of(s), [=](const Line& line) {
                  return running_extremum(line, largest);
                });
              },
          .dtypes = s.values.empty() ? all_dtypes() : floating_dtypes(),
          .output_dtypes = {std::nullopt, kInt64}};
}

Case log_case(const Sample& s) {
  return {.op = "logcumsumexp",
          .name = s.name,
          .inputs = {{.sizes = s.sizes, .values = s.values}},
          .run = [=](In x) { return one(logcumsumexp(x[0], s.dim)); },
          .reference =
              [=](Arrays x) { return one(map_lines(x[0], s.dim, length_of(s), running_log_sum)); },
          .tolerance = 4};
}

}  // namespace

void cummax_cases(Cases& cases) {
  const Sample samples[] = {{"vector", {7}, 0},         {"rows", {3, 5}, 1},
                            {"columns", {5, 3}, 0},     {"middle", {2, 4, 3}, -2},
                            {"0-dim", {}, 0},           {"one element", {1}, 0},
                            {"empty lines", {3, 0}, 1}, {"no lines", {0, 3}, 1}};
  for (const Sample& s : samples) {
    for (const bool largest : {true, false}) cases.add(extremum_case(s, largest));
    cases.add(log_case(s));
  }
  const Sample special{"NaN, infinities and ties",
                       {3, 5},
                       1,
                       {1, 3, 3, 2, kNan, -kInf, -kInf, 1, kInf, 2, kNan, -0.0, 0, kInf, kNan}};
  for (const bool largest : {true, false}) cases.add(extremum_case(special, largest));
  cases.add(log_case(special));
  const size_t count = cases.samples.size();
  for (size_t i = count - 3; i < count; ++i)
    cases.samples[i].opt_out = {{Mode::grad, "ties, NaN and infinities"}};
  for (const Sample& s : {Sample{"a long vector", {70001}, 0}, Sample{"long rows", {3, 5000}, 1},
                          Sample{"long columns", {3000, 5}, 0}, Sample{"wide", {40, 700}, 0}}) {
    std::vector<Case> made = {extremum_case(s, true), extremum_case(s, false), log_case(s)};
    for (Case& sample : made) {
      sample.dtypes = {kFloat32, kFloat64};
      if (sample.op != "logcumsumexp") sample.dtypes = {kFloat32, kFloat64, kInt32, kInt64};
      sample.tolerance = 40;
      sample.opt_out = {{Mode::grad, "too many elements; the small samples have it"}};
      cases.add(sample);
    }
  }
  cases.error("cummax", "dim out of range", "out of range", [] { cummax(ones({3}), 1); });
  cases.error("cummin", "dim out of range", "out of range", [] { cummin(ones({3}), -2); });
  cases.error("logcumsumexp", "integers", "expected a floating-point dtype",
              [] { logcumsumexp(ones({3}, {.dtype = kInt64}), 0); });
}

}  // namespace tensora::suite
