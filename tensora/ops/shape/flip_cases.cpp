#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

// result[index] = x[map(index)]
template <class Map>
Array mapped(const Array& x, const Shape& sizes, Map&& map) {
  Array result(sizes);
  Array::each(sizes, [&](const Shape& index) { result.at(index) = x.at(map(index)); });
  return result;
}

Array flipped(const Array& x, const Dims& dims) {
  return mapped(x, x.sizes, [&](Shape index) {
    for (int64_t dim : dims) {
      const int d = static_cast<int>(dim);
      index[d] = x.sizes[d] - 1 - index[d];
    }
    return index;
  });
}

void add_flips(Cases& cases) {
  struct Sample {
    const char* op;
    const char* name;
    Shape sizes;
    Dims dims;
    Tensor (*run)(const Tensor&);
  };
  const Sample samples[] = {
      {"flip", "rows", {3, 4}, {0}, [](const Tensor& x) { return flip(x, 0); }},
      {"flip",
       "both",
       {3, 4},
       {0, 1},
       [](const Tensor& x) {
         return flip(x, {0, -1});
       }},
      {"flip", "middle", {2, 3, 4}, {1}, [](const Tensor& x) { return flip(x, {1}); }},
      {"flip", "whole groups", {2, 3, 32}, {2}, [](const Tensor& x) { return flip(x, {2}); }},
      {"flip", "no dims", {2, 3}, {}, [](const Tensor& x) { return flip(x, Dims{}); }},
      {"flip", "0-dim", {}, {}, [](const Tensor& x) { return flip(x, 0); }},
      {"flip", "empty", {0, 3}, {0}, [](const Tensor& x) { return flip(x, 0); }},
      {"fliplr", "matrix", {2, 5}, {1}, fliplr},
      {"flipud", "vector", {5}, {0}, flipud},
  };
  for (const Sample& sample : samples)
    cases.add({.op = sample.op,
               .name = sample.name,
               .inputs = {{sample.sizes}},
               .run = [run = sample.run](In x) { return one(run(x[0])); },
               .reference = [dims = sample.dims](Arrays x) { return one(flipped(x[0], dims)); },
               .dtypes = element_dtypes()});
}

void add_rolls(Cases& cases) {
  struct Sample {
    const char* name;
    Shape sizes, shifts;
    Dims dims;
  };
  const Sample samples[] = {{"rows", {5, 2}, {2}, {0}},
                            {"backwards", {2, 5}, {-1}, {1}},
                            {"more than the size", {3}, {7}, {0}},
                            {"two dims", {3, 4}, {1, -2}, {0, 1}},
                            {"not at all", {4}, {4}, {0}},
                            {"empty", {0, 2}, {3}, {0}}};
  for (const Sample& sample : samples)
    cases.add({.op = "roll",
               .name = sample.name,
               .inputs = {{sample.sizes}},
               .run = [=](In x) { return one(roll(x[0], sample.shifts, sample.dims)); },
               .reference =
                   [=](Arrays x) {
                     return one(mapped(x[0], x[0].sizes, [&](Shape index) {
                       for (int i = 0; i < sample.dims.size(); ++i) {
                         const int d = static_cast<int>(sample.dims[i]);
                         const int64_t size = x[0].sizes[d];
                         index[d] = ((index[d] - sample.shifts[i]) % size + size) % size;
                       }
                       return index;
                     }));
                   },
               .dtypes = element_dtypes()});
  cases.add({.op = "roll",
             .name = "flattened",
             .inputs = {{{2, 3}}},
             .run = [](In x) { return one(roll(x[0], 2)); },
             .reference =
                 [](Arrays x) {
                   Array result(x[0].sizes);
                   for (int64_t i = 0; i < 6; ++i) result[(i + 2) % 6] = x[0][i];
                   return one(result);
                 },
             .dtypes = element_dtypes()});
}

void add_rotations(Cases& cases) {
  for (int64_t k : {-1, 0, 1, 2, 3, 5})
    cases.add({.op = "rot90",
               .name = concat("k = ", k),
               .inputs = {{{2, 3, 2}}},
               .run = [=](In x) { return one(rot90(x[0], k)); },
               .reference =
                   [=](Arrays x) {
                     Array turned = x[0];
                     for (int64_t i = 0; i < ((k % 4) + 4) % 4; ++i) {
                       const Array before = turned;
                       const int64_t rows = before.sizes[0], columns = before.sizes[1];
                       turned = mapped(before, {columns, rows, 2}, [&](const Shape& at) {
                         return Shape{at[1], columns - 1 - at[0], at[2]};
                       });
                     }
                     return one(turned);
                   },
               .dtypes = element_dtypes()});
}

}  // namespace

void flip_cases(Cases& cases) {
  add_flips(cases);
  add_rolls(cases);
  add_rotations(cases);
  cases.error("flip", "dim out of range", "flip: dimension out of range",
              [] { flip(zeros({3}), 1); });
  cases.error("flip", "dim twice", "appears more than once", [] { flip(zeros({3, 3}), {0, -2}); });
  cases.error("fliplr", "vector", "at least 2 dimensions", [] { fliplr(zeros({3})); });
  cases.error("flipud", "0-dim", "at least one dimension", [] { flipud(zeros({})); });
  cases.error("roll", "no shifts", "shifts must not be empty", [] { roll(zeros({3}), Shape{}); });
  cases.error("roll", "lengths", "must have the same length", [] {
    roll(zeros({3, 3}), {1, 2}, {0});
  });
  cases.error("roll", "shifts without dims", "several shifts need as many dims", [] {
    roll(zeros({3}), {1, 2});
  });
  cases.error("roll", "dim out of range", "roll: dimension out of range",
              [] { roll(zeros({3}), 1, 1); });
  cases.error("roll", "0-dim", "no dims to roll along", [] { roll(zeros({}), 1, 0); });
  cases.error("rot90", "one dim", "at least 2 dimensions", [] { rot90(zeros({3})); });
  cases.error("rot90", "dims", "expected two dims", [] { rot90(zeros({3, 3}), 1, {0}); });
  cases.error("rot90", "same dims", "appears more than once", [] {
    rot90(zeros({3, 3}), 1, {0, 0});
  });
}

}  // namespace tensora::suite
