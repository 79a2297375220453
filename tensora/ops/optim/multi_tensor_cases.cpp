#include "tensora/ops/optim/multi_tensor.h"

#include <cmath>

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

const std::map<Mode, std::string> kStep = {{Mode::grad, "an optimizer step has no gradient"},
                                           {Mode::view, "the tensors are dense by contract"}};

// Two parameters with n tensors each: inputs 2 k and 2 k + 1 are the k-th tensors of both.
const Shape kSizes[] = {{7, 3}, {2500}};

std::vector<Input> pairs(int lists, int positive_from = 99) {
  std::vector<Input> result;
  for (int k = 0; k < lists; ++k)
    for (const Shape& sizes : kSizes) result.push_back({sizes, k >= positive_from ? 0.01 : -1, 1});
  return result;
}
std::vector<Tensor> copies(In x, size_t list) {
  return {x[2 * list].detach().clone(), x[2 * list + 1].detach().clone()};
}
std::span<const Tensor> originals(In x, size_t list) { return {x.data() + 2 * list, 2}; }

Out joined(std::initializer_list<std::vector<Tensor>> lists) {
  Out result;
  for (const auto& list : lists) result.insert(result.end(), list.begin(), list.end());
  return result;
}

ArrayList adam_reference(Arrays x, const FusedAdamOptions& o, bool decoupled, double scale) {
  ArrayList out(x.begin(), x.begin() + (o.amsgrad ? 8 : 6));
  const size_t grads = out.size();
  const auto step = static_cast<double>(o.step);
  for (size_t k = 0; k < 2; ++k)
    for (int64_t i = 0; i < x[k].numel(); ++i) {
      const double p = x[k][i];
      const double g =
          (o.maximize ? -1 : 1) * x[grads + k][i] / scale + (decoupled ? 0 : o.weight_decay * p);
      const double m = out[2 + k][i] = o.beta1 * x[2 + k][i] + (1 - o.beta1) * g;
      double v = out[4 + k][i] = o.beta2 * x[4 + k][i] + (1 - o.beta2) * g * g;
      if (o.amsgrad) v = out[6 + k][i] = std::max(x[6 + k][i], v);
      const double root = std::sqrt(v / (1 - std::pow(o.beta2, step))) + o.eps;
      out[k][i] = (decoupled ? p * (1 - o.lr * o.weight_decay) : p) -
                  o.lr * m / (1 - std::pow(o.beta1, step)) / root;
    }
  return out;
}

void add_adam(Cases& cases) {
  struct Row {
    const char* name;
    FusedAdamOptions options;
    bool decoupled, tensors;  // step and scale as tensors
  };
  const Row rows[] = {
      {"Adam", {.lr = 0.1, .weight_decay = 0.3, .step = 3}, false, false},
      {"AdamW", {.lr = 0.1, .weight_decay = 0.3, .step = 2}, true, true},
      {"amsgrad", {.lr = 0.1, .amsgrad = true, .maximize = true, .step = 5}, true, false},
  };
  for (const Row& row : rows) {
    const FusedAdamOptions o = row.options;
    const double scale = row.tensors ? 4 : 1;
    cases.add({.op = "adam_list",
               .name = row.name,
               .inputs = pairs(o.amsgrad ? 5 : 4, 2),
               .run =
                   [row, o, scale](In x) {
                     const size_t grads = o.amsgrad ? 4 : 3;
                     auto p = copies(x, 0), m = copies(x, 1), v = copies(x, 2);
                     auto top = o.amsgrad ? copies(x, 3) : std::vector<Tensor>();
                     FusedExtras extras;
                     FusedAdamOptions given = o;
                     if (row.tensors) {
                       const TensorOptions options{.dtype = kFloat32, .device = x[0].device()};
                       extras.state_step = full({}, o.step, options);
                       extras.grad_scale = full({1}, scale, options);
                       extras.found_inf = zeros({}, options);
                       given.step = 1;
                     }
                     (row.decoupled ? fused_adamw_ : fused_adam_)(p, originals(x, grads), m, v, top,
                                                                  given, extras);
                     return joined({p, m, v, top});
                   },
               .reference =
                   [row, o, scale](Arrays x) { return adam_reference(x, o, row.decoupled, scale); },
               .tolerance = 8,
               .opt_out = kStep});
  }
}

