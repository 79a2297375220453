#include <cmath>

#include "tensora/ops/sort/quantile.h"

#include "tensora/ops/sort/line_cases.h"

namespace tensora::suite {
namespace {

double quantile_of(Line line, double q, bool ignore_nan, const std::string& interpolation) {
  const auto is_nan = [](double v) { return std::isnan(v); };
  if (ignore_nan) line.erase(std::remove_if(line.begin(), line.end(), is_nan), line.end());
  if (line.empty() || std::any_of(line.begin(), line.end(), is_nan)) return kNan;
  std::sort(line.begin(), line.end());
  double rank = q * static_cast<double>(line.size() - 1);
  if (interpolation == "lower") rank = std::floor(rank);
  if (interpolation == "higher") rank = std::ceil(rank);
  if (interpolation == "nearest") rank = std::nearbyint(rank);
  const double below = line[static_cast<size_t>(rank)];
  const double above = line[static_cast<size_t>(std::ceil(rank))];
  const double weight = interpolation == "midpoint" ? 0.5 : rank - std::floor(rank);
  return below + weight * (above - below);
}

struct Sample {
  const char* name;
  Shape sizes;
  std::optional<int64_t> dim;
  Line q;
  const char* interpolation = "linear";
  bool one_number = false;
  Line values = {};
};

void add(Cases& cases, const Sample& s) {
  for (const bool ignore_nan : {false, true}) {
    const Input q = {.sizes = s.one_number ? Shape{} : Shape{static_cast<int64_t>(s.q.size())},
                     .values = s.q};
    Case sample{
        .op = ignore_nan ? "nanquantile" : "quantile",
        .name = s.name,
        .inputs = {{.sizes = s.sizes, .values = s.values}, q},
        .run =
            [=](In x) {
              return one(ignore_nan ? nanquantile(x[0], x[1], s.dim, false, s.interpolation)
                                    : quantile(x[0], x[1], s.dim, false, s.interpolation));
            },
        .reference =
            [=](Arrays x) {
              Array flat({x[0].numel()});
              flat.values = x[0].values;
              Shape kept;
              if (s.dim)
                for (int d = 0; d < s.sizes.size(); ++d)
                  if (d != *s.dim) kept.push_back(s.sizes[d]);
              Array result;
              for (double value : x[1].values) {
                const Array part =
                    map_lines(s.dim ? x[0] : flat, s.dim.value_or(0), 1, [&](const Line& line) {
                      return Line{quantile_of(line, value, ignore_nan, s.interpolation)};
                    });
                result.values.insert(result.values.end(), part.values.begin(), part.values.end());
              }
              if (!s.one_number) kept.insert(0, static_cast<int64_t>(s.q.size()));
              result.sizes = kept;
              return one(result);
            },
        .dtypes = {kFloat32, kFloat64},
        .tolerance = 4,
        .grad_inputs = std::vector<int>{0},
        .opt_out = {{Mode::jit, "checks the values of q"}}};
    if (!s.values.empty()) sample.opt_out[Mode::grad] = "NaN";
    cases.add(sample);
  }
}

ArrayList mode_reference(const Array& x, int64_t dim) {
  return chosen_of_lines(x, dim, 1, [](const Line& line) {
    const auto order = ordered(line, false);
    const auto at = [&](size_t i) { return line[static_cast<size_t>(order[i])]; };
    size_t best = 0, best_length = 0;
    for (size_t i = 0; i < order.size();) {
      size_t end = i + 1;
      while (end < order.size() && at(end) == at(i)) ++end;
      if (end - i > best_length) best = end - 1, best_length = end - i;
      i = end;
    }
    return std::vector<int64_t>{order[best]};
  });
}

void add_modes(Cases& cases) {
  const auto add_mode = [&](const char* name, const Shape& sizes, int64_t dim, const Line& values) {
    cases.add({.op = "mode",
               .name = name,
               .inputs = {{.sizes = sizes, .low = 0, .high = 4, .values = values}},
               .run =
                   [=](In x) {
                     const auto [value, index] = mode(x[0], dim, true);
                     return Out{value, index};
                   },
               .reference = [=](Arrays x) { return mode_reference(x[0], dim); },
               .dtypes = values.empty() ? all_dtypes() : floating_dtypes(),
               .opt_out = {{Mode::grad, "a step makes another element the most frequent"}},
               .output_dtypes = {std::nullopt, kInt64}});
  };
  add_mode("rows", {3, 9}, 1, {});
  add_mode("columns", {20, 3}, 0, {});
  add_mode("0-dim", {}, 0, {});
  add_mode("NaN", {2, 4}, 1, {1, kNan, kNan, 1, kNan, kNan, 3, 2});
}

}  // namespace

void quantile_cases(Cases& cases) {
  add(cases, {"all elements", {3, 5}, {}, {0.3}, "linear", true});
  add(cases, {"rows", {3, 5}, 1, {0, 0.25, 0.6, 1}});
  add(cases, {"columns, lower", {6, 3}, 0, {0.1, 0.5}, "lower"});
  add(cases, {"middle, higher", {2, 4, 3}, 1, {0.5}, "higher"});
  add(cases, {"nearest", {2, 4}, 1, {0.5, 0.2}, "nearest"});
  add(cases, {"nearest of a rank just above a half", {6}, 0, {0.1, 0.5, 1}, "nearest"});
  add(cases, {"midpoint", {2, 4}, 1, {0.4, 1}, "midpoint"});
  add(cases, {"0-dim", {}, {}, {0.4}, "linear", true});
  add(cases,
      {"NaN", {3, 3}, 1, {0.5, 0.9}, "linear", false, {1, kNan, 2, kNan, kNan, kNan, 3, 2, 1}});
  add_modes(cases);
  cases.error("quantile", "q too large", "q must be in the range [0, 1], got 1.5",
              [] { quantile(ones({3}), 1.5); });
  cases.error("quantile", "q out of range", "q must be in the range",
              [] { quantile(ones({3}), full({2}, -1.)); });
  cases.error("quantile", "integers", "must be float32 or float64",
              [] { quantile(ones({3}, {.dtype = kInt64}), 0.5); });
  cases.error("quantile", "of nothing", "must not be empty", [] { quantile(ones({0}), 0.5); });
  cases.error("nanquantile", "unknown interpolation", "interpolation must be one of",
              [] { nanquantile(ones({3}), 0.5, {}, false, "cubic"); });
  cases.error("mode", "of nothing", "has size 0", [] { mode(ones({3, 0}), 1); });
}

}  // namespace tensora::suite
