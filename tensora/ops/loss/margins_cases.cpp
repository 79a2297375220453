#include "tensora/ops/loss/margins.h"

#include <cmath>

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

using RowLoss = std::function<double(const std::vector<const double*>&, int64_t row)>;

struct Row {
  const char* op;
  const char* name;
  std::vector<Input> inputs;
  std::function<Tensor(In, Reduction)> run;
  RowLoss loss;  // of a row, given where it begins in each of the matrices
  std::optional<std::vector<int>> grad_inputs = {};
};

// Every loss of this room is one number per row of its first input.
void add_row(Cases& cases, const Row& row) {
  for (Reduction::Kind kind : {Reduction::none, Reduction::mean, Reduction::sum})
    cases.add(
        {.op = row.op,
         .name = concat(row.name, ", ", names_of(std::type_identity<Reduction::Kind>{})[kind]),
         .inputs = row.inputs,
         .run = [run = row.run, kind](In x) { return one(run(x, kind)); },
         .reference =
             [loss = row.loss, kind](Arrays x) {
               const int64_t rows = x[0].sizes.size() == 1 ? 1 : x[0].sizes[0];
               Array each(x[0].sizes.size() == 1 ? Shape{} : Shape{rows}), total(Shape{});
               for (int64_t i = 0; i < rows; ++i) {
                 std::vector<const double*> starts;
                 for (const Array& array : x)
                   starts.push_back(array.values.data() + i * (array.numel() / rows));
                 each[i] = loss(starts, i);
                 total[0] += each[i] / (kind == Reduction::mean ? static_cast<double>(rows) : 1);
               }
               return one(kind == Reduction::none ? each : total);
             },
         .tolerance = 8,
         .grad_inputs = row.grad_inputs});
}

constexpr int64_t kWidth = 5;

double dot(const double* a, const double* b) {
  double sum = 0;
  for (int64_t i = 0; i < kWidth; ++i) sum += a[i] * b[i];
  return sum;
}
double distance(const double* a, const double* b, double p) {
  double sum = 0;
  for (int64_t i = 0; i < kWidth; ++i) sum += std::pow(std::abs(a[i] - b[i] + 1e-6), p);
  return std::pow(sum, 1 / p);
}

void add_vectors(Cases& cases) {
  const Input matrix{{4, kWidth}}, signs{.sizes = {4}, .values = {1, -1, -1, 1}};
  add_row(cases, {"cosine_embedding_loss",
                  "rows",
                  {matrix, matrix, signs},
                  [](In x, Reduction r) { return cosine_embedding_loss(x[0], x[1], x[2], 0.1, r); },
                  [](const auto& v, int64_t) {
                    const double cosine =
                        dot(v[0], v[1]) / std::sqrt(dot(v[0], v[0]) * dot(v[1], v[1]));
                    return *v[2] == 1 ? 1 - cosine : std::max(0.0, cosine - 0.1);
                  },
                  std::vector<int>{0, 1}});
  for (double p : {2.0, 3.0})
    add_row(cases, {"triplet_margin_loss",
                    p == 2 ? "rows" : "swap",
                    {matrix, matrix, matrix},
                    [p](In x, Reduction r) {
                      return triplet_margin_loss(x[0], x[1], x[2], 1.5, p, 1e-6, p == 3, r);
                    },
                    [p](const auto& v, int64_t) {
                      double far = distance(v[0], v[2], p);
                      if (p == 3) far = std::min(far, distance(v[1], v[2], p));
                      return std::max(0.0, distance(v[0], v[1], p) - far + 1.5);
                    }});
}

void add_classes(Cases& cases) {
  const Input scores{{4, kWidth}}, vector{{kWidth}};
  const Input places{.sizes = {4}, .dtype = kInt64, .values = {0, 4, 2, 2}};
  const Input place{.sizes = {}, .dtype = kInt64, .values = {3}};
  const auto margins = [](const std::vector<const double*>& v, double p, double margin) {
    double sum = 0;
    const auto y = static_cast<int64_t>(*v[1]);
    for (int64_t c = 0; c < kWidth; ++c)
      if (c != y) sum += std::pow(std::max(0.0, margin - v[0][y] + v[0][c]), p);
    return sum / kWidth;
  };
  add_row(cases, {"multi_margin_loss",
                  "rows",
                  {scores, places},
                  [](In x, Reduction r) { return multi_margin_loss(x[0], x[1], 1, 1, {}, r); },
                  [=](const auto& v, int64_t) { return margins(v, 1, 1); }});
  add_row(cases, {"multi_margin_loss",
                  "squares of a vector",
                  {vector, place},
                  [](In x, Reduction r) { return multi_margin_loss(x[0], x[1], 2, 0.5, {}, r); },
                  [=](const auto& v, int64_t) { return margins(v, 2, 0.5); }});
  add_row(cases, {"multilabel_soft_margin_loss",
                  "rows",
                  {scores, {{4, kWidth}, 0, 1}},
                  [](In x, Reduction r) { return multilabel_soft_margin_loss(x[0], x[1], {}, r); },
                  [](const auto& v, int64_t) {
                    double sum = 0;
                    for (int64_t c = 0; c < kWidth; ++c)
                      sum += std::log1p(std::exp(-v[0][c])) + (1 - v[1][c]) * v[0][c];
                    return sum / kWidth;
                  }});
  cases.add({.op = "multi_margin_loss",
             .name = "weight",
             .inputs = {{.sizes = {1, 2}, .values = {1, 2}},
                        {.sizes = {1}, .dtype = kInt64, .values = {0}},
                        {.sizes = {2}, .values = {3, 5}}},
             .run = [](In x) { return one(multi_margin_loss(x[0], x[1], 1, 1, x[2])); },
             .reference =
                 [](Arrays x) {
                   Array out(Shape{});
                   out[0] = x[2][0] * std::max(0.0, 1 - x[0][0] + x[0][1]) / 2;
                   return one(out);
                 }});
}

}  // namespace

void margins_cases(Cases& cases) {
  add_vectors(cases);
  add_classes(cases);
  cases.error("cosine_embedding_loss", "dims", "expected inputs of 2 dims",
              [] { cosine_embedding_loss(zeros({3}), zeros({3}), ones({3})); });
  cases.error("triplet_margin_loss", "margin", "margin must be greater than 0", [] {
    triplet_margin_loss(zeros({1, 2}), zeros({1, 2}), zeros({1, 2}), 0);
  });
  cases.error("multi_margin_loss", "p", "p must be 1 or 2", [] {
    multi_margin_loss(zeros({1, 2}), tensor({0}), 3);
  });
  cases.error("multi_margin_loss", "target", "expected a target of shape [2]", [] {
    multi_margin_loss(zeros({2, 2}), tensor({0}));
  });
}

}  // namespace tensora::suite
