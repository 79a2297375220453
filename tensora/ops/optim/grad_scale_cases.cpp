#include "tensora/dispatch/op.h"
#include "tensora/ops/optim/grad_scale_op.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

Tensor number(double value, const Tensor& like) {
  return full({}, value, {.dtype = kFloat32, .device = like.device()});
}

void add_unscale(Cases& cases) {
  const std::map<Mode, std::string> reasons = {{Mode::grad, "gradients are only scaled in place"},
                                               {Mode::view, "the tensors are dense by contract"}};
  cases.add({.op = "list_unscale",
             .name = "factor",
             .inputs = {{{7, 3}}, {{2500}}, {{}}},
             .run =
                 [](In x) {
                   const Tensors all = apply_all(
                       list_unscale_op, {number(0, x[0]), x[0], x[1], x[2], number(0.25, x[0])});
                   return Out(all.begin() + 1, all.end());
                 },
             .reference =
                 [](Arrays x) {
                   ArrayList out(x.begin(), x.end());
                   for (Array& array : out)
                     for (double& value : array.values) value *= 0.25;
                   return out;
                 },
             .opt_out = reasons});
  for (const bool infinite : {false, true})
    cases.add({.op = "list_unscale",
               .name = infinite ? "infinite" : "finite",
               .inputs = {{{7, 3}}, {{2500}}},
               .run =
                   [infinite](In x) {
                     const Tensor second = infinite ? x[1] / 0.0 : x[1];
                     return one(apply_all(list_unscale_op, {number(0, x[0]), x[0], second},
                                          {.check_only = true})[0]
                                    .to(x[0].dtype()));
                   },
               .reference =
                   [infinite](Arrays) {
                     Array out(Shape{});
                     out[0] = infinite;
                     return one(out);
                   },
               .opt_out = reasons});
  cases.error("list_unscale", "gaps", "gradients must be dense", [] {
    const Tensor flag = zeros({});
    apply_all(list_unscale_op, {flag, zeros({4}).slice(0, 0, 4, 2)}, {.check_only = true});
  });
}

void add_update(Cases& cases) {
  struct Row {
    const char* name;
    double scale;
    int64_t successes;
    double found, new_scale, new_tracker;
  };
  const Row rows[] = {{"a good step", 8, 1, 0, 8, 2},
                      {"growth", 8, 2, 0, 16, 0},
                      {"backoff", 8, 2, 1, 2, 0},
                      {"no growth beyond float32", 3e38, 2, 0, 3e38, 0}};
  for (const Row& row : rows)
    cases.add({.op = "update_scale",
               .name = row.name,
               .inputs = {{{1}}},
               .run =
                   [row](In x) {
                     const Tensor tracker =
                         full({}, row.successes, {.dtype = kInt32, .device = x[0].device()});
                     const Tensors all = apply_all(
                         update_scale_op,
                         {number(row.scale, x[0]), tracker, number(row.found, x[0])},
                         {.growth_factor = 2, .backoff_factor = 0.25, .growth_interval = 3});
                     return Out(all.begin(), all.end());
                   },
               .reference =
                   [row](Arrays) {
                     ArrayList out{Array(Shape{}), Array(Shape{})};
                     out[0][0] = row.new_scale;
                     out[1][0] = row.new_tracker;
                     return out;
                   },
               .dtypes = {kFloat32},
               .opt_out = {{Mode::grad, "the scale has no gradient"},
                           {Mode::view, "the tensors are single numbers"}},
               .output_dtypes = {kFloat32, kInt32}});
}

}  // namespace

void grad_scale_cases(Cases& cases) {
  add_unscale(cases);
  add_update(cases);
}

}  // namespace tensora::suite
