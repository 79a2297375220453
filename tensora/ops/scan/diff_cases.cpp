#include "tensora/ops/scan/diff.h"

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

Array differences(Array x, int64_t n, int dim) {
  for (int64_t round = 0; round < n; ++round) {
    Shape sizes = x.sizes;
    sizes[dim] = std::max<int64_t>(0, sizes[dim] - 1);
    Array next(sizes);
    Array::each(sizes, [&](const Shape& at) {
      Shape after = at;
      ++after[dim];
      next.at(at) = x.at(after) - x.at(at);
    });
    x = next;
  }
  return x;
}

}  // namespace

void diff_cases(Cases& cases) {
  const auto add = [&](const char* name, const Shape& sizes, int64_t n, int dim) {
    cases.add({.op = "diff",
               .name = name,
               .inputs = {{sizes}},
               .run = [=](In x) { return one(diff(x[0], n, dim)); },
               .reference = [=](Arrays x) { return one(differences(x[0], n, dim)); },
               .dtypes = {kFloat64, kFloat32, kInt64, kInt32},
               .tolerance = 4});
  };
  add("rows", {3, 5}, 1, 1);
  add("columns, twice", {5, 2}, 2, 0);
  add("more often than there are elements", {2, 3}, 5, 1);
  add("empty", {0}, 1, 0);
  cases.add({.op = "diff",
             .name = "bools",
             .inputs = {{.sizes = {2, 5}, .dtype = kBool}},
             .run = [](In x) { return one(diff(x[0])); },
             .reference =
                 [](Arrays x) {
                   Array out = differences(x[0], 1, 1);
                   for (double& v : out.values) v = v * v;
                   return one(out);
                 },
             .dtypes = {kFloat32},
             .output_dtype = [](DType) { return kBool; },
             .opt_out = {{Mode::grad, "of bools"}}});
  cases.add({.op = "diff",
             .name = "joined",
             .inputs = {{{4}}, {{2}}, {{1}}},
             .run = [](In x) { return one(diff(x[0], 1, -1, x[1], x[2])); },
             .reference =
                 [](Arrays x) {
                   Array all({7});
                   all.values = x[1].values;
                   for (const Array* part : {&x[0], &x[2]})
                     all.values.insert(all.values.end(), part->values.begin(), part->values.end());
                   return one(differences(all, 1, 0));
                 },
             .tolerance = 2});
  for (const Shape& sizes : {Shape{3, 3}, Shape{2, 5}, Shape{0, 3}})
    cases.add({.op = "trace",
               .name = concat(sizes),
               .inputs = {{sizes}},
               .run = [](In x) { return one(trace(x[0])); },
               .reference =
                   [](Arrays x) {
                     Array out{Shape{}};
                     for (int64_t i = 0; i < std::min(x[0].sizes[0], x[0].sizes[1]); ++i)
                       out[0] += x[0].at({i, i});
                     return one(out);
                   },
               .dtypes = number_dtypes(),
               .output_dtype = [](DType d) { return is_floating_point(d) ? d : kInt64; }});
  cases.error("diff", "0-dim", "at least one dimension", [] { diff(ones({})); });
  cases.error("diff", "n below 0", "n must not be negative", [] { diff(ones({2}), -1); });
  cases.error("diff", "prepend of other dims", "as many dimensions as self", [] {
    diff(ones({2, 2}), 1, 0, ones({1}));
  });
  cases.error("trace", "of a vector", "expected a matrix", [] { trace(ones({2})); });
}

}  // namespace tensora::suite
