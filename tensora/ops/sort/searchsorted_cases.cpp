#include <cmath>

#include "tensora/ops/sort/searchsorted.h"

#include "tensora/ops/sort/line_cases.h"

namespace tensora::suite {
namespace {

double place_of(const Line& line, double value, bool right) {
  double place = 0;
  for (double v : line) place += std::isnan(value) || (right ? v <= value : v < value);
  return place;
}

struct Sample {
  const char* name;
  Shape sequence, input;
  bool right = false;
  Line boundaries = {}, values = {};
};

void add(Cases& cases, Sample s) {
  if (s.boundaries.empty() && s.sequence.numel() > 0) {
    const int64_t n = s.sequence.back();
    for (int64_t i = 0; i < s.sequence.numel(); ++i)
      s.boundaries.push_back(static_cast<double>(i % n / 2 * 7 % 100 / 7) - 3);
    for (auto row = s.boundaries.begin(); row != s.boundaries.end(); row += n)
      std::sort(row, row + n);
  }
  cases.add({.op = "searchsorted",
             .name = s.name,
             .inputs = {{.sizes = s.sequence, .values = s.boundaries},
                        {.sizes = s.input, .low = -5, .high = 8, .values = s.values}},
             .run = [=](In x) { return one(searchsorted(x[0], x[1], false, s.right)); },
             .reference =
                 [=](Arrays x) {
                   Array out(s.input);
                   const int64_t n = s.sequence.back();
                   const int64_t per_row =
                       s.sequence.size() == 1 ? out.numel() : std::max<int64_t>(1, s.input.back());
                   for (int64_t i = 0; i < out.numel(); ++i) {
                     const auto row = x[0].values.begin() + i / per_row * n;
                     out[i] = place_of(Line(row, row + n), x[1][i], s.right);
                   }
                   return one(out);
                 },
             .dtypes = {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kInt8},
             .output_dtype = [](DType) { return kInt64; },
             .opt_out = {{Mode::grad, "not differentiable"}}});
}

void add_isin(Cases& cases, const char* name, const Shape& elements, const Shape& tests,
              bool invert) {
  cases.add(
      {.op = "isin",
       .name = name,
       .inputs = {{.sizes = elements, .low = 0, .high = 9}, {.sizes = tests, .low = 0, .high = 9}},
       .run = [=](In x) { return one(isin(x[0], x[1], false, invert)); },
       .reference =
           [=](Arrays x) {
             Array out = x[0];
             for (double& v : out.values) {
               const auto& list = x[1].values;
               v = (std::find(list.begin(), list.end(), v) != list.end()) != invert;
             }
             return one(out);
           },
       .dtypes = {kInt64, kInt32, kUInt8, kFloat32},
       .output_dtype = [](DType) { return kBool; },
       .opt_out = {{Mode::grad, "not differentiable"}}});
}

}  // namespace

void searchsorted_cases(Cases& cases) {
  add(cases, {"vector", {9}, {5}});
  add(cases, {"right", {9}, {3, 5}, true});
  add(cases, {"rows", {2, 6}, {2, 4}});
  add(cases, {"0-dim", {4}, {}});
  add(cases, {"no boundaries", {0}, {3}});
  add(cases, {"no values", {2, 3}, {2, 0}});
  add(cases, {"many", {1000}, {3000}});
  Sample nans{"NaN", {4}, {3}, false, {-1, 0, 2, kNan}, {kNan, 0, 1}};
  add(cases, nans);
  for (size_t i = cases.samples.size() - 1; i < cases.samples.size(); ++i)
    cases.samples[i].dtypes = floating_dtypes();
  cases.add({.op = "searchsorted",
             .name = "sorter",
             .inputs = {{.sizes = {4}, .values = {5, 1, 7, 3}},
                        {.sizes = {3}, .values = {3, 8, 0}},
                        {.sizes = {4}, .dtype = kInt64, .values = {1, 3, 0, 2}}},
             .run = [](In x) { return one(searchsorted(x[0], x[1], true, false, "right", x[2])); },
             .reference =
                 [](Arrays) {
                   Array out({3});
                   out.values = {2, 4, 0};
                   return one(out);
                 },
             .dtypes = {kFloat32, kInt32},
             .output_dtype = [](DType) { return kInt32; },
             .opt_out = {{Mode::grad, "not differentiable"}}});
  cases.add({.op = "bucketize",
             .name = "matrix",
             .inputs = {{{3, 4}}, {.sizes = {3}, .values = {-2, 0, 2}}},
             .run = [](In x) { return one(bucketize(x[0], x[1])); },
             .reference =
                 [](Arrays x) {
                   Array out = x[0];
                   for (double& v : out.values) v = place_of(x[1].values, v, false);
                   return one(out);
                 },
             .dtypes = number_dtypes(),
             .output_dtype = [](DType) { return kInt64; },
             .opt_out = {{Mode::grad, "not differentiable"}}});
  cases.samples.back().dtypes = {kFloat32, kFloat64, kInt64, kInt8};
  add_isin(cases, "matrix", {3, 4}, {5}, false);
  add_isin(cases, "inverted", {7}, {2, 2}, true);
  add_isin(cases, "among none", {3}, {0}, false);
  add_isin(cases, "NaN", {5}, {4}, false);
  cases.samples.back().inputs = {{.sizes = {5}, .values = {1, kNan, kInf, 2, -kInf}},
                                 {.sizes = {4}, .values = {kNan, 2, -kInf, 1}}};
  cases.samples.back().dtypes = floating_dtypes();
  cases.error("searchsorted", "other rows", "agree with input", [] {
    searchsorted(ones({2, 3}), ones({3, 1}));
  });
  cases.error("searchsorted", "a number in a matrix", "only if sorted_sequence is 1-D", [] {
    searchsorted(ones({2, 3}), 1);
  });
  cases.error("searchsorted", "unknown side", "side must be",
              [] { searchsorted(ones({3}), 1, false, false, "up"); });
  cases.error("searchsorted", "contradiction", "right is true",
              [] { searchsorted(ones({3}), 1, false, true, "left"); });
  cases.error("searchsorted", "sorter out of range", "out of bounds", [] {
    searchsorted(ones({1}), ones({1}), false, false, {}, full({1}, 5, {.dtype = kInt64}));
  });
  cases.error("bucketize", "boundaries of a matrix", "must be 1-D", [] {
    bucketize(ones({3}), ones({2, 2}));
  });
}

}  // namespace tensora::suite
