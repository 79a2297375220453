#include "tensora/dispatch/op.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

struct Sample {
  const char* name;
  Shape sizes;
  int64_t dim, size, step;
  Shape windows;
};

Array windows_of(const Array& x, const Sample& sample) {
  Array result(sample.windows);
  const int count = x.sizes.size();
  const int at = static_cast<int>(sample.dim < 0 ? sample.dim + count : sample.dim);
  Array::each(sample.windows, [&](const Shape& index) {
    Shape from = index;
    from.resize(count);
    if (count > 0) from[at] = index[at] * sample.step + index.back();
    result.at(index) = x.at(from);
  });
  return result;
}

}  // namespace

void sliding_cases(Cases& cases) {
  const Sample samples[] = {
      {"overlapping", {7}, 0, 3, 2, {3, 3}},
      {"rows", {5, 2}, 0, 2, 1, {4, 2, 2}},
      {"columns", {2, 6}, -1, 2, 2, {2, 3, 2}},
      {"gaps", {2, 7, 3}, 1, 2, 4, {2, 2, 3, 2}},
      {"a rest that no window holds", {6}, 0, 4, 3, {1, 4}},
      {"0-dim", {}, 0, 1, 1, {1}},
      {"empty windows", {3}, 0, 0, 1, {4, 0}},
      {"empty tensor", {0, 3}, 1, 2, 1, {0, 2, 2}},
  };
  for (const Sample& sample : samples)
    cases.add({.op = "unfold",
               .name = sample.name,
               .inputs = {{sample.sizes}},
               .run = [=](In x) { return one(unfold(x[0], sample.dim, sample.size, sample.step)); },
               .reference = [=](Arrays x) { return one(windows_of(x[0], sample)); },
               .dtypes = all_dtypes(),
               .is_view = true});
  cases.add({.op = "unfold_backward",
             .name = "overlapping",
             .inputs = {{{3, 2, 3}}},
             .run =
                 [](In x) {
                   return one(apply(sliding_backward_op, {x[0]}, {{7, 2}, 0, 3, 2}));
                 },
             .reference =
                 [](Arrays x) {
                   Array result(Shape{7, 2});
                   Array::each(x[0].sizes, [&](const Shape& at) {
                     result.at({at[0] * 2 + at[2], at[1]}) += x[0].at(at);
                   });
                   return one(result);
                 }});
  cases.error("unfold", "size", "window size must be between 0 and 3",
              [] { unfold(zeros({3}), 0, 4, 1); });
  cases.error("unfold", "step", "step must be positive", [] { unfold(zeros({3}), 0, 1, 0); });
  cases.error("unfold", "dim out of range", "unfold: dimension out of range",
              [] { unfold(zeros({3}), 1, 1, 1); });
}

}  // namespace tensora::suite
