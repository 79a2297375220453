#include "tensora/ops/sort/bincount.h"

#include "tensora/ops/sort/line_cases.h"

namespace tensora::suite {
namespace {

const std::map<Mode, std::string>& data_dependent() {
  static const std::map<Mode, std::string> reasons = {
      {Mode::grad, "not differentiable"},
      {Mode::meta, "the shape or the range depends on data"},
      {Mode::jit, "the shape or the range depends on data"}};
  return reasons;
}

void add_bincounts(Cases& cases) {
  const auto add = [&](const char* name, const Shape& sizes, const Line& values,
                       int64_t minlength) {
    cases.add({.op = "bincount",
               .name = name,
               .inputs = {{.sizes = sizes, .values = values}},
               .run = [=](In x) { return one(bincount(x[0], {}, minlength)); },
               .reference =
                   [=](Arrays x) {
                     double most = static_cast<double>(minlength) - 1;
                     for (double v : x[0].values) most = std::max(most, v);
                     Array out({static_cast<int64_t>(most) + 1});
                     for (double v : x[0].values) ++out[static_cast<int64_t>(v)];
                     return one(out);
                   },
               .dtypes = integer_dtypes(),
               .output_dtype = [](DType) { return kInt64; },
               .opt_out = data_dependent()});
  };
  add("vector", {6}, {1, 1, 3, 0, 3, 3}, 0);
  add("minlength", {3}, {1, 0, 1}, 5);
  add("empty", {0}, {}, 3);
  Line many;
  for (int64_t i = 0; i < 200001; ++i) many.push_back(static_cast<double>(i * 7919 % 101));
  add("on all threads", {200001}, many, 0);
  cases.samples.back().dtypes = {kInt64, kUInt8};
  cases.add({.op = "bincount",
             .name = "weights on all threads",
             .inputs = {{.sizes = {200001}, .dtype = kInt64, .values = many}, {{200001}}},
             .run = [](In x) { return one(bincount(x[0], x[1], 5000)); },
             .reference =
                 [](Arrays x) {
                   Array out({5000});
                   for (int64_t i = 0; i < 200001; ++i)
                     out[static_cast<int64_t>(x[0][i])] += x[1][i];
                   return one(out);
                 },
             .dtypes = {kFloat64},
             .tolerance = 100,
             .opt_out = data_dependent()});
  cases.add({.op = "bincount",
             .name = "weights",
             .inputs = {{.sizes = {4}, .dtype = kInt64, .values = {2, 0, 2, 2}}, {{4}}},
             .run = [](In x) { return one(bincount(x[0], x[1])); },
             .reference =
                 [](Arrays x) {
                   Array out({3});
                   for (int64_t i = 0; i < 4; ++i) out[static_cast<int64_t>(x[0][i])] += x[1][i];
                   return one(out);
                 },
             .dtypes = {kFloat32, kFloat64, kInt32},
             .output_dtype = [](DType d) { return d == kFloat32 ? kFloat32 : kFloat64; },
             .opt_out = data_dependent()});
}

void add_histograms(Cases& cases) {
  const Line values = {1, 2, 1, kNan, -1, 0, 3, 0.5, 2.9, 3.5};
  cases.add({.op = "histc",
             .name = "range, NaN",
             .inputs = {{.sizes = {2, 5}, .values = values}},
             .run = [](In x) { return one(histc(x[0], 4, -1, 3)); },
             .reference =
                 [](Arrays) {
                   Array out({4});
                   out.values = {1, 2, 2, 3};
                   return one(out);
                 },
             .opt_out = data_dependent()});
  cases.add({.op = "histc",
             .name = "on all threads",
             .inputs = {{.sizes = {150001}, .low = 0, .high = 10}},
             .run = [](In x) { return one(histc(x[0], 7, 1, 9)); },
             .reference =
                 [](Arrays x) {
                   Array out({7});
                   for (double v : x[0].values)
                     if (v >= 1 && v <= 9)
                       ++out[std::min<int64_t>(6, static_cast<int64_t>((v - 1) * 7 / 8))];
                   return one(out);
                 },
             .dtypes = {kFloat64},
             .opt_out = data_dependent()});
  cases.add({.op = "histc",
             .name = "all",
             .inputs = {{.sizes = {5}, .values = {1, 3, 2, 5, 5}}},
             .run = [](In x) { return one(histc(x[0], 2)); },
             .reference =
                 [](Arrays) {
                   Array out({2});
                   out.values = {2, 3};
                   return one(out);
                 },
             .opt_out = data_dependent()});
}

void add_edges(Cases& cases) {
  cases.add({.op = "histogram",
             .name = "edges and weights",
             .inputs = {{.sizes = {6}, .values = {1, 2, 1, 4, 0, -1}},
                        {.sizes = {4}, .values = {0, 1, 2, 4}},
                        {.sizes = {6}, .values = {1, 2, 3, 4, 5, 6}}},
             .run =
                 [](In x) {
                   const auto [hist, edges] = histogram(x[0], x[1], x[2]);
                   return Out{hist, edges};
                 },
             .reference =
                 [](Arrays x) {
                   Array out({3});
                   out.values = {5, 4, 6};
                   return ArrayList{out, x[1]};
                 },
             .opt_out = data_dependent()});
  cases.add({.op = "histogram",
             .name = "density",
             .inputs = {{.sizes = {3}, .values = {1, 2, 1}}},
             .run =
                 [](In x) {
                   const auto [hist, edges] = histogram(x[0], 4, std::pair(0., 4.), {}, true);
                   return Out{hist, edges};
                 },
             .reference =
                 [](Arrays) {
                   Array out({4}), edges({5});
                   out.values = {0, 2. / 3, 1. / 3, 0};
                   edges.values = {0, 1, 2, 3, 4};
                   return ArrayList{out, edges};
                 },
             .opt_out = data_dependent()});
}

}  // namespace

void bincount_cases(Cases& cases) {
  add_bincounts(cases);
  add_histograms(cases);
  add_edges(cases);
  cases.error("bincount", "negative", "not negative, got -1",
              [] { bincount(full({2}, -1, {.dtype = kInt64})); });
  cases.error("bincount", "floats", "1-D tensor of integers", [] { bincount(ones({2})); });
  cases.error("bincount", "minlength below 0", "minlength must not be negative",
              [] { bincount(ones({2}, {.dtype = kInt64}), {}, -1); });
  cases.error("bincount", "short weights", "as long as self",
              [] { bincount(ones({2}, {.dtype = kInt64}), ones({1})); });
  cases.error("histc", "no bins", "bins must be positive", [] { histc(ones({2}), 0); });
  cases.error("histc", "max below min", "max must not be smaller",
              [] { histc(ones({2}), 2, 3, 1); });
  cases.error("histc", "NaN without a range", "is not finite", [] { histc(full({2}, kNan)); });
  cases.error("histogram", "no bins", "bins must be positive", [] { histogram(ones({2}), 0); });
}

}  // namespace tensora::suite
