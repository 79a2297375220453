#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

struct Sample {
  const char* op;
  const char* name;
  Shape from, to;
  Tensor (*run)(const Tensor&);
};

const Sample kSamples[] = {
    {"expand",
     "column",
     {3, 1},
     {3, 4},
     [](const Tensor& x) {
       return expand(x, {3, 4});
     }},
    {"expand",
     "leading",
     {3},
     {2, 3},
     [](const Tensor& x) {
       return expand(x, {2, 3});
     }},
    {"expand",
     "kept",
     {2, 1, 3},
     {2, 4, 3},
     [](const Tensor& x) {
       return expand(x, {-1, 4, -1});
     }},
    {"expand",
     "0-dim",
     {},
     {2, 3},
     [](const Tensor& x) {
       return expand(x, {2, 3});
     }},
    {"expand", "0-dim to itself", {}, {}, [](const Tensor& x) { return expand(x, {}); }},
    {"expand",
     "to nothing",
     {1, 3},
     {0, 3},
     [](const Tensor& x) {
       return expand(x, {0, 3});
     }},
    {"expand",
     "empty",
     {0, 1},
     {2, 0, 3},
     [](const Tensor& x) {
       return expand(x, {2, 0, 3});
     }},
    {"expand",
     "several",
     {1, 2, 1},
     {3, 2, 2, 4},
     [](const Tensor& x) {
       return expand(x, {3, 2, 2, 4});
     }},
    {"expand_as",
     "row",
     {1, 3},
     {2, 3},
     [](const Tensor& x) {
       return expand_as(x, zeros({2, 3}));
     }},
    {"broadcast_to",
     "row",
     {3},
     {2, 2, 3},
     [](const Tensor& x) {
       return broadcast_to(x, {2, 2, 3});
     }},
};

void add_lists(Cases& cases) {
  cases.add({.op = "broadcast_tensors",
             .name = "row and column",
             .inputs = {{{3, 1}}, {{4}}, {{}}},
             .run =
                 [](In x) {
                   return broadcast_tensors({x[0], x[1], x[2]});
                 },
             .reference =
                 [](Arrays x) {
                   ArrayList result;
                   for (const Array& array : x) result.push_back(array.broadcast_to({3, 4}));
                   return result;
                 },
             .dtypes = element_dtypes()});
  struct Grid {
    const char* indexing;
    int order[3];  // which dim each input runs along
  };
  for (const Grid& grid : {Grid{"ij", {0, 1, 2}}, Grid{"xy", {1, 0, 2}}})
    cases.add({.op = "meshgrid",
               .name = grid.indexing,
               .inputs = {{{2}}, {{3}}, {{}}},
               .run =
                   [=](In x) {
                     return meshgrid({x[0], x[1], x[2]}, grid.indexing);
                   },
               .reference =
                   [=](Arrays x) {
                     Shape sizes = Shape::filled(3, 1);
                     for (size_t i = 0; i < 3; ++i) sizes[grid.order[i]] = x[i].numel();
                     ArrayList result;
                     for (size_t i = 0; i < 3; ++i) {
                       Array values(sizes);
                       Array::each(sizes, [&](const Shape& index) {
                         values.at(index) = x[i][index[grid.order[i]]];
                       });
                       result.push_back(values);
                     }
                     return result;
                   },
               .dtypes = element_dtypes()});
}

}  // namespace

void expand_cases(Cases& cases) {
  for (const Sample& sample : kSamples)
    cases.add({.op = sample.op,
               .name = sample.name,
               .inputs = {{sample.from}},
               .run = [run = sample.run](In x) { return one(run(x[0])); },
               .reference = [to = sample.to](Arrays x) { return one(x[0].broadcast_to(to)); },
               .dtypes = element_dtypes(),
               .is_view = true});
  cases.add({.op = "expand",
             .name = "the layout of a sum with a new dim of size 1",
             .inputs = {{{2, 1, 1}}},
             .run =
                 [](In x) {
                   const Tensor pairs = unfold(x[0], 0, 2, 1) + expand(x[0], {1, 2, 1, 1});
                   return one(view(pairs, {4}));
                 },
             .reference =
                 [](Arrays x) {
                   Array out(Shape{4});
                   for (int64_t i = 0; i < 4; ++i) out[i] = x[0][i % 2] + x[0][i / 2];
                   return one(out);
                 },
             .opt_out = {{Mode::view, "the layout of the sum follows that of the input"}}});
  add_lists(cases);
  cases.error("expand", "mismatch", "the expanded size 4 must match the existing size 3",
              [] { expand(zeros({3}), {4}); });
  cases.error("expand", "fewer dims", "must not be smaller than the number of dimensions", [] {
    expand(zeros({2, 3}), {3});
  });
  cases.error("expand", "-1 for a new dim", "a new leading dimension cannot have size -1", [] {
    expand(zeros({3}), {-1, 3});
  });
  cases.error("expand", "negative", "sizes must not be negative", [] { expand(zeros({1}), {-2}); });
  cases.error("broadcast_tensors", "mismatch", "cannot be broadcast together", [] {
    broadcast_tensors({zeros({2}), zeros({3})});
  });
  cases.error("meshgrid", "no tensors", "at least one tensor",
              [] { meshgrid(std::vector<Tensor>{}); });
  cases.error("meshgrid", "matrix", "expected 0-D or 1-D tensors", [] {
    meshgrid({zeros({2, 3})});
  });
  cases.error("meshgrid", "indexing", "indexing must be \"ij\" or \"xy\"",
              [] { meshgrid({zeros({2})}, "yx"); });
  cases.error("meshgrid", "dtypes", "of one dtype and device", [] {
    meshgrid({zeros({2}), zeros({2}, {.dtype = kInt64})});
  });
}

}  // namespace tensora::suite
