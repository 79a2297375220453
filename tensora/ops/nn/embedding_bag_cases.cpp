#include "tensora/ops/nn/embedding_bag.h"

#include <cmath>

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

struct Sample {
  const char* name;
  const char* mode;
  std::vector<double> indices, offsets;
  bool weighted = false, include_last = false;
  int64_t padding = -1;
  int64_t width = 3;
};

ArrayList bagged(Arrays x, const Sample& sample) {
  const int64_t width = sample.width, count = x[1].numel();
  const int64_t bags = x[2].numel() - sample.include_last;
  Array out(Shape{bags, width});
  for (int64_t bag = 0; bag < bags; ++bag)
    for (int64_t j = 0; j < width; ++j) {
      const auto end =
          static_cast<int64_t>(bag + 1 < x[2].numel() ? x[2][bag + 1] : static_cast<double>(count));
      double counted = 0, sum = 0, top = -HUGE_VAL;
      for (auto i = static_cast<int64_t>(x[2][bag]); i < end; ++i) {
        const auto index = static_cast<int64_t>(x[1][i]);
        if (index == sample.padding) continue;
        const double value = x[0][index * width + j];
        sum += value * (sample.weighted ? x[3][i] : 1);
        top = std::max(top, value);
        ++counted;
      }
      const std::string_view mode = sample.mode;
      out[bag * width + j] = counted == 0     ? 0
                             : mode == "max"  ? top
                             : mode == "mean" ? sum / counted
                                              : sum;
    }
  return one(out);
}

Input integers(std::vector<double> values, DType dtype = kInt64) {
  const Shape sizes{static_cast<int64_t>(values.size())};
  return {.sizes = sizes, .dtype = dtype, .values = std::move(values)};
}

void add_sample(Cases& cases, const Sample& sample) {
  std::vector<Input> inputs{
      {{6, sample.width}}, integers(sample.indices), integers(sample.offsets)};
  if (sample.weighted) inputs.push_back({{static_cast<int64_t>(sample.indices.size())}});
  cases.add({.op = "embedding_bag",
             .name = concat(sample.name, ", ", sample.mode),
             .inputs = inputs,
             .run =
                 [sample](In x) {
                   std::optional<int64_t> padding;
                   if (sample.padding >= 0) padding = sample.padding;
                   return one(embedding_bag(x[1], x[0], x[2], {}, 2, false, sample.mode, false,
                                            sample.weighted ? x[3] : Tensor(), sample.include_last,
                                            padding));
                 },
             .reference = [sample](Arrays x) { return bagged(x, sample); },
             .tolerance = 4});
}

}  // namespace

void embedding_bag_cases(Cases& cases) {
  std::vector<double> many, starts;
  for (int i = 0; i < 300; ++i) many.push_back(i * i % 6);
  for (int i = 0; i < 40; ++i) starts.push_back(i * 7);
  for (const char* mode : {"sum", "mean", "max"}) {
    add_sample(cases, {"bags", mode, {4, 0, 4, 2, 5}, {0, 2, 2, 4}});
    add_sample(cases, {"padding", mode, {4, 0, 4, 2, 5}, {0, 2, 3}, false, false, 4});
    add_sample(cases, {"last offset", mode, {4, 0, 4, 2, 5}, {0, 2, 5}, false, true});
    add_sample(cases, {"many", mode, many, starts, false, false, -1, 70});
    add_sample(cases, {"no indices", mode, {}, {0, 0}});
    add_sample(cases, {"no bags", mode, {4, 0}, {0}, false, true});
  }
  add_sample(cases, {"weighted", "sum", {4, 0, 4, 2, 5}, {0, 2, 2, 4}, true});
  add_sample(cases, {"weighted, no bags", "sum", {4, 0}, {0}, true, true});
  add_sample(cases, {"weighted with padding", "sum", {4, 0, 4, 2, 5}, {0, 2, 3}, true, false, 2});
  for (const bool ended : {false, true})
    cases.add({.op = "embedding_bag",
               .name = ended ? "matrix, last offset" : "matrix",
               .inputs = {{{6, 3}}, {.sizes = {2, 2}, .dtype = kInt64, .values = {1, 2, 2, 5}}},
               .run =
                   [ended](In x) {
                     return one(
                         embedding_bag(x[1], x[0], {}, {}, 2, false, "mean", false, {}, ended));
                   },
               .reference =
                   [](Arrays x) {
                     Array out(Shape{2, 3});
                     for (int64_t j = 0; j < 3; ++j) {
                       out[j] = (x[0][3 + j] + x[0][6 + j]) / 2;
                       out[3 + j] = (x[0][6 + j] + x[0][15 + j]) / 2;
                     }
                     return one(out);
                   },
               .tolerance = 2});
  cases.error("embedding_bag", "mode", "mode must be", [] {
    embedding_bag(tensor({1}), zeros({3, 2}), tensor({0}), {}, 2, false, "median");
  });
  cases.error("embedding_bag", "no offsets", "needs offsets", [] {
    embedding_bag(tensor({1}), zeros({3, 2}));
  });
  cases.error("embedding_bag", "first offset", "the first offset must be 0", [] {
    embedding_bag(tensor({1, 2}), zeros({3, 2}), tensor({1}));
  });
  cases.error("embedding_bag", "index", "index 3 is out of bounds", [] {
    embedding_bag(tensor({3}), zeros({3, 2}), tensor({0}));
  });
  cases.error("embedding_bag", "weights of a mean", "for the mode \"sum\" alone", [] {
    embedding_bag(tensor({1}), zeros({3, 2}), tensor({0}), {}, 2, false, "mean", false, ones({1}));
  });
}

}  // namespace tensora::suite