void add_masters(Cases& cases) {
  cases.add({.op = "adam_list",
             .name = "master weights, other layouts and an infinite gradient",
             .inputs = {{{6, 4}}, {{6, 4}}},
             .run =
                 [](In x) {
                   const TensorOptions wide{.dtype = kFloat32, .device = x[0].device()};
                   const auto laid_out = [&](const Tensor& from, DType dtype) {
                     const Tensor made =
                         empty_strided({6, 4}, {1, 6}, {.dtype = dtype, .device = from.device()});
                     made.copy_(from);
                     return made;
                   };
                   std::vector<Tensor> p{laid_out(x[0], kBFloat16)};
                   std::vector<Tensor> master{laid_out(x[0], kFloat32)};
                   std::vector<Tensor> m{laid_out(zeros({6, 4}, wide), kFloat32)};
                   std::vector<Tensor> v{laid_out(zeros({6, 4}, wide), kFloat32)};
                   const std::vector<Tensor> grads{x[1]};
                   FusedExtras extras{.masters = master, .found_inf = zeros({}, wide)};
                   fused_adamw_(p, grads, m, v, {}, {.lr = 0.5}, extras);
                   extras.found_inf = ones({}, wide);
                   fused_adamw_(p, grads, m, v, {}, {.lr = 0.5, .step = 2}, extras);
                   return Out{p[0].to(kFloat32), master[0], m[0]};
                 },
             .reference =
                 [](Arrays x) {
                   Array p = x[0], master = x[0], m = x[1];
                   for (int64_t i = 0; i < p.numel(); ++i) {
                     const double g = x[1][i];
                     m[i] = 0.1 * g;
                     master[i] -= 0.5 * g / (std::abs(g) + 1e-8);
                     p[i] = static_cast<float>(BFloat16(static_cast<float>(master[i])));
                   }
                   return ArrayList{p, master, m};
                 },
             .dtypes = {kFloat32},
             .tolerance = 64,
             .opt_out = kStep});
}

void add_sgd(Cases& cases) {
  struct Row {
    const char* name;
    FusedSgdOptions options;
  };
  const Row rows[] = {
      {"plain", {.lr = 0.1, .weight_decay = 0.2}},
      {"momentum", {.lr = 0.1, .momentum = 0.9, .dampening = 0.3, .maximize = true}},
      {"first step", {.lr = 0.1, .momentum = 0.9, .dampening = 0.3, .is_first_step = true}},
      {"nesterov", {.lr = 0.1, .momentum = 0.9, .nesterov = true}},
  };
  for (const Row& row : rows) {
    const FusedSgdOptions o = row.options;
    const bool moves = o.momentum != 0;
    cases.add({.op = "sgd_list",
               .name = row.name,
               .inputs = pairs(moves ? 3 : 2),
               .run =
                   [o, moves](In x) {
                     auto p = copies(x, 0);
                     auto velocity = moves ? copies(x, 1) : std::vector<Tensor>();
                     fused_sgd_(p, originals(x, moves ? 2 : 1), velocity, o);
                     return joined({p, velocity});
                   },
               .reference =
                   [o, moves](Arrays x) {
                     ArrayList out(x.begin(), x.begin() + (moves ? 4 : 2));
                     const size_t grads = out.size();
                     for (size_t k = 0; k < 2; ++k)
                       for (int64_t i = 0; i < x[k].numel(); ++i) {
                         double g =
                             (o.maximize ? -1 : 1) * x[grads + k][i] + o.weight_decay * x[k][i];
                         if (moves) {
                           const double b = o.is_first_step
                                                ? g
                                                : o.momentum * x[2 + k][i] + (1 - o.dampening) * g;
                           out[2 + k][i] = b;
                           g = o.nesterov ? g + o.momentum * b : b;
                         }
                         out[k][i] -= o.lr * g;
                       }
                     return out;
                   },
               .tolerance = 4,
               .opt_out = kStep});
  }
}

