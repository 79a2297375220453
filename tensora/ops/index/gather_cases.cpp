#include <algorithm>

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

struct Sample {
  const char* name;
  Shape data, places;
  int64_t dim;
  std::vector<double> positions;
  DType dtype = kInt64;

  int at() const {
    const int count = std::max(data.size(), 1);
    return static_cast<int>(dim < 0 ? dim + count : dim);
  }
  Input index() const { return {.sizes = places, .dtype = dtype, .values = positions}; }
};

// Where in the data an entry of the index points.
int64_t target(const Sample& sample, const Array& data, const Array& index, const Shape& at) {
  Shape to = at;
  if (to.empty()) return 0;
  to[sample.at()] = static_cast<int64_t>(index.at(at));
  return data.sizes.empty() ? 0 : data.offset(to);
}

// No place twice, so that scatter has one result.
const std::vector<Sample>& samples() {
  static const std::vector<Sample> list = {
      {"rows", {4, 3}, {2, 3}, 0, {3, 0, 1, 0, 2, 2}},
      {"columns", {2, 4}, {2, 3}, -1, {3, 0, 1, 0, 2, 1}},
      {"one column", {4, 5}, {4, 1}, 1, {3, 0, 4, 1}, kInt32},
      {"smaller", {4, 3}, {2, 2}, 0, {3, 0, 1, 2}},
      {"middle", {2, 3, 2}, {2, 2, 2}, 1, {2, 0, 1, 1, 0, 2, 1, 0}},
      {"vector", {5}, {4}, 0, {4, 1, 0, 2}},
      {"0-dim", {}, {}, 0, {0}},
      {"no places", {3, 2}, {0, 2}, 0, {}},
  };
  return list;
}

// Lines along the last dim, each place in use several times: CUDA holds their sums on the chip
// where there are more lines than multiprocessors, and each is short for its number of values.
std::vector<Sample> samples_and_lines() {
  const auto positions = [](int64_t count, int64_t length) {
    std::vector<double> result;
    for (int64_t i = 0; i < count; ++i)
      result.push_back(static_cast<double>((i * 7 + i / 13) % length));
    return result;
  };
  std::vector<Sample> all = samples();
  const Sample lines[] = {
      {"many lines", {200, 40}, {200, 600}, 1, positions(200 * 600, 40)},
      {"many lines, a few values each", {200, 64}, {200, 17}, -1, positions(200 * 17, 64)},
      {"many lines in two dims", {3, 90, 7}, {3, 90, 9}, 2, positions(3 * 90 * 9, 7), kInt32},
      {"many lines, not all of them", {200, 9}, {190, 9}, 1, positions(190 * 9, 9)},
      {"few lines", {5, 40}, {5, 70}, 1, positions(5 * 70, 40)}};
  all.insert(all.end(), std::begin(lines), std::end(lines));
  return all;
}

void add_gather(Cases& cases) {
  std::vector<Sample> all = samples_and_lines();
  all.push_back({"more than there are", {3}, {5}, 0, {2, 2, 0, 1, 2}});
  all.push_back({"repeated rows", {3, 2}, {4, 2}, 0, {1, 1, 1, 0, 1, 1, 2, 1}});
  all.push_back({"0-dim by a vector", {}, {2}, 0, {0, 0}});
  for (const Sample& sample : all)
    cases.add({.op = "gather",
               .name = sample.name,
               .inputs = {{sample.data}, sample.index()},
               .run = [=](In x) { return one(gather(x[0], sample.dim, x[1])); },
               .reference =
                   [=](Arrays x) {
                     Array result(sample.places);
                     Array::each(sample.places, [&](const Shape& at) {
                       result.at(at) = x[0][target(sample, x[0], x[1], at)];
                     });
                     return one(result);
                   },
               .dtypes = element_dtypes()});
}

Array scattered(Arrays x, const Sample& sample, double self_factor) {
  Array result = x[0];
  Array::each(sample.places, [&](const Shape& at) {
    double& place = result[target(sample, x[0], x[1], at)];
    place = place * self_factor + x[2].at(at);
  });
  return result;
}

