#include "tests/suite/cases.h"

namespace tensora::suite {

void detach_cases(Cases& cases) {
  for (const Shape& sizes : {Shape{}, Shape{2, 3}, Shape{0, 2}})
    cases.add({.op = "detach",
               .name = to_string(sizes),
               .inputs = {{sizes}},
               .run = [](In x) { return one(x[0].detach()); },
               .reference = [](Arrays x) { return one(x[0]); },
               .dtypes = element_dtypes(),
               .opt_out = {{Mode::grad, "detaching is what stops a gradient"}},
               .is_view = true});
  // What is written to the alias of a leaf is allowed, as in PyTorch, and seen by both.
  cases.add({.op = "detach",
             .name = "written to",
             .inputs = {{{2, 3}}},
             .run =
                 [](In x) {
                   const Tensor leaf = x[0].clone().detach().requires_grad_();
                   fill_(leaf.detach(), 2);
                   return one(leaf.detach());
                 },
             .reference = [](Arrays x) { return one(Array(x[0].sizes, 2)); },
             .opt_out = {{Mode::grad, "detaching is what stops a gradient"}}});
}

}  // namespace tensora::suite
