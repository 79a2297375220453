#include "tensora/ops/loss/cross_entropy.h"

#include <cmath>
#include <limits>

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

struct Sample {
  const char* name;
  Shape sizes;  // of the logits
  std::vector<double> targets;
  bool weighted = false;
  double smoothing = 0;
  int64_t ignore_index = -100;
};

Shape target_sizes(const Shape& sizes) {
  Shape result;
  for (int d = 0; d < sizes.size(); ++d)
    if (d != (sizes.size() == 1 ? 0 : 1)) result.push_back(sizes[d]);
  return result;
}

// The loss of each target, and its weight in a mean.
struct Losses {
  Array loss, weight;
};
Losses losses_of(Arrays x, const Sample& sample, bool logits) {
  const int dim = sample.sizes.size() == 1 ? 0 : 1;
  const int64_t classes = sample.sizes[dim];
  const Array& y = x[1];
  Losses result{Array(y.sizes), Array(y.sizes)};
  int64_t inner = 1;
  for (int d = dim + 1; d < sample.sizes.size(); ++d) inner *= sample.sizes[d];
  const auto factor = [&](int64_t c) { return sample.weighted ? x[2][c] : 1; };
  for (int64_t i = 0; i < y.numel(); ++i) {
    const auto logit = [&](int64_t c) {
      return x[0][(i / inner * classes + c) * inner + i % inner];
    };
    const auto target = static_cast<int64_t>(y[i]);
    if (target == sample.ignore_index) continue;
    double top = -std::numeric_limits<double>::infinity(), sum = 0, even = 0;
    for (int64_t c = 0; c < classes; ++c) top = std::max(top, logit(c));
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(logit(c) - top);
    const double lse = logits ? std::log(sum) + top : 0;
    for (int64_t c = 0; c < classes; ++c) even += factor(c) * (lse - logit(c));
    result.weight[i] = factor(target);
    result.loss[i] =
        (1 - sample.smoothing) * factor(target) * (lse - logit(target)) +
        (sample.smoothing > 0 ? sample.smoothing / static_cast<double>(classes) * even : 0);
  }
  return result;
}

Array reduced(const Losses& losses, Reduction::Kind kind) {
  if (kind == Reduction::none) return losses.loss;
  Array total(Shape{});
  double weight = 0;
  for (int64_t i = 0; i < losses.loss.numel(); ++i) {
    total[0] += losses.loss[i];
    weight += losses.weight[i];
  }
  if (kind == Reduction::mean) total[0] /= weight;
  return total;
}

void add_sample(Cases& cases, const Sample& sample, bool logits) {
  const int dim = sample.sizes.size() == 1 ? 0 : 1;
  std::vector<Input> inputs = {
      {sample.sizes},
      {.sizes = target_sizes(sample.sizes), .dtype = kInt64, .values = sample.targets}};
  if (sample.weighted) inputs.push_back({{sample.sizes[dim]}, 0.5, 2});
  std::map<Mode, std::string> opt_out;
  if (sample.targets.empty()) opt_out[Mode::grad] = "the mean of nothing is NaN";
  for (Reduction::Kind kind : {Reduction::none, Reduction::mean, Reduction::sum})
    cases.add(
        {.op = logits ? "cross_entropy" : "nll_loss",
         .name = concat(sample.name, ", ", names_of(std::type_identity<Reduction::Kind>{})[kind]),
         .inputs = inputs,
         .run =
             [sample, kind, logits](In x) {
               const Tensor weight = sample.weighted ? x[2] : Tensor();
               return one(logits ? cross_entropy(x[0], x[1], weight, sample.ignore_index, kind,
                                                 sample.smoothing)
                                 : nll_loss(x[0], x[1], weight, sample.ignore_index, kind));
             },
         .reference = [sample, kind, logits](
                          Arrays x) { return one(reduced(losses_of(x, sample, logits), kind)); },
         .tolerance = 4,
         .grad_inputs = std::vector<int>{0},
         .opt_out = opt_out});
}

std::vector<double> numbers(int64_t count, int64_t classes) {
  std::vector<double> result;
  for (int64_t i = 0; i < count; ++i) result.push_back(static_cast<double>(i * 7 % classes));
  return result;
}

void add_probabilities(Cases& cases) {
  const auto reference = [](Arrays x, double share, bool weighted) {
    const int64_t rows = x[0].sizes[0], classes = x[0].sizes[1];
    Array total(Shape{});
    for (int64_t i = 0; i < rows; ++i) {
      double sum = 0;
      for (int64_t c = 0; c < classes; ++c) sum += std::exp(x[0][i * classes + c]);
      for (int64_t c = 0; c < classes; ++c)
        total[0] += (x[1][i * classes + c] * (1 - share) + share / static_cast<double>(classes)) *
                    (weighted ? x[2][c] : 1) * (std::log(sum) - x[0][i * classes + c]);
    }
    total[0] /= static_cast<double>(rows);
    return one(total);
  };
  cases.add({.op = "cross_entropy",
             .name = "probabilities",
             .inputs = {{{3, 5}}, {{3, 5}, 0, 1}},
             .run = [](In x) { return one(cross_entropy(x[0], x[1])); },
             .reference = [=](Arrays x) { return reference(x, 0, false); },
             .tolerance = 4});
  cases.add({.op = "cross_entropy",
             .name = "probabilities, weighted and smoothed",
             .inputs = {{{3, 5}}, {{3, 5}, 0, 1}, {{5}, 0.5, 2}},
             .run = [](In x) { return one(cross_entropy(x[0], x[1], x[2], -100, "mean", 0.2)); },
             .reference = [=](Arrays x) { return reference(x, 0.2, true); },
             .tolerance = 4});
}

