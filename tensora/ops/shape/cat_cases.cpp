#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

Array joined(Arrays x, int dim) {
  Shape sizes = x[0].sizes;
  sizes[dim] = 0;
  for (const Array& part : x) sizes[dim] += part.sizes[dim];
  Array result(sizes);
  int64_t start = 0;
  for (const Array& part : x) {
    Array::each(part.sizes, [&](const Shape& index) {
      Shape to = index;
      to[dim] += start;
      result.at(to) = part.at(index);
    });
    start += part.sizes[dim];
  }
  return result;
}

Array reshaped(const Array& x, const Shape& sizes) {
  Array result(sizes);
  result.values = x.values;
  return result;
}

std::vector<Tensor> list(In x) { return {x.begin(), x.end()}; }

void add_cat(Cases& cases) {
  struct Sample {
    const char* name;
    std::vector<Input> inputs;
    int64_t dim;
  };
  const Sample samples[] = {
      {"rows", {{{2, 3}}, {{1, 3}}, {{4, 3}}}, 0},
      {"columns", {{{3, 2}}, {{3, 4}}}, -1},
      {"single columns", {{{5, 1}}, {{5, 1}}, {{5, 1}}}, 1},
      {"middle", {{{2, 1, 3}}, {{2, 4, 3}}}, 1},
      {"vectors", {{{3}}, {{0}}, {{5}}}, 0},
      {"one tensor", {{{2, 2}}}, 1},
      {"with an empty part", {{{2, 3}}, {{0, 3}}}, 0},
      {"all empty", {{{0, 3}}, {{0, 3}}}, 1},
      {"long rows", {{{3, 40}}, {{3, 17}}}, 1},
      {"four dims", {{{2, 2, 1, 3}}, {{2, 2, 2, 3}}}, 2},
  };
  for (const Sample& sample : samples)
    cases.add({.op = "cat",
               .name = sample.name,
               .inputs = sample.inputs,
               .run = [dim = sample.dim](In x) { return one(cat(list(x), dim)); },
               .reference =
                   [dim = sample.dim](Arrays x) {
                     return one(
                         joined(x, static_cast<int>(dim < 0 ? dim + x[0].sizes.size() : dim)));
                   },
               .dtypes = element_dtypes()});
  cases.add({.op = "cat",
             .name = "an empty vector among matrices",
             .inputs = {{{2, 3}}, {{0}}, {{1, 3}}},
             .run = [](In x) { return one(cat(list(x))); },
             .reference =
                 [](Arrays x) {
                   const Array kept[] = {x[0], x[2]};
                   return one(joined(kept, 0));
                 },
             .dtypes = element_dtypes()});
  cases.add({.op = "cat",
             .name = "promoted",
             .inputs = {{{2, 3}}, {.sizes = {2, 2}, .dtype = kInt32}},
             .run = [](In x) { return one(cat(list(x), 1)); },
             .reference = [](Arrays x) { return one(joined(x, 1)); }});
  cases.add({.op = "concatenate",
             .name = "rows",
             .inputs = {{{2, 3}}, {{1, 3}}},
             .run = [](In x) { return one(concatenate(list(x))); },
             .reference = [](Arrays x) { return one(joined(x, 0)); }});
  cases.add({.op = "cat",
             .name = "large",
             .inputs = {{{1024, 1024}}, {{1024, 1024}}},
             .run = [](In x) { return one(cat(list(x), 1)); },
             .dtypes = {kFloat32},
             .big = true});
}

void add_stack(Cases& cases) {
  struct Sample {
    const char* name;
    Shape sizes;
    int64_t dim;
    int at;
  };
  const Sample samples[] = {{"first", {2, 3}, 0, 0},
                            {"last", {2, 3}, -1, 2},
                            {"middle", {2, 3}, 1, 1},
                            {"0-dim", {}, 0, 0},
                            {"empty", {0, 2}, 1, 1}};
  for (const Sample& sample : samples)
    cases.add({.op = "stack",
               .name = sample.name,
               .inputs = {{sample.sizes}, {sample.sizes}, {sample.sizes}},
               .run = [dim = sample.dim](In x) { return one(stack(list(x), dim)); },
               .reference =
                   [at = sample.at](Arrays x) {
                     Shape widened = x[0].sizes;
                     widened.insert(at, 1);
                     ArrayList parts;
                     for (const Array& part : x) parts.push_back(reshaped(part, widened));
                     return one(joined(parts, at));
                   },
               .dtypes = element_dtypes()});
}

