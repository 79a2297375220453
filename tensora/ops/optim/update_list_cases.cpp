#include <cmath>

#include "tensora/ops/optim/multi_tensor_op.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

const std::map<Mode, std::string> kStep = {{Mode::grad, "an optimizer step has no gradient"},
                                           {Mode::view, "the tensors are dense by contract"}};

// Two parameters: inputs 2 k and 2 k + 1 are the k-th tensors of both. States are positive.
const Shape kSizes[] = {{7, 3}, {2500}};

std::vector<Input> pairs(int states) {
  std::vector<Input> result;
  for (int k = 0; k < states + 2; ++k)
    for (const Shape& sizes : kSizes)
      result.push_back({sizes, k == 0 || k == states + 1 ? -1 : 0.01, 1});
  return result;
}

struct Element {
  double p, g, s[3];
};

double nadam_momentum(const UpdateListAttrs& a, double step) {
  return a.beta1 * (1 - 0.5 * std::pow(0.96, step * a.decay));
}

// One element's step, as the papers write it.
void take_step(const UpdateListAttrs& a, Element& e) {
  const auto t = static_cast<double>(a.step);
  double g = (a.maximize ? -1 : 1) * e.g + (a.decoupled ? 0 : a.weight_decay * e.p);
  const double kept = a.decoupled ? e.p * (1 - a.lr * a.weight_decay) : e.p;
  const auto mean = [](double& m, double value, double beta) { m = beta * m + (1 - beta) * value; };
  const double left1 = 1 - std::pow(a.beta1, t), left2 = 1 - std::pow(a.beta2, t);
  if (a.rule == UpdateRule::rmsprop) {
    mean(e.s[0], g * g, a.beta2);
    if (a.centered) mean(e.s[1], g, a.beta2);
    g /= std::sqrt(e.s[0] - (a.centered ? e.s[1] * e.s[1] : 0)) + a.eps;
    double& velocity = e.s[a.centered ? 2 : 1];
    if (a.momentum > 0) g = velocity = a.momentum * velocity + g;
    e.p -= a.lr * g;
  } else if (a.rule == UpdateRule::adagrad) {
    e.s[0] += g * g;
    e.p -= a.lr / (1 + (t - 1) * a.decay) * g / (std::sqrt(e.s[0]) + a.eps);
  } else if (a.rule == UpdateRule::adadelta) {
    mean(e.s[0], g * g, a.beta2);
    const double delta = std::sqrt(e.s[1] + a.eps) / std::sqrt(e.s[0] + a.eps) * g;
    mean(e.s[1], delta * delta, a.beta2);
    e.p -= a.lr * delta;
  } else if (a.rule == UpdateRule::lion) {
    g = (a.maximize ? -1 : 1) * e.g;
    const double blend = a.beta1 * e.s[0] + (1 - a.beta1) * g;
    mean(e.s[0], g, a.beta2);
    e.p = e.p * (1 - a.lr * a.weight_decay) - a.lr * (blend > 0 ? 1 : blend < 0 ? -1 : 0);
  } else if (a.rule == UpdateRule::adamax) {
    mean(e.s[0], g, a.beta1);
    e.s[1] = std::max(a.beta2 * e.s[1], std::abs(g) + a.eps);
    e.p -= a.lr / left1 * e.s[0] / e.s[1];
  } else {
    mean(e.s[0], g, a.beta1);
    mean(e.s[1], g * g, a.beta2);
    if (a.rule == UpdateRule::nadam) {
      const double now = nadam_momentum(a, t), next = nadam_momentum(a, t + 1);
      const double root = std::sqrt(e.s[1] / left2) + a.eps;
      e.p = kept - a.lr *
                       ((1 - now) / (1 - a.product) * g + next / (1 - a.product * next) * e.s[0]) /
                       root;
      return;
    }
    const double longest = 2 / (1 - a.beta2) - 1;
    const double length = longest - 2 * t * (1 - left2) / left2;
    const double rectified =
        std::sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length));
    const double size = length > 5 ? rectified * std::sqrt(left2) / (std::sqrt(e.s[1]) + a.eps) : 1;
    e.p = kept - a.lr * e.s[0] / left1 * size;
  }
}

ArrayList reference(Arrays x, const UpdateListAttrs& a, int states) {
  const auto lists = static_cast<size_t>(states);
  ArrayList out(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(2 + 2 * lists));
  for (size_t k = 0; k < 2; ++k)
    for (int64_t i = 0; i < x[k].numel(); ++i) {
      Element e{x[k][i], x[2 + 2 * lists + k][i], {}};
      for (size_t s = 0; s < lists; ++s) e.s[s] = x[2 + 2 * s + k][i];
      take_step(a, e);
      out[k][i] = e.p;
      for (size_t s = 0; s < lists; ++s) out[2 + 2 * s + k][i] = e.s[s];
    }
  return out;
}

