#include "tensora/ops/shape/view_scatter.h"

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

// A case of `run(self, src)` whose result is `self` with `src` at the places that `place` gives.
void add(Cases& cases, const char* op, const char* name, const Shape& self, const Shape& src,
         std::function<Tensor(const Tensor&, const Tensor&)> run,
         std::function<Shape(const Shape&)> place) {
  cases.add({.op = op,
             .name = name,
             .inputs = {{self}, {src}},
             .run = [run](In x) { return one(run(x[0], x[1])); },
             .reference =
                 [place](Arrays x) {
                   Array out = x[0];
                   Array::each(x[1].sizes, [&](const Shape& i) { out.at(place(i)) = x[1].at(i); });
                   return one(out);
                 },
             .dtypes = all_dtypes()});
}

void scatter_cases(Cases& cases) {
  add(
      cases, "select_scatter", "a row", {3, 4}, {4},
      [](auto& x, auto& y) { return select_scatter(x, y, 0, -1); },
      [](const Shape& i) {
        return Shape{2, i[0]};
      });
  add(
      cases, "select_scatter", "a column", {3, 4, 2}, {3, 2},
      [](auto& x, auto& y) { return select_scatter(x, y, 1, 2); },
      [](const Shape& i) {
        return Shape{i[0], 2, i[1]};
      });
  add(
      cases, "slice_scatter", "every second", {7, 3}, {3, 3},
      [](auto& x, auto& y) { return slice_scatter(x, y, 0, 1, {}, 2); },
      [](const Shape& i) {
        return Shape{1 + 2 * i[0], i[1]};
      });
  add(
      cases, "slice_scatter", "nothing", {4, 3}, {4, 0},
      [](auto& x, auto& y) { return slice_scatter(x, y, 1, 2, 2); },
      [](const Shape& i) { return i; });
  add(
      cases, "slice_scatter", "all", {4}, {4}, [](auto& x, auto& y) { return slice_scatter(x, y); },
      [](const Shape& i) { return i; });
  add(
      cases, "diagonal_scatter", "below", {4, 3}, {3},
      [](auto& x, auto& y) { return diagonal_scatter(x, y, -1); },
      [](const Shape& i) {
        return Shape{i[0] + 1, i[0]};
      });
  add(
      cases, "diagonal_scatter", "batch", {2, 3, 3}, {2, 3},
      [](auto& x, auto& y) { return diagonal_scatter(x, y, 0, 1, 2); },
      [](const Shape& i) {
        return Shape{i[0], i[1], i[1]};
      });
  cases.error("select_scatter", "a src of another shape", "must have the shape of the part", [] {
    select_scatter(zeros({3, 4}), zeros({3}), 0, 0);
  });
  cases.error("slice_scatter", "a src of another shape", "must have the shape of the part", [] {
    slice_scatter(zeros({3, 4}), zeros({1, 4}), 0, 0, 2);
  });
  cases.error("diagonal_scatter", "a src of another shape", "must have the shape of the part", [] {
    diagonal_scatter(zeros({3, 4}), zeros({4}));
  });
  cases.error("as_strided_scatter", "a src of another shape", "must have the shape of the part",
              [] {
                as_strided_scatter(zeros({3, 4}), zeros({4}), {2}, {1});
              });
}

void strided_case(Cases& cases) {
  cases.add({.op = "as_strided_scatter",
             .name = "a diagonal",
             .inputs = {{{3, 3}}, {{3}}},
             .run = [](In x) { return one(as_strided_scatter(x[0], x[1], {3}, {4}, 0)); },
             .reference =
                 [](Arrays x) {
                   Array out = x[0];
                   for (int64_t i = 0; i < 3; ++i) out.at({i, i}) = x[1][i];
                   return one(out);
                 },
             .opt_out = {{Mode::view, "the strides belong to a contiguous tensor"}}});
}

void fill_diagonal_cases(Cases& cases) {
  const auto add_fill = [&](const Shape& sizes, bool wrap) {
    cases.add({.op = "fill_diagonal_",
               .name = concat(sizes, wrap ? " wrapped" : ""),
               .inputs = {{sizes}},
               .run = [wrap](In x) { return one(fill_diagonal_(clone(x[0]), 2, wrap)); },
               .reference =
                   [wrap](Arrays x) {
                     Array out = x[0];
                     const int64_t columns = out.sizes[out.sizes.size() - 1];
                     Array::each(out.sizes, [&](const Shape& i) {
                       bool equal = true;
                       for (int64_t k : i) equal &= k == i[0];
                       const int64_t row = wrap ? i[0] % (columns + 1) : i[0];
                       if (equal || (wrap && row == i[1])) out.at(i) = 2;
                     });
                     return one(out);
                   },
               .dtypes = {kFloat32, kFloat64, kInt64},
               .inplace = [wrap](In x) { fill_diagonal_(x[0], 2, wrap); }});
  };
  for (bool wrap : {false, true}) {
    add_fill({3, 3}, wrap);
    add_fill({7, 3}, wrap);
    add_fill({2, 5}, wrap);
    add_fill({0, 3}, wrap);
  }
  add_fill({3, 3, 3}, false);
  cases.error("fill_diagonal_", "a vector", "at least 2 dims",
              [] { fill_diagonal_(ones({2}), 1); });
  cases.error("fill_diagonal_", "a box", "all sizes to be equal", [] {
    fill_diagonal_(ones({2, 2, 3}), 1);
  });
}

}  // namespace

void view_scatter_cases(Cases& cases) {
  scatter_cases(cases);
  strided_case(cases);
  fill_diagonal_cases(cases);
}

}  // namespace tensora::suite
