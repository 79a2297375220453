#include "tensora/ops/shape/columns.h"

#include <cmath>

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

Out all_of(std::vector<Tensor> parts) { return parts; }

void stack_cases(Cases& cases) {
  cases.add({.op = "column_stack",
             .name = "vectors and a matrix",
             .inputs = {{{3}}, {{3, 2}}, {{3}}},
             .run =
                 [](In x) {
                   return one(column_stack({x.begin(), x.end()}));
                 },
             .reference =
                 [](Arrays x) {
                   Array out({3, 4});
                   for (int64_t i = 0; i < 3; ++i) {
                     out.at({i, 0}) = x[0][i];
                     out.at({i, 1}) = x[1].at({i, 0});
                     out.at({i, 2}) = x[1].at({i, 1});
                     out.at({i, 3}) = x[2][i];
                   }
                   return one(out);
                 },
             .dtypes = all_dtypes()});
  cases.add({.op = "column_stack",
             .name = "numbers",
             .inputs = {{{}}, {{}}},
             .run =
                 [](In x) {
                   return one(column_stack({x[0], x[1]}));
                 },
             .reference =
                 [](Arrays x) {
                   Array out({1, 2});
                   out.values = {x[0][0], x[1][0]};
                   return one(out);
                 }});
  cases.add({.op = "concat",
             .name = "rows",
             .inputs = {{{2, 3}}, {{1, 3}}},
             .run =
                 [](In x) {
                   return one(concat(std::vector<Tensor>{x[0], x[1]}, 0));
                 },
             .reference =
                 [](Arrays x) {
                   Array out({3, 3});
                   out.values = x[0].values;
                   out.values.insert(out.values.end(), x[1].values.begin(), x[1].values.end());
                   return one(out);
                 }});
  cases.error("column_stack", "nothing", "at least one", [] { column_stack({}); });
}

// Parts of a dim that end where `ends` says.
void add_split(Cases& cases, const char* op, const char* name, const Shape& sizes, int dim,
               std::vector<int64_t> ends, std::function<Out(const Tensor&)> run) {
  cases.add({.op = op,
             .name = name,
             .inputs = {{sizes}},
             .run = [run](In x) { return run(x[0]); },
             .reference =
                 [dim, ends](Arrays x) {
                   ArrayList parts;
                   int64_t start = 0;
                   for (int64_t end : ends) {
                     Shape part = x[0].sizes;
                     part[dim] = end - start;
                     Array out(part);
                     Array::each(part, [&](const Shape& i) {
                       Shape from = i;
                       from[dim] += start;
                       out.at(i) = x[0].at(from);
                     });
                     parts.push_back(out);
                     start = end;
                   }
                   return parts;
                 },
             .is_view = true});
}

void split_cases(Cases& cases) {
  add_split(cases, "hsplit", "a vector", {6}, 0, {2, 4, 6},
            [](const Tensor& x) { return all_of(hsplit(x, 3)); });
  add_split(cases, "hsplit", "columns at indices", {2, 5}, 1, {1, 3, 5}, [](const Tensor& x) {
    return all_of(hsplit(x, std::vector<int64_t>{1, 3}));
  });
  add_split(cases, "vsplit", "rows", {4, 3}, 0, {2, 4},
            [](const Tensor& x) { return all_of(vsplit(x, 2)); });
  add_split(cases, "vsplit", "rows at indices", {4, 3}, 0, {1, 4},
            [](const Tensor& x) { return all_of(vsplit(x, std::vector<int64_t>{1})); });
  add_split(cases, "dsplit", "in depth", {2, 1, 4}, 2, {1, 2, 3, 4},
            [](const Tensor& x) { return all_of(dsplit(x, 4)); });
  add_split(cases, "dsplit", "in depth at indices", {2, 1, 4}, 2, {3, 4},
            [](const Tensor& x) { return all_of(dsplit(x, std::vector<int64_t>{3})); });
  cases.error("hsplit", "a number", "at least 1 dims", [] { hsplit(ones({}), 1); });
  cases.error("vsplit", "a vector", "at least 2 dims", [] { vsplit(ones({4}), 2); });
  cases.error("dsplit", "a matrix", "at least 3 dims", [] { dsplit(ones({4, 4}), 2); });
  cases.error("hsplit", "parts that are not equal", "into 3 equal parts", [] {
    hsplit(ones({2, 4}), 3);
  });
  cases.error("hsplit", "no parts", "must be positive", [] { hsplit(ones({2, 4}), 0); });
}

void choice_cases(Cases& cases) {
  for (bool increasing : {false, true})
    cases.add({.op = "vander",
               .name = increasing ? "increasing" : "decreasing",
               .inputs = {{{4}}},
               .run = [increasing](In x) { return one(vander(x[0], 3, increasing)); },
               .reference =
                   [increasing](Arrays x) {
                     Array out({4, 3});
                     Array::each(out.sizes, [&](const Shape& i) {
                       out.at(i) = std::pow(x[0][i[0]], double(increasing ? i[1] : 2 - i[1]));
                     });
                     return one(out);
                   },
               .dtypes = {kFloat32, kFloat64, kInt64},
               .tolerance = 4});
  cases.add({.op = "cartesian_prod",
             .name = "two vectors",
             .inputs = {{{3}}, {{2}}},
             .run =
                 [](In x) {
                   return one(cartesian_prod({x[0], x[1]}));
                 },
             .reference =
                 [](Arrays x) {
                   Array out({6, 2});
                   for (int64_t i = 0; i < 6; ++i) {
                     out.at({i, 0}) = x[0][i / 2];
                     out.at({i, 1}) = x[1][i % 2];
                   }
                   return one(out);
                 },
             .dtypes = all_dtypes()});
  for (bool repeats : {false, true})
    for (int64_t n : {0, 1, 5})
      cases.add({.op = "combinations",
                 .name = concat(n, repeats ? " with replacement" : ""),
                 .inputs = {{{n}}},
                 .run = [repeats](In x) { return one(combinations(x[0], 2, repeats)); },
                 .reference =
                     [repeats, n](Arrays x) {
                       Array out({repeats ? n * (n + 1) / 2 : n * (n - 1) / 2, 2});
                       int64_t row = 0;
                       for (int64_t i = 0; i < n; ++i)
                         for (int64_t k = repeats ? i : i + 1; k < n; ++k, ++row) {
                           out.at({row, 0}) = x[0][i];
                           out.at({row, 1}) = x[0][k];
                         }
                       return one(out);
                     },
                 .dtypes = {kFloat32, kFloat64, kInt64}});
  cases.error("vander", "a matrix", "expected a vector", [] { vander(ones({2, 2})); });
  cases.error("cartesian_prod", "a matrix", "expected vectors", [] {
    cartesian_prod({ones({2, 2})});
  });
  cases.error("combinations", "negative r", "must not be negative",
              [] { combinations(ones({2}), -1); });
}

}  // namespace

void columns_cases(Cases& cases) {
  stack_cases(cases);
  split_cases(cases);
  choice_cases(cases);
}

}  // namespace tensora::suite