void add_extremes(Cases& cases) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  cases.add({.op = "cross_entropy",
             .name = "infinities and NaN",
             .inputs = {{.sizes = {6, 3},
                         .values = {-inf, 0, 1, -inf, 0, 1, inf, 0, 1, -inf, -inf, -inf, nan, 0, 1,
                                    -1000, -1001, -1000}},
                        {.sizes = {6}, .dtype = kInt64, .values = {1, 0, 1, 0, 1, 1}}},
             .run = [](In x) { return one(cross_entropy(x[0], x[1], {}, -100, "none")); },
             .reference =
                 [](Arrays) {
                   Array out(Shape{6});
                   out.values = {std::log(1 + std::exp(1.0)),     inf, nan, nan, nan,
                                 std::log(2 + std::exp(-1.0)) + 1};
                   return one(out);
                 },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = 4,
             .opt_out = {{Mode::grad, "infinite"}}});
}

// The largest logit and the logarithm of the sum must not meet in one float32.
void add_large(Cases& cases) {
  for (double share : {0.0, 0.1})
    cases.add({.op = "cross_entropy",
               .name = concat("large logits, smoothing ", share),
               .inputs = {{.sizes = {2, 3}, .values = {4097, 4096, 4094, -4094, -4096, -4097}},
                          {.sizes = {2}, .dtype = kInt64, .values = {0, 0}}},
               .run = [=](In x) { return one(cross_entropy(x[0], x[1], {}, -100, "none", share)); },
               .reference =
                   [=](Arrays) {
                     const auto loss = [&](double second, double third) {
                       const double total = std::log(1 + std::exp(-second) + std::exp(-third));
                       return total + share * (second + third) / 3;
                     };
                     Array out(Shape{2});
                     out.values = {loss(1, 3), loss(2, 3)};
                     return one(out);
                   },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 4,
               .opt_out = {{Mode::grad, "differences of numbers this large are coarse"}}});
}

void add_mistakes(Cases& cases) {
  const auto targets = [](std::vector<int64_t> values) { return tensor(values); };
  cases.error("cross_entropy", "target out of range", "out of bounds", [=] {
    cross_entropy(zeros({2, 3}), targets({0, 3}));
  });
  cases.error("cross_entropy", "shape of target", "expected a target of shape [2]", [=] {
    cross_entropy(zeros({2, 3}), targets({0, 1, 2}));
  });
  cases.error("cross_entropy", "smoothing", "label_smoothing must be between 0 and 1", [=] {
    cross_entropy(zeros({1, 3}), targets({0}), {}, -100, "mean", 1.5);
  });
  cases.error("cross_entropy", "weight", "a weight for each of 3 classes", [=] {
    cross_entropy(zeros({1, 3}), targets({0}), ones({2}));
  });
  cases.error("cross_entropy", "float targets", "class numbers", [] {
    cross_entropy(zeros({1, 3}), zeros({1}));
  });
  cases.error("cross_entropy", "gradient of weight", "not differentiable with respect to weight",
              [=] {
                const Tensor weight = ones({3}).requires_grad_();
                cross_entropy(zeros({1, 3}).requires_grad_(), targets({0}), weight).backward();
              });
  cases.error("nll_loss", "target out of range", "out of bounds", [=] {
    nll_loss(zeros({2, 3}), targets({0, -1}));
  });
}

}  // namespace

void cross_entropy_cases(Cases& cases) {
  const Sample samples[] = {
      {"rows", {4, 5}, {0, 4, 2, 2}},
      {"vector", {5}, {3}},
      {"no rows", {0, 5}, {}},
      {"ignored", {4, 5}, {0, -100, 2, -100}},
      {"weighted", {4, 5}, {0, 3, 3, 1}, true, 0, 3},
      {"several tiles", {3, 2500}, numbers(3, 2500)},
      {"image", {2, 3, 2, 4}, numbers(16, 3), true},
      {"line", {2, 3, 300}, numbers(600, 3)},
  };
  for (const Sample& sample : samples) {
    add_sample(cases, sample, true);
    add_sample(cases, sample, false);
  }
  const Sample smoothed[] = {
      {"smoothed", {4, 5}, {0, 4, 2, 2}, false, 0.3},
      {"smoothed and weighted", {4, 5}, {0, 3, 3, 1}, true, 0.3, 3},
      {"smoothed image", {2, 3, 2, 2}, numbers(8, 3), true, 0.3},
  };
  for (const Sample& sample : smoothed) add_sample(cases, sample, true);
  add_probabilities(cases);
  add_extremes(cases);
  add_large(cases);
  add_mistakes(cases);
}

}  // namespace tensora::suite
