#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

// Dim i of the result is dim order[i] of the input.
Array permuted(const Array& x, const Dims& order) {
  Shape sizes;
  for (int64_t dim : order) sizes.push_back(x.sizes[static_cast<int>(dim)]);
  Array result(sizes);
  Array::each(sizes, [&](const Shape& index) {
    Shape from = index;
    for (int d = 0; d < order.size(); ++d) from[static_cast<int>(order[d])] = index[d];
    result.at(index) = x.at(from);
  });
  return result;
}

struct Sample {
  const char* op;
  const char* name;
  Shape sizes;
  Dims order;
  Tensor (*run)(const Tensor&);
};

const Sample kSamples[] = {
    {"permute",
     "rotated",
     {2, 3, 4},
     {2, 0, 1},
     [](const Tensor& x) {
       return permute(x, {2, 0, 1});
     }},
    {"permute",
     "negative",
     {2, 3, 4},
     {2, 0, 1},
     [](const Tensor& x) {
       return permute(x, {-1, 0, -2});
     }},
    {"permute",
     "identity",
     {2, 3},
     {0, 1},
     [](const Tensor& x) {
       return permute(x, {0, 1});
     }},
    {"permute", "0-dim", {}, {}, [](const Tensor& x) { return permute(x, {}); }},
    {"permute",
     "empty",
     {2, 0, 3},
     {1, 2, 0},
     [](const Tensor& x) {
       return permute(x, {1, 2, 0});
     }},
    {"permute",
     "five dims",
     {2, 1, 3, 2, 2},
     {4, 2, 0, 3, 1},
     [](const Tensor& x) {
       return permute(x, {4, 2, 0, 3, 1});
     }},
    {"transpose", "matrix", {3, 4}, {1, 0}, [](const Tensor& x) { return transpose(x, 0, 1); }},
    {"transpose",
     "outer",
     {2, 3, 4},
     {2, 1, 0},
     [](const Tensor& x) { return transpose(x, 0, -1); }},
    {"transpose",
     "with itself",
     {2, 3},
     {0, 1},
     [](const Tensor& x) { return transpose(x, 1, 1); }},
    {"transpose", "0-dim", {}, {}, [](const Tensor& x) { return transpose(x, 0, -1); }},
    {"swapaxes", "inner", {2, 3, 4}, {0, 2, 1}, [](const Tensor& x) { return swapaxes(x, 1, 2); }},
    {"swapdims", "inner", {2, 3, 4}, {1, 0, 2}, [](const Tensor& x) { return swapdims(x, 1, 0); }},
    {"t", "matrix", {2, 5}, {1, 0}, [](const Tensor& x) { return t(x); }},
    {"t", "vector", {5}, {0}, [](const Tensor& x) { return t(x); }},
    {"t", "0-dim", {}, {}, [](const Tensor& x) { return t(x); }},
    {"mT", "batch", {2, 3, 4}, {0, 2, 1}, [](const Tensor& x) { return mT(x); }},
    {"mT", "0-dim", {}, {}, [](const Tensor& x) { return mT(x); }},
    {"movedim", "one", {2, 3, 4}, {1, 2, 0}, [](const Tensor& x) { return movedim(x, 0, -1); }},
    {"movedim", "back", {2, 3, 4}, {2, 0, 1}, [](const Tensor& x) { return movedim(x, 2, 0); }},
    {"movedim",
     "two",
     {2, 3, 4},
     {1, 2, 0},
     [](const Tensor& x) {
       return movedim(x, {0, 1}, {2, 0});
     }},
    {"movedim", "none", {2, 3}, {0, 1}, [](const Tensor& x) { return movedim(x, Dims{}, Dims{}); }},
};

}  // namespace

void permute_cases(Cases& cases) {
  for (const Sample& sample : kSamples)
    cases.add({.op = sample.op,
               .name = sample.name,
               .inputs = {{sample.sizes}},
               .run = [run = sample.run](In x) { return one(run(x[0])); },
               .reference = [order = sample.order](Arrays x) { return one(permuted(x[0], order)); },
               .dtypes = element_dtypes(),
               .is_view = true});
  cases.error("permute", "too few dims", "expected 3 dims", [] {
    permute(zeros({2, 3, 4}), {0, 1});
  });
  cases.error("permute", "dim twice", "appears more than once", [] {
    permute(zeros({2, 3}), {0, -2});
  });
  cases.error("permute", "dim out of range", "permute: dimension out of range", [] {
    permute(zeros({2, 3}), {0, 2});
  });
  cases.error("transpose", "dim out of range", "transpose: dimension out of range", [] {
    transpose(zeros({2, 3}), 0, 2);
  });
  cases.error("swapaxes", "dim out of range", "swapaxes: dimension out of range", [] {
    swapaxes(zeros({2, 3}), -3, 0);
  });
  cases.error("swapdims", "dim out of range", "swapdims: dimension out of range", [] {
    swapdims(zeros({2, 3}), -3, 0);
  });
  cases.error("t", "three dims", "at most 2 dimensions", [] { t(zeros({2, 3, 4})); });
  cases.error("mT", "one dim", "a matrix or a batch of matrices", [] { mT(zeros({2})); });
  cases.error("movedim", "lengths", "must name the same number of dims", [] {
    movedim(zeros({2, 3}), {0, 1}, {0});
  });
  cases.error("movedim", "source twice", "movedim: source: dimension 0 appears more than once", [] {
    movedim(zeros({2, 3}), {0, 0}, {0, 1});
  });
  cases.error("movedim", "destination out of range", "movedim: destination: dimension out of range",
              [] {
                movedim(zeros({2, 3}), 0, 2);
              });
}

}  // namespace tensora::suite
