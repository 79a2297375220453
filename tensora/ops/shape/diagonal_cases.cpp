#include <algorithm>

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

struct Plane {
  const char* name;
  Shape sizes;
  int64_t offset;
  int dim1, dim2;
};

// The index in the full tensor of an index in its diagonal.
Shape on_diagonal(const Shape& index, const Plane& plane) {
  Shape kept = index;
  kept.resize(kept.size() - 1);
  const int64_t step = index.back();
  const int64_t row = step + std::max<int64_t>(-plane.offset, 0);
  const int64_t column = step + std::max<int64_t>(plane.offset, 0);
  kept.insert(std::min(plane.dim1, plane.dim2), plane.dim1 < plane.dim2 ? row : column);
  kept.insert(std::max(plane.dim1, plane.dim2), plane.dim1 < plane.dim2 ? column : row);
  return kept;
}

Array diagonal_of(const Array& x, const Plane& plane, int64_t length) {
  Shape sizes;
  for (int d = 0; d < x.sizes.size(); ++d)
    if (d != plane.dim1 && d != plane.dim2) sizes.push_back(x.sizes[d]);
  sizes.push_back(length);
  Array result(sizes);
  Array::each(sizes,
              [&](const Shape& index) { result.at(index) = x.at(on_diagonal(index, plane)); });
  return result;
}

Array embedded(const Array& x, const Plane& plane, const Shape& sizes) {
  Array result(sizes);
  Array::each(x.sizes,
              [&](const Shape& index) { result.at(on_diagonal(index, plane)) = x.at(index); });
  return result;
}

void add_diagonal(Cases& cases) {
  const std::pair<Plane, int64_t> samples[] = {
      {{"square", {3, 3}, 0, 0, 1}, 3},   {{"above", {3, 4}, 1, 0, 1}, 3},
      {{"below", {4, 3}, -2, 0, 1}, 2},   {{"outside", {3, 3}, 5, 0, 1}, 0},
      {{"batch", {2, 3, 4}, 1, 1, 2}, 3}, {{"exchanged", {3, 2, 4}, 1, 2, 0}, 2},
      {{"empty", {0, 3}, 0, 0, 1}, 0},
  };
  for (const auto& [plane, length] : samples)
    cases.add(
        {.op = "diagonal",
         .name = plane.name,
         .inputs = {{plane.sizes}},
         .run = [plane = plane](
                    In x) { return one(diagonal(x[0], plane.offset, plane.dim1, plane.dim2)); },
         .reference = [plane = plane,
                       length = length](Arrays x) { return one(diagonal_of(x[0], plane, length)); },
         .dtypes = element_dtypes(),
         .is_view = true});
}

void add_embedding(Cases& cases) {
  const std::pair<Shape, Plane> samples[] = {
      {{3}, {"vector", {3, 3}, 0, 0, 1}},
      {{2, 3}, {"batch", {2, 3, 3}, 0, 1, 2}},
      {{2}, {"above", {4, 4}, 2, 0, 1}},
      {{2}, {"below", {3, 3}, -1, 0, 1}},
      {{2, 3}, {"first and last", {3, 2, 3}, 0, 0, 2}},
      {{0}, {"empty", {0, 0}, 0, 0, 1}},
  };
  for (const auto& [sizes, plane] : samples)
    cases.add(
        {.op = "diag_embed",
         .name = plane.name,
         .inputs = {{sizes}},
         .run = [plane = plane](
                    In x) { return one(diag_embed(x[0], plane.offset, plane.dim1, plane.dim2)); },
         .reference = [plane = plane](Arrays x) { return one(embedded(x[0], plane, plane.sizes)); },
         .dtypes = element_dtypes()});
  cases.add({.op = "diag",
             .name = "of a vector",
             .inputs = {{{3}}},
             .run = [](In x) { return one(diag(x[0], 1)); },
             .reference =
                 [](Arrays x) {
                   return one(embedded(x[0], {"", {}, 1, 0, 1}, {4, 4}));
                 },
             .dtypes = element_dtypes()});
  cases.add({.op = "diag",
             .name = "of a matrix",
             .inputs = {{{3, 4}}},
             .run = [](In x) { return one(diag(x[0], -1)); },
             .reference =
                 [](Arrays x) {
                   return one(diagonal_of(x[0], {"", {}, -1, 0, 1}, 2));
                 },
             .dtypes = element_dtypes()});
  cases.add({.op = "diagflat",
             .name = "of a matrix",
             .inputs = {{{2, 2}}},
             .run = [](In x) { return one(diagflat(x[0])); },
             .reference =
                 [](Arrays x) {
                   Array result(Shape{4, 4});
                   for (int64_t i = 0; i < 4; ++i) result.at({i, i}) = x[0][i];
                   return one(result);
                 },
             .dtypes = element_dtypes()});
}

}  // namespace

void diagonal_cases(Cases& cases) {
  add_diagonal(cases);
  add_embedding(cases);
  cases.error("diagonal", "one dim", "at least 2 dimensions", [] { diagonal(zeros({3})); });
  cases.error("diagonal", "same dims", "dim1 and dim2 must differ", [] {
    diagonal(zeros({3, 3}), 0, 1, -1);
  });
  cases.error("diagonal", "dim out of range", "diagonal: dimension out of range", [] {
    diagonal(zeros({3, 3}), 0, 0, 2);
  });
  cases.error("diag_embed", "same dims", "dim1 and dim2 must differ",
              [] { diag_embed(zeros({3}), 0, 0, 0); });
  cases.error("diag_embed", "dim out of range", "diag_embed: dimension out of range",
              [] { diag_embed(zeros({3}), 0, 0, 2); });
  cases.error("diag_embed", "0-dim", "at least one dimension", [] { diag_embed(zeros({})); });
  cases.error("diag", "three dims", "expected a 1-D or 2-D tensor", [] { diag(zeros({1, 1, 1})); });
}

}  // namespace tensora::suite
