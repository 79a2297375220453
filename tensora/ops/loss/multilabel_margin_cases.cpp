#include "tensora/ops/loss/multilabel_margin.h"

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

Array losses_of(Arrays x) {
  const bool batched = x[0].sizes.size() == 2;
  const int64_t rows = batched ? x[0].sizes[0] : 1,
                classes = x[0].numel() / std::max<int64_t>(1, rows);
  Array out(batched ? Shape{rows} : Shape{});
  for (int64_t n = 0; n < rows; ++n) {
    const auto listed = [&](int64_t i) { return static_cast<int64_t>(x[1][n * classes + i]); };
    std::vector<int64_t> targets;
    for (int64_t i = 0; i < classes && listed(i) >= 0; ++i) targets.push_back(listed(i));
    for (int64_t i = 0; i < classes; ++i) {
      if (std::find(targets.begin(), targets.end(), i) != targets.end()) continue;
      for (int64_t y : targets)
        out[n] += std::max(0.0, 1 - x[0][n * classes + y] + x[0][n * classes + i]) /
                  static_cast<double>(classes);
    }
  }
  return out;
}

}  // namespace

void multilabel_margin_cases(Cases& cases) {
  struct Sample {
    const char* name;
    Shape sizes;
    std::vector<double> targets;
  };
  std::vector<double> many;
  for (int i = 0; i < 3 * 300; ++i) many.push_back(i % 300 < 20 ? i * 7 % 300 : -1);
  const Sample samples[] = {{"rows", {3, 4}, {3, 0, -1, 1, 2, -1, 0, 0, -1, -1, -1, -1}},
                            {"all classes, and one twice", {2, 3}, {0, 1, 2, 1, 1, -1}},
                            {"vector", {4}, {1, 2, -1, 0}},
                            {"many", {3, 300}, many}};
  for (const Sample& sample : samples)
    for (Reduction::Kind kind : {Reduction::none, Reduction::mean})
      cases.add({.op = "multilabel_margin_loss",
                 .name = concat(sample.name, kind == Reduction::none ? ", none" : ", mean"),
                 .inputs = {{sample.sizes},
                            {.sizes = sample.sizes, .dtype = kInt64, .values = sample.targets}},
                 .run = [kind](In x) { return one(multilabel_margin_loss(x[0], x[1], kind)); },
                 .reference =
                     [kind](Arrays x) {
                       Array losses = losses_of(x), total(Shape{});
                       if (kind == Reduction::none) return one(losses);
                       for (double loss : losses.values)
                         total[0] += loss / static_cast<double>(losses.numel());
                       return one(total);
                     },
                 .tolerance = 4});
  cases.error("multilabel_margin_loss", "shapes", "expected a target of shape [2, 3]", [] {
    multilabel_margin_loss(zeros({2, 3}), zeros({2}, {.dtype = kInt64}));
  });
  cases.error("multilabel_margin_loss", "float targets", "class numbers", [] {
    multilabel_margin_loss(zeros({2, 3}), zeros({2, 3}));
  });
}

}  // namespace tensora::suite
