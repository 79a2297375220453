#include "tests/suite/cases.h"

namespace tensora::suite {

void fill_cases(Cases& cases) {
  for (const Shape& sizes : {Shape{}, Shape{5}, Shape{3, 4}, Shape{2, 0}, Shape{2, 3, 4, 5}}) {
    for (double value : {0.0, 1.0, 2.0}) {
      cases.add({.op = "fill",
                 .name = concat("with ", value, " ", sizes),
                 .inputs = {{sizes}},
                 .run = [value](In x) { return one(fill(x[0], value)); },
                 .reference = [value](Arrays x) { return one(Array(x[0].sizes, value)); },
                 .dtypes = element_dtypes(),
                 .inplace = [value](In x) { fill_(x[0], value); }});
    }
    cases.add({.op = "zero_",
               .name = to_string(sizes),
               .inputs = {{sizes}},
               .run = [](In x) { return one(fill(x[0], 0)); },
               .reference = [](Arrays x) { return one(Array(x[0].sizes)); },
               .dtypes = element_dtypes(),
               .inplace = [](In x) { zero_(x[0]); }});
  }
  cases.add({.op = "fill",
             .name = "large",
             .inputs = {{{1 << 22}}},
             .run = [](In x) { return one(fill(x[0], 3)); },
             .dtypes = {kFloat32},
             .big = true});
  cases.add({.op = "fill",
             .name = "an expanded tensor without elements",
             .inputs = {{{1, 0}}},
             .run =
                 [](In x) {
                   return one(fill_(expand(clone(x[0]), {3, 0}), 1));
                 },
             .reference =
                 [](Arrays) {
                   return one(Array({3, 0}));
                 }});
  cases.error("fill", "an expanded tensor", "share one memory location",
              [] { fill_(as_strided(zeros({1}), {3}, {0}), 1); });
  cases.error("fill", "a leaf that requires grad", "leaf",
              [] { fill_(zeros({2}, {.requires_grad = true}), 1); });
}

}  // namespace tensora::suite