// Runs a step on copies; with `numbers`, what may be a tensor is one.
Out run(In x, UpdateListAttrs a, int states, bool numbers) {
  const auto lists = static_cast<size_t>(states);
  std::vector<std::vector<Tensor>> copies;
  for (size_t k = 0; k <= lists; ++k)
    copies.push_back({x[2 * k].detach().clone(), x[2 * k + 1].detach().clone()});
  std::vector<std::span<const Tensor>> held(copies.begin() + 1, copies.end());
  const char* const names[] = {"states", "states", "states"};
  Tensor step, product, lr;
  if (numbers) {
    const TensorOptions narrow{.dtype = kFloat32, .device = x[0].device()};
    step = full({}, a.step, narrow);
    product = full({}, a.product, narrow);
    lr = full({}, a.lr, {.dtype = kFloat64, .device = x[0].device()});
    a.step = 1;
    a.product = 0.5;
    a.lr = 99;
  }
  run_step({.op = "step",
            .params = copies[0],
            .grads = {x.data() + 2 * (lists + 1), 2},
            .states = held,
            .state_names = {names, lists},
            .masters = {},
            .step = &step,
            .grad_scale = nullptr,
            .found_inf = nullptr,
            .product = &product,
            .lr = &lr},
           a);
  Out result;
  for (const auto& list : copies) result.insert(result.end(), list.begin(), list.end());
  return result;
}

}  // namespace

void update_list_cases(Cases& cases) {
  struct Row {
    const char* name;
    int states;
    UpdateListAttrs attrs;
  };
  const Row rows[] = {
      {"rmsprop",
       1,
       {.layout = {}, .rule = UpdateRule::rmsprop, .lr = 0.1, .beta2 = 0.9, .weight_decay = 0.2}},
      {"rmsprop momentum",
       2,
       {.layout = {}, .rule = UpdateRule::rmsprop, .lr = 0.1, .momentum = 0.8}},
      {"adagrad",
       1,
       {.layout = {}, .rule = UpdateRule::adagrad, .lr = 0.1, .decay = 0.1, .step = 4}},
      {"adadelta",
       2,
       {.layout = {}, .rule = UpdateRule::adadelta, .lr = 0.5, .beta2 = 0.9, .maximize = true}},
      {"adamax",
       2,
       {.layout = {}, .rule = UpdateRule::adamax, .lr = 0.1, .weight_decay = 0.1, .step = 3}},
      {"nadam",
       2,
       {.layout = {},
        .rule = UpdateRule::nadam,
        .lr = 0.1,
        .weight_decay = 0.1,
        .decay = 0.004,
        .product = 0.25,
        .step = 3,
        .decoupled = true}},
      {"radam early",
       2,
       {.layout = {}, .rule = UpdateRule::radam, .lr = 0.1, .weight_decay = 0.1, .step = 3}},
      {"radam",
       2,
       {.layout = {}, .rule = UpdateRule::radam, .lr = 0.1, .step = 20, .decoupled = true}},
      {"lion",
       1,
       {.layout = {}, .rule = UpdateRule::lion, .lr = 0.1, .beta2 = 0.99, .weight_decay = 0.1}},
  };
  for (const Row& row : rows)
    for (bool numbers : {false, true})
      cases.add({.op = "update_list",
                 .name = concat(row.name, numbers ? ", numbers as tensors" : ""),
                 .inputs = pairs(row.states),
                 .run = [row, numbers](In x) { return run(x, row.attrs, row.states, numbers); },
                 .reference = [row](Arrays x) { return reference(x, row.attrs, row.states); },
                 .tolerance = 16,
                 .opt_out = kStep});
  cases.error("update_list", "states", "expected 2 states, got 1", [] {
    const std::vector<Tensor> one{zeros({2})};
    const std::span<const Tensor> states[] = {one};
    const char* const names[] = {"states"};
    run_step({.op = "step",
              .params = one,
              .grads = one,
              .states = states,
              .state_names = names,
              .masters = {},
              .step = nullptr,
              .grad_scale = nullptr,
              .found_inf = nullptr,
              .product = nullptr,
              .lr = nullptr},
             UpdateListAttrs{.layout = {}, .rule = UpdateRule::adamax});
  });
}

}  // namespace tensora::suite
