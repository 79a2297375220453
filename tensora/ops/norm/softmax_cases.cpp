#include <algorithm>
#include <cmath>
#include <limits>

#include "tensora/ops/norm/softmax.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// Calls body with each line along `dim`.
Array by_lines(const Array& x, int64_t dim, bool logarithm) {
  Array out(x.sizes);
  const int rank = x.sizes.size(), d = rank == 0 ? 0 : static_cast<int>((dim + rank) % rank);
  const int64_t length = rank == 0 ? 1 : x.sizes[d];
  int64_t inner = 1;
  for (int k = d + 1; k < rank; ++k) inner *= x.sizes[k];
  for (int64_t line = 0; length > 0 && line < x.numel() / length; ++line) {
    const int64_t first = line / inner * length * inner + line % inner;
    double highest = -inf, total = 0;
    for (int64_t i = 0; i < length; ++i) highest = std::max(highest, x[first + i * inner]);
    for (int64_t i = 0; i < length; ++i) total += std::exp(x[first + i * inner] - highest);
    for (int64_t i = 0; i < length; ++i) {
      const double y = x[first + i * inner] - highest;
      out[first + i * inner] = logarithm ? y - std::log(total) : std::exp(y) / total;
    }
  }
  return out;
}

struct Sample {
  std::string name;
  Shape sizes;
  int64_t dim;
  std::vector<double> values = {};
  std::vector<DType> dtypes = floating_dtypes();
  std::map<Mode, std::string> opt_out = {};
};

std::vector<Sample> samples() {
  return {
      {"scalar", {}, 0},
      {"vector", {7}, 0},
      {"rows", {4, 33}, -1},
      {"columns", {5, 19}, 0},
      {"middle dim", {3, 4, 5}, 1},
      {"length 1", {3, 1, 2}, 1},
      {"no rows", {0, 3}, 1},
      {"no elements in a row", {3, 0}, 1},
      {"rows of several threads", {70, 300}, 1},
      {"columns of several threads", {40, 900}, 0},
      {"one long row", {2, 20000}, 1, {}, {kBFloat16, kFloat32}},
      {"long columns", {9000, 3}, 0, {}, {kFloat16, kFloat32}},
      {"far apart", {2, 4}, 1, {-1000, 0, 1000, 999, -5000, -5001, -5002, -9000}, {kFloat32}},
      {"infinities and NaN",
       {5, 3},
       1,
       {-inf, -inf, -inf, inf, 0, 1, -inf, 2, 3, nan, 0, 1, 1, -inf, -inf},
       floating_dtypes(),
       {{Mode::grad, "infinite"}}},
      {"infinities and NaN in columns",
       {3, 5},
       0,
       {-inf, inf, -inf, nan, 1, -inf, 0, 2, 0, -inf, -inf, 1, 3, 1, -inf},
       floating_dtypes(),
       {{Mode::grad, "infinite"}}},
  };
}

void add_samples(Cases& cases, const std::string& op, bool logarithm) {
  const auto call = logarithm ? log_softmax : softmax;
  for (const Sample& sample : samples())
    cases.add({.op = op,
               .name = sample.name,
               .inputs = {{.sizes = sample.sizes, .values = sample.values}},
               .run = [call, dim = sample.dim](In x) { return one(call(x[0], dim, {})); },
               .reference = [dim = sample.dim,
                             logarithm](Arrays x) { return one(by_lines(x[0], dim, logarithm)); },
               .dtypes = sample.dtypes,
               .opt_out = sample.opt_out});
  cases.add({.op = op,
             .name = "half to float",
             .inputs = {{{3, 40}}},
             .run = [call](In x) { return one(call(x[0], 1, kFloat32)); },
             .reference = [logarithm](Arrays x) { return one(by_lines(x[0], 1, logarithm)); },
             .dtypes = {kFloat16, kBFloat16, kFloat32},
             .output_dtype = [](DType) { return kFloat32; }});
  cases.add({.op = op,
             .name = "integers to float",
             .inputs = {{{3, 4}}},
             .run = [call](In x) { return one(call(x[0], 0, kFloat64)); },
             .reference = [logarithm](Arrays x) { return one(by_lines(x[0], 0, logarithm)); },
             .dtypes = {kInt64, kBool},
             .output_dtype = [](DType) { return kFloat64; }});
  cases.error(op, "integers", "expected a floating-point dtype, got int64",
              [call] { call(zeros({3}, {.dtype = kInt64}), 0, {}); });
  cases.error(op, "to integers", "expected a floating-point dtype, got int64",
              [call] { call(zeros({3}), 0, kInt64); });
  cases.error(op, "dim out of range", op, [call] { call(zeros({3, 2}), 2, {}); });
  for (const Shape& sizes : {Shape{4096, 4096}, Shape{64, 128, 2048}})
    cases.add({.op = op,
               .name = concat("large ", sizes),
               .inputs = {{sizes}},
               .run = [call](In x) { return one(call(x[0], 1, {})); },
               .dtypes = {kFloat32, kBFloat16},
               .big = true});
}

void add_gumbel(Cases& cases) {
  const auto ones_and = [](const Array& first) {
    return ArrayList{first, Array(Shape{6}, 1), Array(Shape{6}, 1)};
  };
  cases.add({.op = "gumbel_softmax",
             .name = "soft",
             .inputs = {{{6, 5}}},
             .run =
                 [](In x) {
                   // The definition with the same noise, drawn a second time.
                   Generator random(5);
                   const GeneratorScope scope(random);
                   const Tensor y = gumbel_softmax(x[0], 0.7);
                   random.manual_seed(5);
                   const Tensor noise = empty({6, 5}, {.dtype = x[0].dtype(), .device = device()});
                   exponential_(noise);
                   const Tensor expected = softmax((x[0] - log(noise)) / 0.7, 1);
                   return Out{y - expected, sum(y, {1}), sum(y, {-1})};
                 },
             .reference = [ones_and](Arrays x) { return ones_and(Array(x[0].sizes)); },
             .dtypes = {kFloat32, kFloat64},
             .opt_out = {{Mode::jit, "sets the seed"}}});
  cases.add({.op = "gumbel_softmax",
             .name = "hard",
             .inputs = {{{6, 5}}},
             .run =
                 [](In x) {
                   const Tensor y = gumbel_softmax(x[0], 2, true, 1).detach();
                   return Out{y * (y - 1), amax(y, {1}), sum(y, {1})};
                 },
             .reference = [ones_and](Arrays x) { return ones_and(Array(x[0].sizes)); },
             .opt_out = {{Mode::grad, "its gradient is that of the soft point"}}});
  cases.error("gumbel_softmax", "integers", "expected floating-point logits",
              [] { gumbel_softmax(zeros({3}, {.dtype = kInt64})); });
}

}  // namespace

void softmax_cases(Cases& cases) {
  add_samples(cases, "softmax", false);
  add_samples(cases, "log_softmax", true);
  cases.add({.op = "softmin",
             .name = "rows",
             .inputs = {{{4, 7}}},
             .run = [](In x) { return one(softmin(x[0], 1)); },
             .reference =
                 [](Arrays x) {
                   Array negative = x[0];
                   for (double& value : negative.values) value = -value;
                   return one(by_lines(negative, 1, false));
                 }});
  add_gumbel(cases);
}

}  // namespace tensora::suite
