#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

Array repeated(const Array& x, const Shape& repeats) {
  Shape sizes = x.sizes;
  while (sizes.size() < repeats.size()) sizes.insert(0, 1);
  Array widened(sizes);
  widened.values = x.values;
  Shape total = sizes;
  for (int d = 0; d < total.size(); ++d) total[d] *= repeats[d];
  Array result(total);
  Array::each(total, [&](const Shape& index) {
    Shape from = index;
    for (int d = 0; d < from.size(); ++d) from[d] %= sizes[d];
    result.at(index) = widened.at(from);
  });
  return result;
}

void add_repeat(Cases& cases) {
  struct Sample {
    const char* name;
    Shape sizes, repeats;
  };
  const Sample samples[] = {
      {"rows", {2, 3}, {3, 1}},
      {"columns", {2, 3}, {1, 2}},
      {"both", {2, 3}, {2, 2}},
      {"new dims", {3}, {2, 1, 2}},
      {"0-dim", {}, {3}},
      {"not at all", {2, 2}, {1, 1}},
      {"none", {2, 2}, {0, 2}},
      {"empty", {0, 2}, {2, 3}},
      {"0-dim without repeats", {}, {}},
      {"five dims", {1, 2, 1, 2, 1}, {2, 2, 2, 1, 2}},
      {"six repeated dims", {1, 2, 1, 1, 1, 1}, {2, 2, 2, 2, 2, 2}},
  };
  for (const Sample& sample : samples)
    cases.add({.op = "repeat",
               .name = sample.name,
               .inputs = {{sample.sizes}},
               .run = [=](In x) { return one(repeat(x[0], sample.repeats)); },
               .reference = [=](Arrays x) { return one(repeated(x[0], sample.repeats)); },
               .dtypes = element_dtypes()});
  cases.add({.op = "tile",
             .name = "fewer entries than dims",
             .inputs = {{{2, 3}}},
             .run = [](In x) { return one(tile(x[0], {2})); },
             .reference =
                 [](Arrays x) {
                   return one(repeated(x[0], {1, 2}));
                 },
             .dtypes = element_dtypes()});
  cases.add({.op = "tile",
             .name = "more entries than dims",
             .inputs = {{{2}}},
             .run =
                 [](In x) {
                   return one(tile(x[0], {2, 3}));
                 },
             .reference =
                 [](Arrays x) {
                   return one(repeated(x[0], {2, 3}));
                 },
             .dtypes = element_dtypes()});
}

void add_interleaved(Cases& cases) {
  struct Interleaved {
    const char* name;
    Shape sizes;
    int64_t repeats;
    int64_t dim;
    int at;
  };
  const Interleaved interleaved[] = {{"rows", {2, 3}, 2, 0, 0},
                                     {"columns", {2, 3}, 3, -1, 1},
                                     {"once", {2, 3}, 1, 0, 0},
                                     {"never", {2, 3}, 0, 1, 1},
                                     {"empty", {0, 3}, 2, 0, 0}};
  for (const Interleaved& sample : interleaved)
    cases.add(
        {.op = "repeat_interleave",
         .name = sample.name,
         .inputs = {{sample.sizes}},
         .run = [=](In x) { return one(repeat_interleave(x[0], sample.repeats, sample.dim)); },
         .reference =
             [=](Arrays x) {
               Shape sizes = x[0].sizes;
               sizes[sample.at] *= sample.repeats;
               Array result(sizes);
               Array::each(sizes, [&](const Shape& index) {
                 Shape from = index;
                 from[sample.at] /= sample.repeats;
                 result.at(index) = x[0].at(from);
               });
               return one(result);
             },
         .dtypes = element_dtypes()});
  cases.add({.op = "repeat_interleave",
             .name = "flattened",
             .inputs = {{{2, 2}}},
             .run = [](In x) { return one(repeat_interleave(x[0], 2)); },
             .reference =
                 [](Arrays x) {
                   Array result(Shape{8});
                   for (int64_t i = 0; i < 8; ++i) result[i] = x[0][i / 2];
                   return one(result);
                 },
             .dtypes = element_dtypes()});
}

void add_interleaved_by_tensor(Cases& cases) {
  cases.add({.op = "repeat_interleave",
             .name = "by a tensor",
             .inputs = {{{2, 3}}, {.sizes = {3}, .dtype = kInt64, .values = {2, 0, 1}}},
             .run = [](In x) { return one(repeat_interleave(x[0], x[1], -1)); },
             .reference =
                 [](Arrays x) {
                   Array result(Shape{2, 3});
                   for (int64_t i = 0; i < 2; ++i) {
                     result.at({i, 0}) = result.at({i, 1}) = x[0].at({i, 0});
                     result.at({i, 2}) = x[0].at({i, 2});
                   }
                   return one(result);
                 },
             .dtypes = element_dtypes(),
             .opt_out = {{Mode::meta, "the shape depends on data"},
                         {Mode::jit, "the shape depends on data"}}});
  cases.add({.op = "repeat_interleave",
             .name = "by a 0-dim tensor",
             .inputs = {{{2, 2}}, {.sizes = {}, .dtype = kInt32, .values = {2}}},
             .run = [](In x) { return one(repeat_interleave(x[0], x[1])); },
             .reference =
                 [](Arrays x) {
                   Array result(Shape{8});
                   for (int64_t i = 0; i < 8; ++i) result[i] = x[0][i / 2];
                   return one(result);
                 },
             .dtypes = element_dtypes(),
             .opt_out = {{Mode::meta, "the shape depends on data"},
                         {Mode::jit, "the shape depends on data"}}});
}

}  // namespace

void repeat_cases(Cases& cases) {
  add_repeat(cases);
  add_interleaved(cases);
  add_interleaved_by_tensor(cases);
  cases.error("repeat_interleave", "number of repeats", "expected as many repeats as dimension 0",
              [] { repeat_interleave(zeros({3}), zeros({2}, {.dtype = kInt64}), 0); });
  cases.error("repeat_interleave", "dtype of repeats", "repeats of an integer dtype",
              [] { repeat_interleave(zeros({3}), zeros({3}), 0); });
  cases.error("repeat_interleave", "dims of repeats", "expected 0-D or 1-D repeats", [] {
    repeat_interleave(zeros({3}), zeros({3, 1}, {.dtype = kInt64}), 0);
  });
  cases.error("repeat_interleave", "negative entry", "repeats must not be negative, got -1",
              [] { repeat_interleave(zeros({2}), full({2}, -1, {.dtype = kInt64}), 0); });
  cases.error("repeat", "too few", "expected at least 2 repeats", [] {
    repeat(zeros({2, 3}), {2});
  });
  cases.error("repeat", "negative", "must not be negative", [] { repeat(zeros({2}), {-1}); });
  cases.error("tile", "negative", "must not be negative", [] { tile(zeros({2}), {-1}); });
  cases.error("repeat_interleave", "negative", "must not be negative",
              [] { repeat_interleave(zeros({2}), -1); });
  cases.error("repeat_interleave", "dim out of range", "repeat_interleave: dimension out of range",
              [] { repeat_interleave(zeros({2}), 2, 1); });
}

}  // namespace tensora::suite
