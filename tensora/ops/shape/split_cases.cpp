#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

// The parts [bounds[i], bounds[i + 1]) of one dim.
ArrayList parts_of(const Array& x, int dim, const std::vector<int64_t>& bounds) {
  ArrayList result;
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    Shape sizes = x.sizes;
    sizes[dim] = bounds[i + 1] - bounds[i];
    Array part(sizes);
    Array::each(sizes, [&](const Shape& index) {
      Shape from = index;
      from[dim] += bounds[i];
      part.at(index) = x.at(from);
    });
    result.push_back(part);
  }
  return result;
}

struct Sample {
  const char* op;
  const char* name;
  Shape sizes;
  int dim;
  std::vector<int64_t> bounds;
  std::vector<Tensor> (*run)(const Tensor&);
};

std::vector<Sample> samples() {
  return {
      {"split", "even", {4, 3}, 0, {0, 2, 4}, [](const Tensor& x) { return split(x, 2); }},
      {"split",
       "with rest",
       {2, 5},
       1,
       {0, 2, 4, 5},
       [](const Tensor& x) { return split(x, 2, -1); }},
      {"split", "larger than the dim", {3}, 0, {0, 3}, [](const Tensor& x) { return split(x, 7); }},
      {"split", "of an empty dim", {0, 2}, 0, {0, 0}, [](const Tensor& x) { return split(x, 0); }},
      {"split",
       "sizes",
       {2, 6},
       1,
       {0, 1, 1, 6},
       [](const Tensor& x) {
         return split(x, std::vector<int64_t>{1, 0, 5}, 1);
       }},
      {"split_with_sizes",
       "sizes",
       {5, 2},
       0,
       {0, 2, 5},
       [](const Tensor& x) {
         return split_with_sizes(x, {2, 3});
       }},
      {"split_with_sizes",
       "many",
       {10, 2},
       0,
       {0, 1, 2, 3, 4, 5, 6, 7, 8, 10},
       [](const Tensor& x) {
         return split_with_sizes(x, {1, 1, 1, 1, 1, 1, 1, 1, 2});
       }},
      {"chunk", "even", {6, 2}, 0, {0, 2, 4, 6}, [](const Tensor& x) { return chunk(x, 3); }},
      {"chunk",
       "fewer than asked",
       {2, 5},
       1,
       {0, 2, 4, 5},
       [](const Tensor& x) { return chunk(x, 4, 1); }},
      {"chunk", "of an empty dim", {0}, 0, {0, 0, 0}, [](const Tensor& x) { return chunk(x, 2); }},
      {"tensor_split",
       "sections",
       {7, 2},
       0,
       {0, 3, 5, 7},
       [](const Tensor& x) { return tensor_split(x, 3); }},
      {"tensor_split",
       "more than there are",
       {2},
       0,
       {0, 1, 2, 2},
       [](const Tensor& x) { return tensor_split(x, 3); }},
      {"tensor_split",
       "indices",
       {2, 6},
       1,
       {0, 1, 4, 6},
       [](const Tensor& x) {
         return tensor_split(x, std::vector<int64_t>{1, -2}, 1);
       }},
  };
}

void add_unbind(Cases& cases) {
  for (const auto& [name, dim] : {std::pair{"rows", 0}, {"middle", 1}, {"last", -1}})
    cases.add({.op = "unbind",
               .name = name,
               .inputs = {{{2, 3, 4}}},
               .run = [=](In x) { return unbind(x[0], dim); },
               .reference =
                   [=](Arrays x) {
                     const int at = dim < 0 ? dim + 3 : dim;
                     std::vector<int64_t> bounds;
                     for (int64_t i = 0; i <= x[0].sizes[at]; ++i) bounds.push_back(i);
                     ArrayList result = parts_of(x[0], at, bounds);
                     for (Array& part : result) part.sizes.erase(at);
                     return result;
                   },
               .dtypes = element_dtypes(),
               .is_view = true});
}

