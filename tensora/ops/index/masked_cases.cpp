#include <cmath>

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

struct Sample {
  const char* name;
  Shape sizes, mask;
};

const Sample kSamples[] = {{"matrix", {3, 4}, {3, 4}}, {"row mask", {3, 4}, {4}},
                           {"0-dim mask", {2, 3}, {}}, {"0-dim", {}, {}},
                           {"empty", {0, 3}, {0, 3}},  {"column mask", {2, 3, 2}, {3, 1}}};

Input mask_of(const Shape& sizes) {
  Input mask{.sizes = sizes, .dtype = kBool};
  for (int64_t i = 0; i < sizes.numel(); ++i) mask.values.push_back(i % 3 != 1);
  return mask;
}

Array filled(const Array& x, const Array& mask, double value) {
  const Array where = mask.broadcast_to(x.sizes);
  Array result = x;
  for (int64_t i = 0; i < x.numel(); ++i)
    if (where[i] != 0) result[i] = value;
  return result;
}

void add_fill(Cases& cases) {
  for (const Sample& sample : kSamples) {
    cases.add({.op = "masked_fill",
               .name = sample.name,
               .inputs = {{sample.sizes}, mask_of(sample.mask)},
               .run = [](In x) { return one(masked_fill(x[0], x[1], 1)); },
               .reference = [](Arrays x) { return one(filled(x[0], x[1], 1)); },
               .dtypes = all_dtypes(),
               .inplace = [](In x) { masked_fill_(x[0], x[1], 1); }});
    cases.add({.op = "masked_fill",
               .name = concat(sample.name, " by a tensor"),
               .inputs = {{sample.sizes}, mask_of(sample.mask), {{}}},
               .run = [](In x) { return one(masked_fill(x[0], x[1], x[2])); },
               .reference = [](Arrays x) { return one(filled(x[0], x[1], x[2][0])); },
               .inplace = [](In x) { masked_fill_(x[0], x[1], x[2]); }});
  }
  cases.add({.op = "masked_fill",
             .name = "a larger mask",
             .inputs = {{{3}}, mask_of({2, 3})},
             .run = [](In x) { return one(masked_fill(x[0], x[1], -0.5)); },
             .reference =
                 [](Arrays x) {
                   return one(filled(x[0].broadcast_to({2, 3}), x[1], -0.5));
                 }});
  cases.add({.op = "masked_fill",
             .name = "integers by a fraction",
             .inputs = {{{4}}, mask_of({4})},
             .run = [](In x) { return one(masked_fill(x[0], x[1], 1.5)); },
             .reference = [](Arrays x) { return one(filled(x[0], x[1], 1)); },
             .dtypes = integer_dtypes()});
  cases.add({.op = "masked_fill",
             .name = "minus infinity",
             .inputs = {{{4}}, mask_of({4})},
             .run = [](In x) { return one(masked_fill(x[0], x[1], -INFINITY)); },
             .reference = [](Arrays x) { return one(filled(x[0], x[1], -INFINITY)); },
             .opt_out = {{Mode::grad, "infinity has no finite differences"}}});
}

void add_select(Cases& cases) {
  for (const Sample& sample : kSamples)
    cases.add({.op = "masked_select",
               .name = sample.name,
               .inputs = {{sample.sizes}, mask_of(sample.mask)},
               .run = [](In x) { return one(masked_select(x[0], x[1])); },
               .reference =
                   [](Arrays x) {
                     const Array where = x[1].broadcast_to(x[0].sizes);
                     Array result(Shape{0});
                     for (int64_t i = 0; i < where.numel(); ++i)
                       if (where[i] != 0) result.values.push_back(x[0][i]);
                     result.sizes = {result.numel()};
                     return one(result);
                   },
               .dtypes = all_dtypes(),
               .opt_out = {{Mode::meta, "the shape depends on data"},
                           {Mode::jit, "the shape depends on data"}}});
}

}  // namespace

void masked_cases(Cases& cases) {
  add_fill(cases);
  add_select(cases);
  cases.error("masked_fill", "mask dtype", "expected a bool mask, got float32",
              [] { masked_fill(zeros({2}), zeros({2}), 1); });
  cases.error("masked_fill", "shapes", "cannot be broadcast together",
              [] { masked_fill(zeros({2}), zeros({3}, {.dtype = kBool}), 1); });
  cases.error("masked_fill", "value", "expected a 0-dim value",
              [] { masked_fill(zeros({2}), zeros({2}, {.dtype = kBool}), zeros({1})); });
  cases.error("masked_fill", "complex value", "a complex number cannot be stored as int64", [] {
    masked_fill(zeros({2}, {.dtype = kInt64}), zeros({2}, {.dtype = kBool}),
                tensor(Complex<double>(0, 1)));
  });
  cases.error("masked_fill_", "larger mask", "does not fit in place", [] {
    masked_fill_(zeros({3}), zeros({2, 3}, {.dtype = kBool}), 1);
  });
  cases.error("masked_fill_", "larger mask for a tensor", "cannot be broadcast to shape [3]", [] {
    masked_fill_(zeros({3}), zeros({2, 3}, {.dtype = kBool}), zeros({}));
  });
  cases.error("masked_select", "mask dtype", "expected a bool mask",
              [] { masked_select(zeros({2}), zeros({2})); });
  cases.error("masked_select", "shapes", "cannot be broadcast together",
              [] { masked_select(zeros({2}), zeros({3}, {.dtype = kBool})); });
}

}  // namespace tensora::suite
