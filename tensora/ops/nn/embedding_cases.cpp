#include "tensora/ops/nn/embedding.h"

#include <cmath>

#include "tests/suite/pointwise.h"

namespace tensora::suite {
namespace {

Input indices(const Shape& sizes, std::vector<double> values, DType dtype = kInt64) {
  return {.sizes = sizes, .dtype = dtype, .values = std::move(values)};
}

ArrayList rows_of(Arrays x) {
  const int64_t width = x[0].sizes[1];
  Shape sizes = x[1].sizes;
  sizes.push_back(width);
  Array out(sizes);
  for (int64_t i = 0; i < x[1].numel(); ++i)
    for (int64_t j = 0; j < width; ++j)
      out[i * width + j] = x[0][static_cast<int64_t>(x[1][i]) * width + j];
  return one(out);
}

void add_lookups(Cases& cases) {
  struct Row {
    const char* name;
    Shape weight;
    Input index;
  };
  std::vector<double> many;
  for (int i = 0; i < 600; ++i) many.push_back(i * i % 7 == 0 ? 3 : i % 19);
  const Row rows[] = {{"vector", {5, 3}, indices({4}, {4, 0, 4, 2})},
                      {"matrix", {5, 8}, indices({2, 3}, {4, 0, 4, 2, 1, 1}, kInt32)},
                      {"one number", {5, 3}, indices({}, {4})},
                      {"no indices", {5, 3}, indices({0, 2}, {})},
                      {"no columns", {5, 0}, indices({2}, {1, 1})},
                      {"many", {19, 33}, indices({600}, many)},
                      {"long rows", {3, 1500}, indices({4}, {2, 0, 2, 2})}};
  for (const Row& row : rows)
    cases.add({.op = "embedding",
               .name = row.name,
               .inputs = {{row.weight}, row.index},
               .run = [](In x) { return one(embedding(x[1], x[0])); },
               .reference = rows_of});
}

void add_gradients(Cases& cases) {
  const Input weight{.sizes = {4, 1}, .values = {1, 2, 3, 4}};
  const Tensor places = tensor({2, 0, 2, 3});
  const auto gradient = [&](const char* name, std::vector<double> expected, auto run) {
    Array array(Shape{4, 1});
    array.values = std::move(expected);
    add_gradient(cases, "embedding", name, {weight}, run, {array});
  };
  const auto on_device = [places](In x) { return places.to(x[0].device()); };
  gradient("gradient", {1, 0, 2, 1}, [=](In x) { return embedding(on_device(x), x[0]); });
  gradient("padding", {1, 0, 0, 1}, [=](In x) { return embedding(on_device(x), x[0], -2); });
  gradient("by frequency", {1, 0, 1, 1},
           [=](In x) { return embedding(on_device(x), x[0], {}, {}, 2, true); });
}

void add_norms(Cases& cases) {
  cases.add(
      {.op = "embedding",
       .name = "max_norm",
       .inputs = {{.sizes = {3, 2}, .values = {3, 4, 0.3, 0.4, 6, 8}}, indices({3}, {0, 1, 0})},
       .run =
           [](In x) {
             const Tensor weight = x[0].detach().clone();
             return Out{embedding(x[1], weight, {}, 1.0), weight};
           },
       .reference =
           [](Arrays) {
             Array rows(Shape{3, 2}), weight(Shape{3, 2});
             const double a = 3 / (5 + 1e-7), b = 4 / (5 + 1e-7);
             rows.values = {a, b, 0.3, 0.4, a, b};
             weight.values = {a, b, 0.3, 0.4, 6, 8};
             return ArrayList{rows, weight};
           },
       .tolerance = 4,
       .opt_out = {{Mode::grad, "the weight is a copy"}}});
}

void add_mistakes(Cases& cases) {
  cases.error("embedding", "index out of range", "index 5 is out of bounds", [] {
    embedding(tensor({5}), zeros({5, 2}));
  });
  cases.error("embedding", "negative index", "index -1 is out of bounds", [] {
    embedding(tensor({-1}), zeros({5, 2}));
  });
  cases.error("embedding", "padding", "padding_idx must be within 5 rows", [] {
    embedding(tensor({1}), zeros({5, 2}), 5);
  });
  cases.error("embedding", "float indices", "expected indices of dtype int64 or int32", [] {
    embedding(zeros({1}), zeros({5, 2}));
  });
  cases.error("embedding", "dims of weight", "expected a weight [rows, columns]",
              [] { embedding(tensor({1}), zeros({5})); });
}

}  // namespace

void embedding_cases(Cases& cases) {
  add_lookups(cases);
  add_gradients(cases);
  add_norms(cases);
  add_mistakes(cases);
}

}  // namespace tensora::suite