// The gradients of the parts lie in memory as the gradient of the whole does, or in another order.
void add_stacked_again(Cases& cases) {
  for (const bool swapped : {false, true})
    cases.add({.op = "unbind",
               .name = swapped ? "stacked in another order" : "stacked again",
               .inputs = {{{3, 2, 4}}},
               .run =
                   [=](In x) {
                     const std::vector<Tensor> parts = unbind(x[0], 1);
                     return one(stack({parts[swapped], parts[!swapped]}, 1) * 2);
                   },
               .reference =
                   [=](Arrays x) {
                     Array out(x[0].sizes);
                     Array::each(out.sizes, [&](const Shape& index) {
                       Shape from = index;
                       if (swapped) from[1] = 1 - from[1];
                       out.at(index) = 2 * x[0].at(from);
                     });
                     return one(out);
                   }});
}

// Gradients of parts that nobody used are zeros.
void add_unused_parts(Cases& cases) {
  cases.add({.op = "split",
             .name = "one part used",
             .inputs = {{{5, 2}}},
             .run = [](In x) { return one(split(x[0], 2)[1]); },
             .reference =
                 [](Arrays x) {
                   return one(parts_of(x[0], 0, {2, 4})[0]);
                 },
             .is_view = true});
  cases.add({.op = "unbind",
             .name = "one part used",
             .inputs = {{{3, 2}}},
             .run = [](In x) { return one(unbind(x[0], 1)[1]); },
             .reference =
                 [](Arrays x) {
                   Array part = parts_of(x[0], 1, {1, 2})[0];
                   part.sizes.erase(1);
                   return one(part);
                 },
             .is_view = true});
}

void add_errors(Cases& cases) {
  cases.error("split", "0-dim", "at least one dimension", [] { split(zeros({}), 1); });
  cases.error("split", "negative", "split_size must not be negative",
              [] { split(zeros({3}), -1); });
  cases.error("split", "zero", "split_size can be 0 only if", [] { split(zeros({3}), 0); });
  cases.error("split", "dim out of range", "split: dimension out of range",
              [] { split(zeros({3}), 1, 1); });
  cases.error("split_with_sizes", "wrong sum", "must add up to 5", [] {
    split_with_sizes(zeros({5}), {2, 2});
  });
  cases.error("split_with_sizes", "wrong sum of many", "must add up to 10", [] {
    split_with_sizes(zeros({10}), {1, 1, 1, 1, 1, 1, 1, 1, 1});
  });
  cases.error("split_with_sizes", "negative", "must not be negative", [] {
    split_with_sizes(zeros({5}), {-1, 6});
  });
  cases.error("split_with_sizes", "empty", "must not be empty",
              [] { split_with_sizes(zeros({5}), std::vector<int64_t>{}); });
  cases.error("chunk", "0-dim", "at least one dimension", [] { chunk(zeros({}), 1); });
  cases.error("chunk", "zero", "chunks must be positive, got 0", [] { chunk(zeros({3}), 0); });
  cases.error("tensor_split", "zero", "sections must be positive",
              [] { tensor_split(zeros({3}), 0); });
  cases.error("tensor_split", "0-dim", "at least one dimension",
              [] { tensor_split(zeros({}), 1); });
  cases.error("unbind", "0-dim", "at least one dimension", [] { unbind(zeros({})); });
  cases.error("unbind", "dim out of range", "unbind: dimension out of range",
              [] { unbind(zeros({3}), 1); });
}

}  // namespace

void split_cases(Cases& cases) {
  for (const Sample& sample : samples())
    cases.add({.op = sample.op,
               .name = sample.name,
               .inputs = {{sample.sizes}},
               .run = [run = sample.run](In x) { return run(x[0]); },
               .reference = [dim = sample.dim, bounds = sample.bounds](
                                Arrays x) { return parts_of(x[0], dim, bounds); },
               .dtypes = element_dtypes(),
               .is_view = true});
  add_unbind(cases);
  add_stacked_again(cases);
  add_unused_parts(cases);
  add_errors(cases);
}

}  // namespace tensora::suite
