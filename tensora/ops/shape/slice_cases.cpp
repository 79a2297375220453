#include "tensora/dispatch/op.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

// `count` entries of one dim from `start` by `step`.
Array sliced(const Array& x, int dim, int64_t start, int64_t step, int64_t count) {
  Shape sizes = x.sizes;
  sizes[dim] = count;
  Array result(sizes);
  Array::each(sizes, [&](const Shape& index) {
    Shape from = index;
    from[dim] = start + index[dim] * step;
    result.at(index) = x.at(from);
  });
  return result;
}

struct Sample {
  const char* op;
  const char* name;
  Shape sizes;
  int dim;
  int64_t start, step, count;
  Tensor (*run)(const Tensor&);
};

const Sample kSamples[] = {
    {"narrow", "rows", {5, 3}, 0, 1, 1, 3, [](const Tensor& x) { return narrow(x, 0, 1, 3); }},
    {"narrow", "columns", {3, 5}, 1, 2, 1, 2, [](const Tensor& x) { return narrow(x, -1, -3, 2); }},
    {"narrow",
     "nothing at the end",
     {4, 2},
     0,
     4,
     1,
     0,
     [](const Tensor& x) { return narrow(x, 0, 4, 0); }},
    {"narrow", "all", {4}, 0, 0, 1, 4, [](const Tensor& x) { return narrow(x, 0, 0, 4); }},
    {"slice", "all", {4, 3}, 0, 0, 1, 4, [](const Tensor& x) { return slice(x); }},
    {"slice", "step", {2, 8}, 1, 1, 3, 3, [](const Tensor& x) { return slice(x, 1, 1, 8, 3); }},
    {"slice",
     "step inside",
     {9, 2},
     0,
     2,
     2,
     3,
     [](const Tensor& x) { return slice(x, 0, 2, 7, 2); }},
    {"slice", "negative", {6, 2}, 0, 2, 1, 3, [](const Tensor& x) { return slice(x, 0, -4, -1); }},
    {"slice",
     "beyond the ends",
     {3, 2},
     0,
     0,
     1,
     3,
     [](const Tensor& x) { return slice(x, 0, -10, 10); }},
    {"slice", "nothing", {3, 2}, 0, 2, 1, 0, [](const Tensor& x) { return slice(x, 0, 2, 1); }},
    {"slice",
     "of an empty dim",
     {0, 2},
     0,
     0,
     1,
     0,
     [](const Tensor& x) { return slice(x, 0, 0, 5); }},
    {"slice",
     "middle dim",
     {2, 4, 3},
     1,
     1,
     2,
     2,
     [](const Tensor& x) { return slice(x, -2, 1, {}, 2); }},
};

struct Selection {
  const char* op;
  const char* name;
  Shape sizes;
  int dim;
  int64_t index;
  Tensor (*run)(const Tensor&);
};

const Selection kSelections[] = {
    {"select", "row", {3, 4}, 0, 1, [](const Tensor& x) { return select(x, 0, 1); }},
    {"select", "column", {3, 4}, 1, 3, [](const Tensor& x) { return select(x, 1, -1); }},
    {"select", "middle", {2, 3, 4}, 1, 2, [](const Tensor& x) { return select(x, -2, 2); }},
    {"select", "to 0-dim", {5}, 0, 4, [](const Tensor& x) { return select(x, 0, 4); }},
    {"select", "of an empty tensor", {3, 0}, 0, 2, [](const Tensor& x) { return select(x, 0, 2); }},
    {"operator[]", "first dim", {3, 2}, 0, 2, [](const Tensor& x) { return x[-1]; }},
};

void add_selections(Cases& cases) {
  for (const Selection& sample : kSelections)
    cases.add({.op = sample.op,
               .name = sample.name,
               .inputs = {{sample.sizes}},
               .run = [run = sample.run](In x) { return one(run(x[0])); },
               .reference =
                   [sample](Arrays x) {
                     Array result = sliced(x[0], sample.dim, sample.index, 1, 1);
                     result.sizes.erase(sample.dim);
                     return one(result);
                   },
               .dtypes = element_dtypes(),
               .is_view = true});
}

void add_backward(Cases& cases) {
  cases.add({.op = "slice_backward",
             .name = "with gaps",
             .inputs = {{{2, 3, 2}}},
             .run =
                 [](In x) {
                   return one(apply(slice_backward_op, {x[0]}, {{2, 9, 2}, 1, 1, 3}));
                 },
             .reference =
                 [](Arrays x) {
                   Array result(Shape{2, 9, 2});
                   Array::each(x[0].sizes, [&](const Shape& at) {
                     result.at({at[0], 1 + 3 * at[1], at[2]}) = x[0].at(at);
                   });
                   return one(result);
                 },
             .dtypes = element_dtypes()});
}

void add_errors(Cases& cases) {
  cases.error("narrow", "0-dim", "a 0-dim tensor cannot be narrowed",
              [] { narrow(zeros({}), 0, 0, 0); });
  cases.error("narrow", "too long", "start 1 + length 3 exceeds the size 3",
              [] { narrow(zeros({3}), 0, 1, 3); });
  cases.error("narrow", "start out of range", "start 4 is out of range",
              [] { narrow(zeros({3}), 0, 4, 0); });
  cases.error("narrow", "negative length", "length must not be negative",
              [] { narrow(zeros({3}), 0, 0, -1); });
  cases.error("narrow", "dim out of range", "narrow: dimension out of range",
              [] { narrow(zeros({3}), 1, 0, 1); });
  cases.error("slice", "0-dim", "a 0-dim tensor cannot be sliced", [] { slice(zeros({}), 0); });
  cases.error("slice", "step", "step must be positive, got 0",
              [] { slice(zeros({3}), 0, 0, 2, 0); });
  cases.error("slice", "dim out of range", "slice: dimension out of range",
              [] { slice(zeros({3}), 1); });
  cases.error("select", "0-dim", "a 0-dim tensor cannot be indexed",
              [] { select(zeros({}), 0, 0); });
  cases.error("select", "index out of range",
              "index 3 is out of bounds for dimension 0 with size 3",
              [] { select(zeros({3}), 0, 3); });
  cases.error("select", "negative out of range", "index -4 is out of bounds for dimension 0",
              [] { select(zeros({3}), 0, -4); });
  cases.error("select", "dim out of range", "select: dimension out of range",
              [] { select(zeros({3}), 1, 0); });
  cases.error("operator[]", "index out of range", "index 2 is out of bounds", [] {
    zeros({2, 3})[2];
  });
}

}  // namespace

void slice_cases(Cases& cases) {
  for (const Sample& sample : kSamples)
    cases.add({.op = sample.op,
               .name = sample.name,
               .inputs = {{sample.sizes}},
               .run = [run = sample.run](In x) { return one(run(x[0])); },
               .reference =
                   [sample](Arrays x) {
                     return one(sliced(x[0], sample.dim, sample.start, sample.step, sample.count));
                   },
               .dtypes = element_dtypes(),
               .is_view = true});
  add_selections(cases);
  add_backward(cases);
  add_errors(cases);
}

}  // namespace tensora::suite