void add_scatter(Cases& cases) {
  for (const Sample& sample : samples()) {
    cases.add({.op = "scatter",
               .name = sample.name,
               .inputs = {{sample.data}, sample.index(), {sample.places}},
               .run = [=](In x) { return one(scatter(x[0], sample.dim, x[1], x[2])); },
               .reference = [=](Arrays x) { return one(scattered(x, sample, 0)); },
               .dtypes = element_dtypes(),
               .inplace = [=](In x) { scatter_(x[0], sample.dim, x[1], x[2]); }});
    cases.add({.op = "scatter",
               .name = concat(sample.name, " a number"),
               .inputs = {{sample.data}, sample.index()},
               .run = [=](In x) { return one(scatter(x[0], sample.dim, x[1], 1)); },
               .reference =
                   [=](Arrays x) {
                     const Array inputs[] = {x[0], x[1], Array(sample.places, 1)};
                     return one(scattered(inputs, sample, 0));
                   },
               .dtypes = element_dtypes(),
               .inplace = [=](In x) { scatter_(x[0], sample.dim, x[1], 1); }});
  }
  std::vector<Sample> all = samples_and_lines();
  all.push_back({"several to one place", {3}, {5}, 0, {2, 2, 0, 1, 2}});
  all.push_back({"several to one row", {3, 2}, {4, 2}, 0, {1, 1, 1, 0, 1, 1, 2, 1}});
  for (const Sample& sample : all)
    cases.add({.op = "scatter_add",
               .name = sample.name,
               .inputs = {{sample.data}, sample.index(), {sample.places}},
               .run = [=](In x) { return one(scatter_add(x[0], sample.dim, x[1], x[2])); },
               .reference = [=](Arrays x) { return one(scattered(x, sample, 1)); },
               .inplace = [=](In x) { scatter_add_(x[0], sample.dim, x[1], x[2]); }});
  // Rounded to a half type at every step, the sums would stop at 256 or 2,048.
  const Input nowhere{.sizes = {4096}, .dtype = kInt64, .values = std::vector<double>(4096, 0)};
  const Input ones_there{.sizes = {4096}, .values = std::vector<double>(4096, 1)};
  const std::map<Mode, std::string> values_only = {{Mode::grad, "is about the sum"},
                                                   {Mode::view, "is about the sum"},
                                                   {Mode::meta, "needs values"},
                                                   {Mode::jit, "needs values"}};
  cases.add({.op = "scatter_add",
             .name = "many to one place",
             .inputs = {{.sizes = {1}, .values = {0}}, nowhere, ones_there},
             .run = [](In x) { return one(scatter_add(x[0], 0, x[1], x[2])); },
             .reference = [](Arrays) { return one(Array({1}, 4096)); },
             .inplace = [](In x) { scatter_add_(x[0], 0, x[1], x[2]); },
             .opt_out = values_only});
  cases.add({.op = "gather",
             .name = "gradient of many from one place",
             .inputs = {{{1}}, nowhere},
             .run =
                 [](In x) {
                   const Tensor leaf = x[0].detach().requires_grad_();
                   return one(grad(sum(gather(leaf, 0, x[1])), {leaf})[0]);
                 },
             .reference = [](Arrays) { return one(Array({1}, 4096)); },
             .opt_out = {{Mode::grad, "the case is a gradient itself"},
                         {Mode::view, "the result does not depend on the layout"},
                         {Mode::meta, "needs values"},
                         {Mode::jit, "gradients are not traced"}}});
  cases.add({.op = "scatter",
             .name = "a larger source",
             .inputs = {{{3, 3}}, {.sizes = {1, 2}, .dtype = kInt64, .values = {2, 0}}, {{2, 3}}},
             .run = [](In x) { return one(scatter(x[0], 0, x[1], x[2])); },
             .reference =
                 [](Arrays x) {
                   Array result = x[0];
                   result.at({2, 0}) = x[2].at({0, 0});
                   result.at({0, 1}) = x[2].at({0, 1});
                   return one(result);
                 }});
}

void add_takes(Cases& cases) {
  cases.add({.op = "take_along_dim",
             .name = "broadcast",
             .inputs = {{{3, 4}}, {.sizes = {1, 2}, .dtype = kInt64, .values = {3, 1}}},
             .run = [](In x) { return one(take_along_dim(x[0], x[1], 1)); },
             .reference =
                 [](Arrays x) {
                   Array result(Shape{3, 2});
                   Array::each({3, 2}, [&](const Shape& at) {
                     result.at(at) = x[0].at({at[0], static_cast<int64_t>(x[1][at[1]])});
                   });
                   return one(result);
                 },
             .dtypes = element_dtypes()});
  cases.add({.op = "take_along_dim",
             .name = "flattened",
             .inputs = {{{2, 3}}, {.sizes = {2, 1}, .dtype = kInt64, .values = {5, 1}}},
             .run = [](In x) { return one(take_along_dim(x[0], x[1])); },
             .reference =
                 [](Arrays x) {
                   Array result(Shape{2});
                   result.values = {x[0][5], x[0][1]};
                   return one(result);
                 },
             .dtypes = element_dtypes()});
  cases.add({.op = "take",
             .name = "matrix of positions",
             .inputs = {{{2, 3}}, {.sizes = {2, 2}, .dtype = kInt64, .values = {5, 0, -1, 2}}},
             .run = [](In x) { return one(take(x[0], x[1])); },
             .reference =
                 [](Arrays x) {
                   Array result(Shape{2, 2});
                   result.values = {x[0][5], x[0][0], x[0][5], x[0][2]};
                   return one(result);
                 },
             .dtypes = element_dtypes()});
}

}  // namespace

void gather_cases(Cases& cases) {
  add_gather(cases);
  add_scatter(cases);
  add_takes(cases);
}

}  // namespace tensora::suite
