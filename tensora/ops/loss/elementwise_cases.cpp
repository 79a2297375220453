#include "tensora/ops/loss/elementwise.h"

#include <cmath>
#include <numbers>

#include "tests/suite/pointwise.h"

namespace tensora::suite {
namespace {

using Formula = std::function<double(const double*)>;

/// One loss: a call without reduction, and the definition of an element.
struct Loss {
  const char* op;
  std::string name;
  std::vector<Input> inputs;
  std::function<Tensor(In, Reduction)> run;
  Formula formula;
  double tolerance = 2;
  std::map<Mode, std::string> opt_out = {};
  std::optional<std::vector<int>> grad_inputs = {};
};

Array totalled(const Array& losses, bool average) {
  Array result(Shape{});
  for (double value : losses.values) result[0] += value;
  if (average) result[0] /= static_cast<double>(losses.numel());
  return result;
}

void add_loss(Cases& cases, const Loss& loss, bool reduced = true) {
  for (Reduction::Kind kind : {Reduction::none, Reduction::mean, Reduction::sum}) {
    if (!reduced && kind != Reduction::none) continue;
    const auto names = names_of(std::type_identity<Reduction::Kind>{});
    cases.add({.op = loss.op,
               .name = concat(loss.name, ", ", names[kind]),
               .inputs = loss.inputs,
               .run = [run = loss.run, kind](In x) { return one(run(x, kind)); },
               .reference =
                   [formula = loss.formula, kind](Arrays x) {
                     ArrayList losses = map_elements(x, formula);
                     if (kind == Reduction::none) return losses;
                     return one(totalled(losses[0], kind == Reduction::mean));
                   },
               .tolerance = loss.tolerance,
               .grad_inputs = loss.grad_inputs,
               .opt_out = loss.opt_out});
  }
}

Input numbers(const Shape& sizes, double low = -3, double high = 3) {
  return {.sizes = sizes, .low = low, .high = high};
}
/// Of 1 and -1.
Input signs(int64_t count) {
  Input result{.sizes = {count}};
  for (int64_t i = 0; i < count; ++i) result.values.push_back(i % 3 == 0 ? 1 : -1);
  return result;
}

double huber_of(double distance, double delta) {
  const double d = std::abs(distance);
  return d <= delta ? d * d / 2 : delta * (d - delta / 2);
}
double entropy_of(double p, double t) {
  return -t * std::max(std::log(p), -100.0) - (1 - t) * std::max(std::log1p(-p), -100.0);
}
double logit_entropy_of(double x, double t, double positive) {
  const double softplus = std::log1p(std::exp(-std::abs(x))) + std::max(-x, 0.0);
  return (1 - t) * x + (1 + (positive - 1) * t) * softplus;
}

void add_distances(Cases& cases) {
  add_loss(cases, {"mse_loss",
                   "matrices",
                   {numbers({3, 4}), numbers({3, 4})},
                   [](In x, Reduction r) { return mse_loss(x[0], x[1], r); },
                   [](const double* v) { return (v[0] - v[1]) * (v[0] - v[1]); }});
  add_loss(cases,
           {"mse_loss",
            "broadcast",
            {numbers({5, 1}), numbers({3})},
            [](In x, Reduction r) { return mse_loss(x[0], x[1], r); },
            [](const double* v) { return (v[0] - v[1]) * (v[0] - v[1]); }},
           false);
  add_loss(cases, {"mse_loss",
                   "empty",
                   {numbers({0}), numbers({0})},
                   [](In x, Reduction r) { return mse_loss(x[0], x[1], r); },
                   [](const double* v) { return (v[0] - v[1]) * (v[0] - v[1]); },
                   1,
                   {{Mode::grad, "the mean of nothing is NaN"}}});
  add_loss(cases, {"l1_loss",
                   "several tiles",
                   {numbers({1037, 2}), numbers({1037, 2})},
                   [](In x, Reduction r) { return l1_loss(x[0], x[1], r); },
                   [](const double* v) { return std::abs(v[0] - v[1]); }});
  for (double at : {1.0, 0.3})
    add_loss(cases, {"smooth_l1_loss",
                     at == 1 ? "default" : "beta",
                     {numbers({4, 5}), numbers({4, 5})},
                     [at](In x, Reduction r) { return smooth_l1_loss(x[0], x[1], r, at); },
                     [at](const double* v) { return huber_of(v[0] - v[1], at) / at; }});
  add_loss(cases,
           {"smooth_l1_loss",
            "beta of 0",
            {numbers({4, 5}), numbers({4, 5})},
            [](In x, Reduction r) { return smooth_l1_loss(x[0], x[1], r, 0); },
            [](const double* v) { return std::abs(v[0] - v[1]); }},
           false);
  for (double at : {1.0, 2.5})
    add_loss(cases, {"huber_loss",
                     at == 1 ? "default" : "delta",
                     {numbers({4, 5}), numbers({4, 5})},
                     [at](In x, Reduction r) { return huber_loss(x[0], x[1], r, at); },
                     [at](const double* v) { return huber_of(v[0] - v[1], at); }});
}

void add_entropies(Cases& cases) {
  const Input p = numbers({3, 5}, 0.05, 0.95), t = numbers({3, 5}, 0, 1);
  add_loss(cases, {"binary_cross_entropy",
                   "plain",
                   {p, t},
                   [](In x, Reduction r) { return binary_cross_entropy(x[0], x[1], {}, r); },
                   [](const double* v) { return entropy_of(v[0], v[1]); },
                   4});
  add_loss(cases, {"binary_cross_entropy",
                   "weight",
                   {p, t, numbers({5}, 0.5, 2)},
                   [](In x, Reduction r) { return binary_cross_entropy(x[0], x[1], x[2], r); },
                   [](const double* v) { return entropy_of(v[0], v[1]) * v[2]; },
                   4});
  add_loss(cases,
           {"binary_cross_entropy",
            "certain",
            {{.sizes = {4}, .values = {0, 1, 0, 1}}, {.sizes = {4}, .values = {0, 1, 1, 0}}},
            [](In x, Reduction r) { return binary_cross_entropy(x[0], x[1], {}, r); },
            [](const double* v) { return entropy_of(v[0], v[1]); },
            1,
            no_differences()},
           false);
  add_loss(cases,
           {"binary_cross_entropy_with_logits",
            "plain",
            {numbers({3, 5}), t},
            [](In x, Reduction r) { return binary_cross_entropy_with_logits(x[0], x[1], {}, r); },
            [](const double* v) { return logit_entropy_of(v[0], v[1], 1); },
            4});
  add_loss(cases, {"binary_cross_entropy_with_logits",
                   "weights",
                   {numbers({3, 5}), t, numbers({3, 1}, 0.5, 2), numbers({5}, 0.5, 2)},
                   [](In x, Reduction r) {
                     return binary_cross_entropy_with_logits(x[0], x[1], x[2], r, x[3]);
                   },
                   [](const double* v) { return logit_entropy_of(v[0], v[1], v[3]) * v[2]; },
                   4});
  add_loss(
      cases,
      {"binary_cross_entropy_with_logits",
       "large",
       {{.sizes = {4}, .values = {500, -500, 500, -500}}, {.sizes = {4}, .values = {1, 0, 0, 1}}},
       [](In x, Reduction r) { return binary_cross_entropy_with_logits(x[0], x[1], {}, r); },
       [](const double* v) { return logit_entropy_of(v[0], v[1], 1); }},
      false);
}

void add_divergences(Cases& cases) {
  add_loss(cases, {"kl_div",
                   "probabilities",
                   {numbers({4, 3}, -4, 0), numbers({4, 3}, 0.05, 1)},
                   [](In x, Reduction r) { return kl_div(x[0], x[1], r); },
                   [](const double* v) { return v[1] * (std::log(v[1]) - v[0]); },
                   4});
  add_loss(cases, {"kl_div",
                   "logarithms",
                   {numbers({4, 3}, -4, 0), numbers({4, 3}, -4, 0)},
                   [](In x, Reduction r) { return kl_div(x[0], x[1], r, true); },
                   [](const double* v) { return std::exp(v[1]) * (v[1] - v[0]); },
                   4});
  cases.add(
      {.op = "kl_div",
       .name = "batchmean",
       .inputs = {numbers({4, 3}, -4, 0), numbers({4, 3}, 0.05, 1)},
       .run = [](In x) { return one(kl_div(x[0], x[1], "batchmean")); },
       .reference =
           [](Arrays x) {
             Array result = totalled(
                 map_elements(x, [](const double* v) { return v[1] * (std::log(v[1]) - v[0]); })[0],
                 false);
             result[0] /= 4;
             return one(result);
           },
       .tolerance = 4});
}

void add_likelihoods(Cases& cases) {
  const Input rate = numbers({4, 5}, 0.2, 4), count = numbers({4, 5}, 0, 6);
  const auto stirling = [](double t) {
    return t > 1 ? t * std::log(t) - t + 0.5 * std::log(2 * std::numbers::pi * t) : 0;
  };
  add_loss(cases,
           {"poisson_nll_loss",
            "logarithms",
            {numbers({4, 5}), count},
            [](In x, Reduction r) { return poisson_nll_loss(x[0], x[1], true, false, 1e-8, r); },
            [](const double* v) { return std::exp(v[0]) - v[1] * v[0]; },
            8});
  add_loss(
      cases,
      {"poisson_nll_loss",
       "rates, full",
       {rate, count},
       [](In x, Reduction r) { return poisson_nll_loss(x[0], x[1], false, true, 1e-8, r); },
       [stirling](const double* v) { return v[0] - v[1] * std::log(v[0] + 1e-8) + stirling(v[1]); },
       8,
       {},
       std::vector<int>{0}});
  const auto gaussian = [](const double* v) {
    return 0.5 * (std::log(v[2]) + (v[0] - v[1]) * (v[0] - v[1]) / v[2]);
  };
  add_loss(cases,
           {"gaussian_nll_loss",
            "variances",
            {numbers({3, 4}), numbers({3, 4}), numbers({3, 4}, 0.5, 3)},
            [](In x, Reduction r) { return gaussian_nll_loss(x[0], x[1], x[2], false, 1e-6, r); },
            gaussian,
            8});
  add_loss(cases, {"gaussian_nll_loss",
                   "one variance per row, full",
                   {numbers({3, 4}), numbers({3, 4}), numbers({3, 1}, 0.5, 3)},
                   [](In x, Reduction r) {
                     return gaussian_nll_loss(x[0], x[1], squeeze(x[2], {1}), true, 1e-6, r);
                   },
                   [gaussian](const double* v) {
                     return gaussian(v) + 0.5 * std::log(2 * std::numbers::pi);
                   },
                   8});
  for (const Shape& sizes : {Shape{1, 4}, Shape{3, 1}})
    add_loss(cases,
             {"gaussian_nll_loss",
              concat("variances of shape ", sizes),
              {numbers({3, 4}), numbers({3, 4}), numbers(sizes, 0.5, 3)},
              [](In x, Reduction r) { return gaussian_nll_loss(x[0], x[1], x[2], false, 1e-6, r); },
              gaussian,
              8});
  add_gradient(
      cases, "gaussian_nll_loss", "variance below eps",
      {{.sizes = {1}, .values = {2}}, {.sizes = {1}, .values = {1}}, {.sizes = {1}, .values = {0}}},
      [](In x) { return gaussian_nll_loss(x[0], x[1], x[2], false, 0.5, "sum"); },
      {array_of_values({2}), array_of_values({-2}), array_of_values({-1})});
}

void add_margins(Cases& cases) {
  add_loss(cases, {"hinge_embedding_loss",
                   "signs",
                   {numbers({7}), signs(7)},
                   [](In x, Reduction r) { return hinge_embedding_loss(x[0], x[1], 1, r); },
                   [](const double* v) { return v[1] == 1 ? v[0] : std::max(0.0, 1 - v[0]); },
                   2,
                   {},
                   std::vector<int>{0}});
  add_loss(cases,
           {"hinge_embedding_loss",
            "margin",
            {numbers({7}), signs(7)},
            [](In x, Reduction r) { return hinge_embedding_loss(x[0], x[1], 2.5, r); },
            [](const double* v) { return v[1] == 1 ? v[0] : std::max(0.0, 2.5 - v[0]); },
            2,
            {},
            std::vector<int>{0}},
           false);
  add_loss(cases, {"margin_ranking_loss",
                   "signs",
                   {numbers({7}), numbers({7}), signs(7)},
                   [](In x, Reduction r) { return margin_ranking_loss(x[0], x[1], x[2], 0.5, r); },
                   [](const double* v) { return std::max(0.0, 0.5 - v[2] * (v[0] - v[1])); },
                   4});
  add_loss(cases, {"soft_margin_loss",
                   "signs",
                   {numbers({3, 7}), signs(7)},
                   [](In x, Reduction r) { return soft_margin_loss(x[0], x[1], r); },
                   [](const double* v) { return std::log1p(std::exp(-v[0] * v[1])); },
                   4});
}

void add_mistakes(Cases& cases) {
  cases.error("mse_loss", "reduction", "mse_loss: reduction must be",
              [] { mse_loss(zeros({2}), zeros({2}), "average"); });
  cases.error("mse_loss", "batchmean", "mse_loss: reduction must be",
              [] { mse_loss(zeros({2}), zeros({2}), "batchmean"); });
  cases.error("mse_loss", "integers", "mse_loss: expected floating-point",
              [] { mse_loss(zeros({2}, {.dtype = kInt64}), zeros({2}, {.dtype = kInt64})); });
  cases.error("mse_loss", "shapes", "mse_loss", [] { mse_loss(zeros({2}), zeros({3})); });
  cases.error("smooth_l1_loss", "beta", "beta must not be negative",
              [] { smooth_l1_loss(zeros({2}), zeros({2}), "mean", -1); });
  cases.error("huber_loss", "delta", "delta must be greater than 0",
              [] { huber_loss(zeros({2}), zeros({2}), "mean", 0); });
  cases.error("binary_cross_entropy", "range",
              "binary_cross_entropy: all elements of input must be",
              [] { binary_cross_entropy(full({3}, 1.5), zeros({3})); });
  cases.error("binary_cross_entropy", "range of the target",
              "binary_cross_entropy: all elements of target must be",
              [] { binary_cross_entropy(full({3}, 0.5), full({3}, -0.5)); });
  cases.error("binary_cross_entropy", "shapes", "target must have the shape of input", [] {
    binary_cross_entropy(zeros({2}), zeros({2, 1}));
  });
  cases.error("gaussian_nll_loss", "negative variance",
              "gaussian_nll_loss: var must not have negative",
              [] { gaussian_nll_loss(zeros({2}), zeros({2}), full({2}, -1.0)); });
  cases.error("gaussian_nll_loss", "shape of var", "var must have the shape", [] {
    gaussian_nll_loss(zeros({2, 3}), zeros({2, 3}), ones({3}));
  });
  cases.error("gaussian_nll_loss", "two dims of size 1", "with 1 for one dim, got [1, 1]", [] {
    gaussian_nll_loss(zeros({2, 3}), zeros({2, 3}), ones({1, 1}));
  });
  cases.error("margin_ranking_loss", "dims", "the same number of dims", [] {
    margin_ranking_loss(zeros({2}), zeros({2, 1}), zeros({2}));
  });
}

}  // namespace

void elementwise_cases(Cases& cases) {
  add_distances(cases);
  add_entropies(cases);
  add_divergences(cases);
  add_likelihoods(cases);
  add_margins(cases);
  add_mistakes(cases);
}

}  // namespace tensora::suite
