#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

// One case of an op that shows the same elements under another shape.
struct Sample {
  const char* op;
  const char* name;
  Shape from, to;
  Tensor (*run)(const Tensor&);
};

const Sample kSamples[] = {
    {"view",
     "split",
     {2, 6},
     {2, 3, 2},
     [](const Tensor& x) {
       return view(x, {2, 3, 2});
     }},
    {"view",
     "join",
     {2, 3, 2},
     {6, 2},
     [](const Tensor& x) {
       return view(x, {6, 2});
     }},
    {"view",
     "inferred",
     {4, 3},
     {2, 6},
     [](const Tensor& x) {
       return view(x, {2, -1});
     }},
    {"view", "to 0-dim", {1, 1}, {}, [](const Tensor& x) { return view(x, {}); }},
    {"view",
     "from 0-dim",
     {},
     {1, 1},
     [](const Tensor& x) {
       return view(x, {1, -1});
     }},
    {"view",
     "empty",
     {0, 3},
     {2, 0},
     [](const Tensor& x) {
       return view(x, {2, 0});
     }},
    {"view",
     "same",
     {2, 3},
     {2, 3},
     [](const Tensor& x) {
       return view(x, {2, 3});
     }},
    {"view_as",
     "matrix",
     {6},
     {2, 3},
     [](const Tensor& x) {
       return view_as(x, zeros({2, 3}));
     }},
    {"reshape",
     "join",
     {2, 3, 4},
     {6, 4},
     [](const Tensor& x) {
       return reshape(x, {6, 4});
     }},
    {"reshape",
     "mixed",
     {4, 6},
     {3, 8},
     [](const Tensor& x) {
       return reshape(x, {3, -1});
     }},
    {"reshape",
     "eight dims",
     {2, 2, 1, 2, 1, 1, 2, 1},
     {16},
     [](const Tensor& x) { return reshape(x, {-1}); }},
    {"reshape",
     "twelve dims",
     {2, 3, 1, 2, 2, 2, 1, 2, 2, 2, 2, 2},
     {1536},
     [](const Tensor& x) { return reshape(x, {-1}); }},
    {"reshape",
     "unit dims",
     {1, 6, 1},
     {2, 1, 3},
     [](const Tensor& x) {
       return reshape(x, {2, 1, 3});
     }},
    {"reshape",
     "empty",
     {3, 0, 2},
     {0, 5},
     [](const Tensor& x) {
       return reshape(x, {0, 5});
     }},
    {"reshape", "0-dim", {}, {}, [](const Tensor& x) { return reshape(x, {}); }},
    {"reshape_as",
     "vector",
     {2, 2},
     {4},
     [](const Tensor& x) { return reshape_as(x, zeros({4})); }},
    {"flatten", "all", {2, 3, 2}, {12}, [](const Tensor& x) { return flatten(x); }},
    {"flatten", "from 1", {2, 3, 2}, {2, 6}, [](const Tensor& x) { return flatten(x, 1); }},
    {"flatten",
     "middle",
     {2, 3, 2, 2},
     {2, 6, 2},
     [](const Tensor& x) { return flatten(x, 1, -2); }},
    {"flatten", "one dim", {2, 3}, {2, 3}, [](const Tensor& x) { return flatten(x, 1, 1); }},
    {"flatten", "0-dim", {}, {1}, [](const Tensor& x) { return flatten(x); }},
    {"flatten", "empty", {2, 0, 3}, {2, 0}, [](const Tensor& x) { return flatten(x, 1); }},
    {"ravel", "matrix", {3, 4}, {12}, [](const Tensor& x) { return ravel(x); }},
    {"ravel", "0-dim", {}, {1}, [](const Tensor& x) { return ravel(x); }},
    {"unflatten",
     "last",
     {2, 6},
     {2, 3, 2},
     [](const Tensor& x) {
       return unflatten(x, -1, {3, 2});
     }},
    {"unflatten",
     "inferred",
     {6, 2},
     {1, 3, 2, 2},
     [](const Tensor& x) {
       return unflatten(x, 0, {1, -1, 2});
     }},
    {"squeeze", "all", {1, 3, 1, 2}, {3, 2}, [](const Tensor& x) { return squeeze(x); }},
    {"squeeze", "one", {1, 3, 1}, {1, 3}, [](const Tensor& x) { return squeeze(x, -1); }},
    {"squeeze", "not of size 1", {1, 3}, {1, 3}, [](const Tensor& x) { return squeeze(x, 1); }},
    {"squeeze",
     "several",
     {1, 3, 1, 1},
     {3, 1},
     [](const Tensor& x) {
       return squeeze(x, {0, 1, -1});
     }},
    {"squeeze", "0-dim", {}, {}, [](const Tensor& x) { return squeeze(x, 0); }},
    {"squeeze", "empty", {1, 0}, {0}, [](const Tensor& x) { return squeeze(x); }},
    {"unsqueeze", "first", {3, 2}, {1, 3, 2}, [](const Tensor& x) { return unsqueeze(x, 0); }},
    {"unsqueeze", "last", {3, 2}, {3, 2, 1}, [](const Tensor& x) { return unsqueeze(x, -1); }},
    {"unsqueeze", "middle", {3, 2}, {3, 1, 2}, [](const Tensor& x) { return unsqueeze(x, -2); }},
    {"unsqueeze", "0-dim", {}, {1}, [](const Tensor& x) { return unsqueeze(x, 0); }},
    {"unsqueeze", "empty", {0, 2}, {0, 1, 2}, [](const Tensor& x) { return unsqueeze(x, 1); }},
    {"atleast_1d", "0-dim", {}, {1}, [](const Tensor& x) { return atleast_1d(x); }},
    {"atleast_1d", "matrix", {2, 2}, {2, 2}, [](const Tensor& x) { return atleast_1d(x); }},
    {"atleast_2d", "0-dim", {}, {1, 1}, [](const Tensor& x) { return atleast_2d(x); }},
    {"atleast_2d", "vector", {3}, {1, 3}, [](const Tensor& x) { return atleast_2d(x); }},
    {"atleast_3d", "0-dim", {}, {1, 1, 1}, [](const Tensor& x) { return atleast_3d(x); }},
    {"atleast_3d", "vector", {3}, {1, 3, 1}, [](const Tensor& x) { return atleast_3d(x); }},
    {"atleast_3d", "matrix", {2, 3}, {2, 3, 1}, [](const Tensor& x) { return atleast_3d(x); }},
};