double norm_of(Arrays x, double p) {
  double result = 0;
  for (const Array& array : x)
    for (double value : array.values)
      result =
          std::isinf(p) ? std::max(result, std::abs(value)) : result + std::pow(std::abs(value), p);
  return std::isinf(p) ? result : std::pow(result, 1 / p);
}

// Clips copies of the inputs as if they were gradients.
Out clipped(In x, const std::function<Tensor(std::span<const Tensor>)>& clip) {
  std::vector<Tensor> parameters;
  for (const Tensor& grad : x) {
    parameters.push_back(zeros_like(grad).requires_grad_());
    parameters.back().set_grad(grad.detach().clone());
  }
  Out result;
  const Tensor total = clip(parameters);
  if (total.defined()) result.push_back(total);
  for (const Tensor& parameter : parameters) result.push_back(parameter.grad());
  return result;
}

void add_clips(Cases& cases) {
  for (double p : {2.0, 1.0, 3.0, HUGE_VAL})
    cases.add({.op = "list_norm",
               .name = concat("order ", p),
               .inputs = {{{7, 3}}, {{2500}}, {{}}},
               .run = [p](In x) { return one(get_total_norm(x, p)); },
               .reference =
                   [p](Arrays x) {
                     Array out(Shape{});
                     out[0] = norm_of(x, p);
                     return one(out);
                   },
               .tolerance = 4});
  for (double limit : {1.0, 1e6})
    cases.add({.op = "list_clip",
               .name = concat("norm ", limit),
               .inputs = {{{7, 3}}, {{2500}}},
               .run =
                   [limit](In x) {
                     return clipped(x, [&](auto list) { return clip_grad_norm_(list, limit); });
                   },
               .reference =
                   [limit](Arrays x) {
                     ArrayList out{Array(Shape{})};
                     out[0][0] = norm_of(x, 2);
                     const double factor = std::min(1.0, limit / (out[0][0] + 1e-6));
                     for (const Array& array : x) {
                       out.push_back(array);
                       for (double& value : out.back().values) value *= factor;
                     }
                     return out;
                   },
               .tolerance = 4,
               .opt_out = {{Mode::grad, "clipping has no gradient"},
                           {Mode::jit, "the gradients are set"}}});
  cases.add({.op = "list_clip",
             .name = "values",
             .inputs = {{{7, 3}}, {{2500}}},
             .run =
                 [](In x) {
                   return clipped(x, [](auto list) {
                     clip_grad_value_(list, 0.5);
                     return Tensor();
                   });
                 },
             .reference =
                 [](Arrays x) {
                   ArrayList out(x.begin(), x.end());
                   for (Array& array : out)
                     for (double& value : array.values)
                       value = std::min(0.5, std::max(-0.5, value));
                   return out;
                 },
             .opt_out = {{Mode::grad, "clipping has no gradient"},
                         {Mode::jit, "the gradients are set"}}});
}

void add_mistakes(Cases& cases) {
  const auto one_of = [](const Tensor& x) { return std::vector<Tensor>{x}; };
  cases.error("adam_list", "a missing list", "expected 1 exp_avgs, got 0",
              [=] { fused_adam_(one_of(zeros({2})), one_of(zeros({2})), {}, {}, {}, {}); });
  cases.error("adam_list", "shapes", "fused_adam_: expected gradients of shape [2], got [3]", [=] {
    fused_adam_(one_of(zeros({2})), one_of(zeros({3})), one_of(zeros({2})), one_of(zeros({2})), {},
                {});
  });
  cases.error("sgd_list", "nesterov", "nesterov needs a momentum",
              [=] { fused_sgd_(one_of(zeros({2})), one_of(zeros({2})), {}, {.nesterov = true}); });
  cases.error("list_norm", "not finite", "is not finite",
              [=] { get_total_norm(one_of(full({2}, HUGE_VAL)), 2, true); });
}

}  // namespace

void multi_tensor_cases(Cases& cases) {
  add_adam(cases);
  add_masters(cases);
  add_sgd(cases);
  add_clips(cases);
  add_mistakes(cases);
}

}  // namespace tensora::suite
