#include "tensora/ops/sort/unique.h"

#include <map>

#include "tensora/ops/sort/line_cases.h"

namespace tensora::suite {
namespace {

// The slices of a matrix or of a line, as rows.
using Rows = std::vector<Line>;

bool before(const Line& a, const Line& b) { return a < b; }

ArrayList expected(const Rows& rows, bool consecutive, const Shape& inverse_sizes) {
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (!consecutive)
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t i, size_t j) { return before(rows[i], rows[j]); });
  Array inverse(inverse_sizes);
  Line counts, values;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || rows[order[i]] != rows[order[i - 1]]) {
      values.insert(values.end(), rows[order[i]].begin(), rows[order[i]].end());
      counts.push_back(0);
    }
    ++counts.back();
    inverse.values[order[i]] = static_cast<double>(counts.size() - 1);
  }
  Array output, count;
  output.values = values;
  count.values = counts;
  count.sizes = {static_cast<int64_t>(counts.size())};
  output.sizes = count.sizes;
  return {output, inverse, count};
}

const std::map<Mode, std::string>& data_dependent() {
  static const std::map<Mode, std::string> reasons = {{Mode::grad, "not differentiable"},
                                                      {Mode::meta, "the shape depends on data"},
                                                      {Mode::jit, "the shape depends on data"}};
  return reasons;
}

void add(Cases& cases, const char* name, const Shape& sizes, const Line& values = {}) {
  for (const bool consecutive : {false, true})
    cases.add({.op = consecutive ? "unique_consecutive" : "unique",
               .name = name,
               .inputs = {{.sizes = sizes, .low = 0, .high = 5, .values = values}},
               .run =
                   [=](In x) {
                     const auto [output, inverse, counts] =
                         consecutive ? unique_consecutive(x[0], true, true)
                                     : unique(x[0], true, true, true);
                     return Out{output, inverse, counts};
                   },
               .reference =
                   [=](Arrays x) {
                     Rows rows;
                     for (double v : x[0].values) rows.push_back({v});
                     return expected(rows, consecutive, sizes);
                   },
               .dtypes = {kFloat32, kFloat64, kInt64, kInt32, kUInt8, kBool, kFloat16},
               .opt_out = data_dependent(),
               .output_dtypes = {std::nullopt, kInt64, kInt64}});
}

// Where no inverse is wanted, nobody asks where the elements were.
void add_without_inverse(Cases& cases, const char* name, const Shape& sizes, double high = 5) {
  cases.add({.op = "unique",
             .name = concat("without inverse, ", name),
             .inputs = {{.sizes = sizes, .low = 0, .high = high}},
             .run =
                 [](In x) {
                   const auto [output, inverse, counts] = unique(x[0], true, false, true);
                   check(!inverse.defined(), "nobody asked for the inverse");
                   return Out{output, counts};
                 },
             .reference =
                 [](Arrays x) {
                   Rows rows;
                   for (double v : x[0].values) rows.push_back({v});
                   const ArrayList all = expected(rows, false, x[0].sizes);
                   return ArrayList{all[0], all[2]};
                 },
             .dtypes = {kFloat32, kFloat64, kInt64, kInt32, kUInt8, kBool, kFloat16},
             .opt_out = data_dependent(),
             .output_dtypes = {std::nullopt, kInt64}});
}

void add_slices(Cases& cases, const char* name, const Shape& sizes, int dim) {
  for (const bool consecutive : {false, true})
    cases.add({.op = consecutive ? "unique_consecutive" : "unique",
               .name = name,
               .inputs = {{.sizes = sizes, .low = 0, .high = 2}},
               .run =
                   [=](In x) {
                     const auto [output, inverse, counts] =
                         consecutive ? unique_consecutive(x[0], true, true, dim)
                                     : unique(x[0], true, true, true, dim);
                     return Out{output, inverse, counts};
                   },
               .reference =
                   [=](Arrays x) {
                     Rows rows(static_cast<size_t>(sizes[dim]));
                     Array::each(sizes, [&](const Shape& at) {
                       rows[static_cast<size_t>(at[dim])].push_back(x[0].at(at));
                     });
                     ArrayList all = expected(rows, consecutive, {sizes[dim]});
                     Shape result = sizes;
                     result[dim] = all[0].sizes[0];
                     Array output(result);
                     const int64_t width = sizes.numel() / std::max<int64_t>(1, sizes[dim]);
                     std::vector<int64_t> next(static_cast<size_t>(result[dim]), 0);
                     Array::each(result, [&](const Shape& at) {
                       const int64_t row = at[dim];
                       output.at(at) = all[0][row * width + next[static_cast<size_t>(row)]++];
                     });
                     all[0] = output;
                     return all;
                   },
               .dtypes = {kInt64, kFloat32, kBool},
               .opt_out = data_dependent(),
               .output_dtypes = {std::nullopt, kInt64, kInt64}});
}

}  // namespace

void unique_cases(Cases& cases) {
  add(cases, "vector", {9}, {3, 1, 1, 2, 3, 3, 0, 2, 1});
  add(cases, "matrix", {4, 7});
  add(cases, "0-dim", {});
  add(cases, "empty", {2, 0});
  add(cases, "long", {3001});
  add_without_inverse(cases, "matrix", {4, 7});
  add_without_inverse(cases, "0-dim", {});
  add_without_inverse(cases, "empty", {2, 0});
  add_without_inverse(cases, "several tiles", {3, 7001}, 200);
  add_slices(cases, "rows", {9, 2}, 0);
  add_slices(cases, "columns", {2, 9}, 1);
  add_slices(cases, "slices", {2, 7, 2}, 1);
  add_slices(cases, "no slices", {0, 3}, 0);
  cases.add({.op = "unique",
             .name = "every NaN is distinct",
             .inputs = {{.sizes = {5}, .values = {kNan, 1, kNan, 1, 0}}},
             .run = [](In x) { return one(std::get<0>(unique(x[0]))); },
             .reference =
                 [](Arrays) {
                   Array out({4});
                   out.values = {0, 1, kNan, kNan};
                   return one(out);
                 },
             .opt_out = data_dependent()});
  cases.error("unique", "slices of nothing", "has size 0", [] {
    unique(ones({3, 0}), true, false, false, 0);
  });
  cases.error("unique", "dim of a number", "has no dimensions",
              [] { unique(ones({}), true, false, false, 0); });
  cases.error("unique_consecutive", "dim out of range", "out of range",
              [] { unique_consecutive(ones({3}), false, false, 1); });
}

}  // namespace tensora::suite