void add_errors(Cases& cases) {
  cases.error("view", "wrong count", "shape [4] is invalid for 6 elements", [] {
    view(zeros({2, 3}), {4});
  });
  cases.error("view", "two unknowns", "only one dimension can be inferred", [] {
    view(zeros({2, 3}), {-1, -1});
  });
  cases.error("view", "negative", "invalid size -2", [] { view(zeros({2, 3}), {-2, 3}); });
  cases.error("view", "unknown beside 0", "cannot infer the -1", [] {
    view(zeros({0, 3}), {-1, 0});
  });
  cases.error("view", "needs a copy", "without a copy; use reshape", [] {
    view(transpose(zeros({2, 3}), 0, 1), {6});
  });
  cases.error("reshape", "wrong count", "reshape: shape [5] is invalid for 6 elements", [] {
    reshape(zeros({2, 3}), {5});
  });
  cases.error("reshape", "too many dims", "at most 16 dimensions",
              [] { reshape(zeros({1}), Shape::filled(17, 1)); });
  cases.error("flatten", "dim out of range", "flatten: dimension out of range", [] {
    flatten(zeros({2, 3}), 0, 2);
  });
  cases.error("flatten", "wrong order", "start_dim 1 comes after end_dim 0", [] {
    flatten(zeros({2, 3}), 1, 0);
  });
  cases.error("unflatten", "wrong product", "unflatten: shape [2, 2] is invalid for 3 elements",
              [] {
                unflatten(zeros({2, 3}), 1, {2, 2});
              });
  cases.error("unflatten", "no sizes", "sizes must not be empty", [] {
    unflatten(zeros({2, 3}), 1, Shape{});
  });
  cases.error("unflatten", "0-dim", "at least one dimension", [] {
    unflatten(zeros({}), 0, {1, 1});
  });
  cases.error("squeeze", "dim out of range", "squeeze: dimension out of range", [] {
    squeeze(zeros({1, 3}), 2);
  });
  cases.error("squeeze", "dim twice", "appears more than once", [] {
    squeeze(zeros({1, 3}), {0, -2});
  });
  cases.error("unsqueeze", "dim out of range", "unsqueeze: dimension out of range",
              [] { unsqueeze(zeros({3}), 2); });
  cases.error("unsqueeze", "too many dims", "at most 16 dimensions",
              [] { unsqueeze(zeros(Shape::filled(16, 1)), 0); });
}

}  // namespace

void reshape_cases(Cases& cases) {
  for (const Sample& sample : kSamples) {
    Case added{.op = sample.op,
               .name = sample.name,
               .inputs = {{sample.from}},
               .run = [run = sample.run](In x) { return one(run(x[0])); },
               .reference =
                   [to = sample.to](Arrays x) {
                     Array result(to);
                     result.values = x[0].values;
                     return one(result);
                   },
               .dtypes = element_dtypes(),
               .is_view = true};
    // Most strides do not allow a view; the cases of reshape cover them.
    if (added.op == "view" || added.op == "view_as")
      added.run = [run = sample.run](In x) { return one(run(contiguous(x[0]))); };
    cases.add(std::move(added));
  }
  add_errors(cases);
}

}  // namespace tensora::suite
