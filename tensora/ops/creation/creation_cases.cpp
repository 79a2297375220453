#include <cmath>

#include "tensora/dispatch/op.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

const std::map<Mode, std::string> kNoInputs = {
    {Mode::grad, "has no inputs"}, {Mode::view, "has no inputs"}, {Mode::inplace, "has no inputs"}};

TensorOptions here() { return {.dtype = dtype(), .device = device()}; }

/// A case without inputs: `make` builds the tensor, `expected` says what is in it.
void add_made(Cases& cases, std::string op, std::string name, std::vector<DType> dtypes,
              std::function<Tensor()> make, std::function<Array()> expected) {
  cases.add({.op = std::move(op),
             .name = std::move(name),
             .run = [make = std::move(make)](In) { return one(make()); },
             .reference = [expected = std::move(expected)](Arrays) { return one(expected()); },
             .dtypes = std::move(dtypes),
             .opt_out = kNoInputs});
}

Array vector_of(int64_t count, const std::function<double(int64_t)>& value) {
  Array result({count});
  for (int64_t i = 0; i < count; ++i) result[i] = value(i);
  return result;
}

void arange_cases(Cases& cases) {
  struct Row {
    double start, end, step;
    int64_t count;
  };
  for (const Row& r : {Row{0, 5, 1, 5}, Row{3, 3, 1, 0}, Row{2, 11, 3, 3}, Row{2, 12, 3, 4},
                       Row{9, 0, -2, 5}, Row{0, 100, 1, 100}, Row{-4, 4, 1, 8}})
    add_made(
        cases, "arange", concat(r.start, " to ", r.end, " by ", r.step), number_dtypes(),
        [r] { return arange(int64_t(r.start), int64_t(r.end), int64_t(r.step), here()); },
        [r] {
          return vector_of(r.count, [r](int64_t i) { return r.start + double(i) * r.step; });
        });
  for (const Row& r :
       {Row{0, 1, 0.25, 4}, Row{0, 1.1, 0.25, 5}, Row{1.5, -1, -0.5, 5}, Row{0.5, 9.5, 1, 9}})
    add_made(
        cases, "arange", concat(r.start, " to ", r.end, " by ", r.step), floating_dtypes(),
        [r] { return arange(r.start, r.end, r.step, here()); },
        [r] {
          return vector_of(r.count, [r](int64_t i) { return r.start + double(i) * r.step; });
        });
  add_made(
      cases, "arange", "several tiles", {kInt32, kInt64, kFloat32, kFloat64},
      [] { return arange(100'000, here()); },
      [] { return vector_of(100'000, [](int64_t i) { return double(i); }); });
  cases.error("arange", "step 0", "step must not be zero", [] { arange(0, 5, 0); });
  cases.error("arange", "the wrong way", "do not agree with the sign", [] { arange(5, 0); });
  cases.error("arange", "the wrong way down", "do not agree with the sign",
              [] { arange(0, 5, -1); });
  cases.error("arange", "an infinite end", "unsupported range", [] { arange(0, INFINITY); });
  cases.error("arange", "a NaN start", "unsupported range", [] { arange(NAN, 1.0); });
  cases.error("arange", "more than memory holds", "arange", [] { arange(0, 1e300, 1e-5); });
  cases.error("arange", "bool", "bool is not supported", [] { arange(0, 2, {.dtype = kBool}); });
}

void space_cases(Cases& cases) {
  for (int64_t steps : {0, 1, 2, 5, 10, 1001}) {
    add_made(
        cases, "linspace", concat(steps, " steps"), floating_dtypes(),
        [steps] { return linspace(-2, 3.5, steps, here()); },
        [steps] {
          return vector_of(steps, [steps](int64_t i) {
            return steps == 1 ? -2 : -2 + 5.5 * double(i) / double(steps - 1);
          });
        });
    if (steps <= 10)
      add_made(
          cases, "logspace", concat(steps, " steps"), floating_dtypes(),
          [steps] { return logspace(-1, 1.5, steps, 2, here()); },
          [steps] {
            return vector_of(steps, [steps](int64_t i) {
              return std::pow(2., steps == 1 ? -1 : -1 + 2.5 * double(i) / double(steps - 1));
            });
          });
  }
  add_made(
      cases, "linspace", "integers", integer_dtypes(), [] { return linspace(0, 8, 5, here()); },
      [] { return vector_of(5, [](int64_t i) { return 2. * double(i); }); });
  add_made(
      cases, "linspace", "integers from fractions, cut first", {kInt8, kInt32, kInt64},
      [] { return linspace(-2.7, 9.3, 7, here()); },
      [] {
        const double expected[] = {-2, 0, 1, 3, 5, 7, 9};
        return vector_of(7, [&](int64_t i) { return expected[i]; });
      });
  cases.error("linspace", "an end beyond the dtype", "without overflow",
              [] { linspace(0, 300, 4, {.dtype = kInt8}); });
  cases.error("linspace", "bool", "bool is not supported",
              [] { linspace(0, 1, 2, {.dtype = kBool}); });
  cases.error("linspace", "negative steps", "number of steps", [] { linspace(0, 1, -1); });
  cases.error("logspace", "negative steps", "number of steps", [] { logspace(0, 1, -1); });
}

void eye_cases(Cases& cases) {
  for (const Shape& sizes : {Shape{3, 3}, Shape{2, 5}, Shape{5, 2}, Shape{0, 3}, Shape{3, 0},
                             Shape{1, 1}, Shape{70, 70}})
    add_made(
        cases, "eye", to_string(sizes), all_dtypes(),
        [sizes] { return eye(sizes[0], sizes[1], here()); },
        [sizes] {
          Array result(sizes);
          for (int64_t i = 0; i < std::min(sizes[0], sizes[1]); ++i) result.at({i, i}) = 1;
          return result;
        });
  cases.error("eye", "negative n", "n must not be negative", [] { eye(-1); });
  cases.error("eye", "negative m", "m must not be negative", [] { eye(2, -1); });
}

Array triangle(int64_t rows, int64_t columns, int64_t diagonal, bool lower) {
  std::vector<double> places[2];
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      if (lower ? c - r <= diagonal : c - r >= diagonal) {
        places[0].push_back(double(r));
        places[1].push_back(double(c));
      }
  Array result({2, int64_t(places[0].size())});
  result.values = places[0];
  result.values.insert(result.values.end(), places[1].begin(), places[1].end());
  return result;
}

void triangle_cases(Cases& cases) {
  for (const Shape& sizes :
       {Shape{3, 3}, Shape{4, 2}, Shape{2, 6}, Shape{0, 3}, Shape{5, 0}, Shape{7, 9}})
    for (int64_t diagonal : {-9, -4, -2, -1, 0, 1, 2, 5, 10}) {
      const auto add = [&](std::string op, auto make, bool lower) {
        add_made(
            cases, std::move(op), concat(sizes, " diagonal ", diagonal), {kInt32, kInt64},
            [=] { return make(sizes[0], sizes[1], diagonal, here()); },
            [=] { return triangle(sizes[0], sizes[1], diagonal, lower); });
      };
      add(
          "tril_indices", [](auto... arguments) { return tril_indices(arguments...); }, true);
      add(
          "triu_indices", [](auto... arguments) { return triu_indices(arguments...); }, false);
    }
  cases.error("tril_indices", "negative size", "must not be negative", [] { tril_indices(-1, 2); });
  cases.error("triu_indices", "a float dtype", "int32 or int64",
              [] { triu_indices(2, 2, 0, {.dtype = kFloat32}); });
}

void one_hot_cases(Cases& cases) {
  for (const Shape& sizes : {Shape{}, Shape{4}, Shape{2, 3}, Shape{0, 3}})
    for (int64_t classes : {int64_t{-1}, int64_t{6}, int64_t{9}}) {
      if (sizes.numel() == 0 && classes == -1) continue;
      std::vector<double> numbers;
      for (int64_t i = 0; i < sizes.numel(); ++i) numbers.push_back(double((i * 5 + 3) % 6));
      cases.add({.op = "one_hot",
                 .name = concat(sizes, " in ", classes),
                 .inputs = {{.sizes = sizes, .dtype = kInt64, .values = numbers}},
                 .run = [classes](In x) { return one(one_hot(x[0], classes)); },
                 .reference =
                     [classes](Arrays x) {
                       double most = 0;
                       for (double value : x[0].values) most = std::max(most, value);
                       Shape full = x[0].sizes;
                       full.push_back(classes < 0 ? int64_t(most) + 1 : classes);
                       Array result(full);
                       for (int64_t i = 0; i < x[0].numel(); ++i)
                         result[i * full.back() + int64_t(x[0][i])] = 1;
                       return one(result);
                     },
                 .dtypes = {kInt64},
                 .opt_out = classes < 0
                                ? std::map<Mode, std::string>{{Mode::meta, "reads the values"},
                                                              {Mode::jit, "reads the values"}}
                                : std::map<Mode, std::string>{}});
    }
  cases.error("one_hot", "a float tensor", "int64", [] { one_hot(zeros({2})); });
  cases.error("one_hot", "a class too large", "out of range", [] { one_hot(arange(4), 3); });
  cases.error("one_hot", "a negative class", "out of range", [] { one_hot(arange(-1, 2), 3); });
  cases.error("one_hot", "no classes", "above zero", [] { one_hot(arange(2), 0); });
  cases.error("one_hot", "nothing to infer from", "empty tensor", [] { one_hot(arange(0)); });
}

void empty_cases(Cases& cases) {
  // What `empty` is where ops are intercepted.
  add_made(
      cases, "empty_strided", "by name, then filled", all_dtypes(),
      [] {
        const std::pair<std::string, AttrValue> attrs[] = {{"size", to_attr_value(Shape{2, 3})},
                                                           {"stride", to_attr_value(Shape{1, 2})},
                                                           {"dtype", to_attr_value(dtype())},
                                                           {"device", to_attr_value(device())}};
        const Tensor made = apply_by_name("empty_strided", {}, attrs)[0];
        ensure(made.stride(1) == 2, "empty_strided: the strides were not taken");
        return fill(made, 1);
      },
      [] {
        return Array(Shape{2, 3}, 1);
      });
  cases.error("empty_strided", "too few strides", "2 sizes but 1 strides", [] {
    const std::pair<std::string, AttrValue> attrs[] = {{"size", to_attr_value(Shape{2, 3})},
                                                       {"stride", to_attr_value(Shape{1})}};
    apply_by_name("empty_strided", {}, attrs);
  });
}

void tensor_cases(Cases& cases) {
  add_made(
      cases, "tensor", "a matrix", all_dtypes(),
      [] {
        return tensor({{1, 0, 1}, {0, 0, 1}}, here());
      },
      [] {
        Array result({2, 3});
        result.values = {1, 0, 1, 0, 0, 1};
        return result;
      });
  add_made(
      cases, "tensor", "a number", number_dtypes(), [] { return tensor(7, here()); },
      [] { return Array({}, 7); });
  add_made(
      cases, "tensor", "a vector", floating_dtypes(),
      [] {
        return tensor(std::vector<float>{0.5f, -2}, here());
      },
      [] { return vector_of(2, [](int64_t i) { return i == 0 ? 0.5 : -2; }); });
  add_made(
      cases, "tensor", "an empty list", all_dtypes(), [] { return tensor({}, here()); },
      [] { return Array({0}); });
  cases.error("tensor", "a short row", "at dim 1", [] { tensor({{1, 2}, {3}}); });
  cases.error("tensor", "a number among rows", "at dim 1", [] { tensor({{1, 2}, 3}); });
  cases.error("tensor", "a row among numbers", "at dim 1", [] { tensor({1, {2, 3}}); });
  cases.error("tensor", "a short row deep inside", "at dim 2", [] {
    tensor({{{1, 2}, {3, 4}}, {{5, 6}, {7}}});
  });
  cases.error("tensor", "ragged vectors", "at dim 1", [] {
    tensor(std::vector<std::vector<int>>{{1}, {2, 3}});
  });
  cases.error("tensor", "integers that require grad", "grad", [] {
    tensor({1, 2}, {.requires_grad = true});
  });
  cases.error("at", "too few indices", "expected 2 indices", [] { at(zeros({2, 3}), {1}); });
  cases.error("at", "out of range", "out of range", [] { at(zeros({2, 3}), {1, 3}); });
}

}  // namespace

void creation_cases(Cases& cases) {
  arange_cases(cases);
  space_cases(cases);
  eye_cases(cases);
  triangle_cases(cases);
  one_hot_cases(cases);
  empty_cases(cases);
  tensor_cases(cases);
}

}  // namespace tensora::suite
