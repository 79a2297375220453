#include <cmath>

#include "tensora/dispatch/op.h"
#include "tensora/ops/optim/adam.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

ArrayList reference(Arrays in, const AdamAttrs& a) {
  ArrayList out = {in[0], in[1], in[2]};
  const double step = static_cast<double>(a.step);
  for (int64_t i = 0; i < in[0].numel(); ++i) {
    const double g = in[3][i] + (a.decoupled ? 0 : a.weight_decay * in[0][i]);
    out[1][i] = a.beta1 * in[1][i] + (1 - a.beta1) * g;
    out[2][i] = a.beta2 * in[2][i] + (1 - a.beta2) * g * g;
    const double m = out[1][i] / (1 - std::pow(a.beta1, step));
    const double v = out[2][i] / (1 - std::pow(a.beta2, step));
    const double kept = a.decoupled ? in[0][i] * (1 - a.lr * a.weight_decay) : in[0][i];
    out[0][i] = kept - a.lr * m / (std::sqrt(v) + a.eps);
  }
  return out;
}

void add_channels_last(Cases& cases) {
  cases.add({.op = "adam",
             .name = "channels last",
             .inputs = {{{2, 3, 4, 5}},
                        {{2, 3, 4, 5}},
                        {.sizes = {2, 3, 4, 5}, .low = 0.01, .high = 1},
                        {{2, 3, 4, 5}}},
             .run =
                 [](In x) {
                   Out laid_out;
                   for (size_t i = 0; i < 3; ++i) {
                     laid_out.push_back(
                         empty_strided({2, 3, 4, 5}, {60, 1, 15, 3},
                                       {.dtype = x[i].dtype(), .device = x[i].device()}));
                     copy_(laid_out[i], x[i]);
                   }
                   adam_(laid_out[0], laid_out[1], laid_out[2], x[3], {.lr = 0.1, .step = 2});
                   return laid_out;
                 },
             .reference = [](Arrays x) { return reference(x, {.lr = 0.1, .step = 2}); },
             .tolerance = 4,
             .opt_out = {{Mode::grad, "an optimizer step has no gradient"}}});
}

void add_mistakes(Cases& cases) {
  cases.error("adam", "gaps", "without gaps", [] {
    const Tensor x = zeros({4, 4}).slice(1, 0, 4, 2);
    adam_(x, zeros({4, 2}), zeros({4, 2}), zeros({4, 2}), {});
  });
  cases.error("adam", "moments of another layout", "laid out alike", [] {
    adam_(zeros({3, 2}).t(), zeros({2, 3}), zeros({2, 3}), zeros({2, 3}), {});
  });
  cases.error("adam", "a step of the wrong dtype", "one float32 number", [] {
    const Tensor x = zeros({2});
    adam_(x, zeros({2}), zeros({2}), zeros({2}), ones({}, {.dtype = kInt64}), {});
  });
  cases.error("adam", "shapes differ", "all tensors must be",
              [] { adam_(zeros({2}), zeros({2}), zeros({2}), zeros({3}), {}); });
  cases.error("adam", "step zero", "counted from 1",
              [] { adam_(zeros({2}), zeros({2}), zeros({2}), zeros({2}), {.step = 0}); });
}

}  // namespace

void adam_cases(Cases& cases) {
  const std::pair<const char*, AdamAttrs> samples[] = {
      {"first step", {}},
      {"later step", {.lr = 0.1, .step = 17}},
      {"weight decay", {.lr = 0.1, .weight_decay = 0.3, .step = 3}},
      {"AdamW", {.lr = 0.1, .weight_decay = 0.3, .step = 3, .decoupled = true}},
  };
  for (const auto& [name, attrs] : samples) {
    for (const Shape& sizes : {Shape{7}, Shape{3, 700}, Shape{0}}) {
      cases.add(
          {.op = "adam",
           .name = concat(name, " ", sizes),
           .inputs = {{sizes}, {sizes}, {.sizes = sizes, .low = 0.01, .high = 1}, {sizes}},
           .run =
               [attrs = attrs](In x) {
                 const Tensors out = apply_all(adam_op, {x[0], x[1], x[2], x[3]}, attrs);
                 return Out{out[0], out[1], out[2]};
               },
           .reference = [attrs = attrs](Arrays x) { return reference(x, attrs); },
           .tolerance = 4,
           .opt_out = {{Mode::grad, "an optimizer step has no gradient"},
                       {Mode::view, "the tensors have one layout without gaps by contract"}}});
      // The step as a tensor of the same number.
      const auto step = static_cast<double>(attrs.step);
      cases.add(
          {.op = "adam",
           .name = concat(name, " counted ", sizes),
           .inputs = {{sizes}, {sizes}, {.sizes = sizes, .low = 0.01, .high = 1}, {sizes}},
           .run =
               [attrs = attrs, step](In x) {
                 const Tensor number = full({}, step, {.dtype = kFloat32, .device = x[0].device()});
                 AdamAttrs unnumbered = attrs;
                 unnumbered.step = 1;
                 const Tensors out =
                     apply_all(adam_op, {x[0], x[1], x[2], x[3], number}, unnumbered);
                 return Out{out[0], out[1], out[2]};
               },
           .reference = [attrs = attrs](Arrays x) { return reference(x, attrs); },
           .tolerance = 4,
           .opt_out = {{Mode::grad, "an optimizer step has no gradient"},
                       {Mode::view, "the tensors have one layout without gaps by contract"}}});
    }
  }
  add_channels_last(cases);
  add_mistakes(cases);
}

}  // namespace tensora::suite