void add_stacks_by_name(Cases& cases) {
  struct Sample {
    const char* op;
    const char* name;
    Shape sizes, widened;
    int dim;
    Tensor (*run)(const std::vector<Tensor>&);
  };
  const Sample samples[] = {
      {"hstack", "0-dim", {}, {1}, 0, hstack},
      {"hstack", "vectors", {3}, {3}, 0, hstack},
      {"hstack", "matrices", {2, 3}, {2, 3}, 1, hstack},
      {"vstack", "vectors", {3}, {1, 3}, 0, vstack},
      {"vstack", "matrices", {2, 3}, {2, 3}, 0, vstack},
      {"dstack", "vectors", {3}, {1, 3, 1}, 2, dstack},
      {"dstack", "matrices", {2, 3}, {2, 3, 1}, 2, dstack},
  };
  for (const Sample& sample : samples)
    cases.add({.op = sample.op,
               .name = sample.name,
               .inputs = {{sample.sizes}, {sample.sizes}},
               .run = [run = sample.run](In x) { return one(run(list(x))); },
               .reference =
                   [sample](Arrays x) {
                     const Array parts[] = {reshaped(x[0], sample.widened),
                                            reshaped(x[1], sample.widened)};
                     return one(joined(parts, sample.dim));
                   },
               .dtypes = element_dtypes()});
  cases.add({.op = "block_diag",
             .name = "matrix, vector, number",
             .inputs = {{{2, 3}}, {{2}}, {{}}},
             .run = [](In x) { return one(block_diag(list(x))); },
             .reference =
                 [](Arrays x) {
                   Array result(Shape{4, 6});
                   Array::each({2, 3}, [&](const Shape& at) { result.at(at) = x[0].at(at); });
                   for (int64_t i = 0; i < 2; ++i) result.at({2, 3 + i}) = x[1][i];
                   result.at({3, 5}) = x[2][0];
                   return one(result);
                 },
             .dtypes = element_dtypes()});
}

}  // namespace

void cat_cases(Cases& cases) {
  add_cat(cases);
  add_stack(cases);
  add_stacks_by_name(cases);
  cases.add({.op = "block_diag",
             .name = "a 0-dim block yields in type promotion",
             .inputs = {{.sizes = {}, .dtype = kFloat64}, {.sizes = {1, 2}, .dtype = kFloat32}},
             .run =
                 [](In x) {
                   return one(block_diag({x[0], x[1]}));
                 },
             .reference =
                 [](Arrays x) {
                   Array result({2, 3});
                   result.values = {x[0][0], 0, 0, 0, x[1][0], x[1][1]};
                   return one(result);
                 },
             .dtypes = {kFloat32}});
  cases.error("cat", "no tensors", "at least one tensor", [] { cat({}); });
  cases.error("cat", "0-dim", "0-dim tensors cannot be joined", [] {
    cat({zeros({}), zeros({})});
  });
  cases.error("cat", "sizes", "sizes must match except in dimension 0", [] {
    cat({zeros({2, 3}), zeros({2, 4})});
  });
  cases.error("cat", "dims", "sizes must match", [] { cat({zeros({2, 3}), zeros({2})}); });
  cases.error("cat", "dim out of range", "cat: dimension out of range", [] {
    cat({zeros({2}), zeros({2})}, 1);
  });
  cases.error("cat", "undefined", "undefined", [] { cat({zeros({2}), Tensor()}); });
  cases.error("stack", "no tensors", "at least one tensor", [] { stack({}); });
  cases.error("stack", "shapes", "expected tensors of one shape", [] {
    stack({zeros({2}), zeros({3})});
  });
  cases.error("stack", "dim out of range", "stack: dimension out of range",
              [] { stack({zeros({2})}, 2); });
  cases.error("hstack", "no tensors", "at least one tensor", [] { hstack({}); });
  cases.error("vstack", "no tensors", "at least one tensor", [] { vstack({}); });
  cases.error("dstack", "no tensors", "at least one tensor", [] { dstack({}); });
  cases.error("block_diag", "three dims", "at most 2 dimensions", [] {
    block_diag({zeros({1, 1, 1})});
  });
}

}  // namespace tensora::suite
