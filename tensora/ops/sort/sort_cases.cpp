#include "tensora/ops/sort/sort.h"

#include "tensora/dispatch/op.h"
#include "tensora/ops/sort/line_cases.h"
#include "tensora/ops/sort/sort_values_op.h"

namespace tensora::suite {
namespace {

struct Sample {
  const char* name;
  Shape sizes;
  int64_t dim;
  bool descending = false;
  std::vector<double> values = {};
  double low = -3, high = 3;
};

Case sample_of(const Sample& s, const std::vector<DType>& dtypes) {
  return {.op = "sort",
          .name = s.name,
          .inputs = {{.sizes = s.sizes, .low = s.low, .high = s.high, .values = s.values}},
          .run =
              [=](In x) {
                const auto [values, indices] = sort(x[0], s.dim, s.descending);
                return Out{values, indices};
              },
          .reference =
              [=](Arrays x) {
                const int64_t n =
                    s.sizes.empty() ? 1 : s.sizes[wrap_dim(s.dim, s.sizes.size(), "sort")];
                return chosen_of_lines(
                    x[0], s.dim, n, [=](const Line& line) { return ordered(line, s.descending); });
              },
          .dtypes = dtypes,
          .output_dtypes = {std::nullopt, kInt64}};
}

void long_samples(Cases& cases) {
  const Sample samples[] = {{"rows by digits", {3, 1000}, 1, true},
                            {"columns by digits", {700, 3}, 0},
                            {"many rows", {300, 70}, 1},
                            {"wide columns", {40, 130}, 0, true},
                            {"rows of a block", {2, 4097}, 1},
                            {"longer than a block", {2, 9000}, 1, true},
                            {"all equal", {2, 9000}, 1, true, {}, 1, 1},
                            {"one digit differs", {2, 9000}, 1, false, {}, 0, 200},
                            {"two digits differ", {2, 9000}, 1, false, {}, 0, 60000},
                            {"lines of several tiles", {4, 17000}, 1},
                            {"columns of several tiles", {17000, 3}, 0, true},
                            {"on all threads", {140001}, 0},
                            {"on all threads, descending", {2, 140001}, -1, true}};
  for (const Sample& s : samples) {
    Case sample = sample_of(s, {kFloat32, kFloat64, kBFloat16, kInt64, kInt32, kInt8, kBool});
    sample.opt_out = {{Mode::grad, "neighbours closer than the step of finite differences"}};
    if (s.high > 3) sample.dtypes = {kInt64, kInt32};
    if (s.sizes.numel() > 100000) {
      sample.dtypes = {kFloat32, kInt64, kFloat16};
      sample.opt_out[Mode::view] = "the rows by digits have it";
    }
    cases.add(sample);
  }
}

// The elements alone.
void values_samples(Cases& cases) {
  struct Values {
    const char* name;
    int64_t count;
    double low = -3, high = 3;
    Line values = {};
    std::vector<DType> dtypes = all_dtypes();
  };
  const Line specials = {1, kNan, -kInf, 0, -0.0, kInf, kNan, -1, -2.5, 0};
  const Values samples[] = {{"few", 7},
                            {"one element", 1},
                            {"empty", 0},
                            {"NaN and ties", 10, 0, 0, specials, floating_dtypes()},
                            {"a block", 2048},
                            {"longer than a block", 2049},
                            {"all equal", 9000, 1, 1},
                            {"one digit differs", 9000, 0, 100},
                            {"several tiles", 17000, -1000, 1000, {}, {kFloat32, kFloat64, kInt64}},
                            {"many tiles", 140001, -3, 3, {}, {kFloat32, kInt64, kFloat16}}};
  for (const Values& s : samples)
    cases.add({.op = "sort_values",
               .name = s.name,
               .inputs = {{{s.count}, s.low, s.high, {}, s.values}},
               .run = [](In x) { return one(apply(sort_values_op, {contiguous(x[0])})); },
               .reference =
                   [](Arrays x) {
                     return one(chosen_of_lines(x[0], 0, x[0].numel(), [](const Line& line) {
                       return ordered(line, false);
                     })[0]);
                   },
               .dtypes = s.dtypes,
               .opt_out = {{Mode::grad, "not differentiable"}}});
}

}  // namespace

void sort_cases(Cases& cases) {
  const Sample samples[] = {{"vector", {7}, 0},
                            {"rows", {3, 5}, 1},
                            {"columns", {5, 3}, 0, true},
                            {"middle", {2, 4, 3}, 1},
                            {"from the end", {2, 3}, -2, true},
                            {"0-dim", {}, 0},
                            {"one element", {1}, -1},
                            {"empty", {0}, 0},
                            {"empty lines", {3, 0}, 1},
                            {"no lines", {0, 3}, 1},
                            {"past insertion", {2, 33}, 1}};
  for (const Sample& s : samples) cases.add(sample_of(s, all_dtypes()));
  const std::vector<double> specials = {1,    kNan, -kInf, 0,    -0.0, kInf, kNan, -1,
                                        -2.5, 0,    1,     -0.0, kInf, 3,    -1,   kNan};
  for (const bool descending : {false, true}) {
    Case sample = sample_of(
        {descending ? "NaN and ties, descending" : "NaN and ties", {2, 8}, 1, descending, specials},
        floating_dtypes());
    sample.opt_out = {{Mode::grad, "ties and NaN"}};
    cases.add(sample);
  }
  long_samples(cases);
  values_samples(cases);
  cases.add({.op = "argsort",
             .name = "columns, descending",
             .inputs = {{{6, 4}}},
             .run = [](In x) { return one(argsort(x[0], 0, true, true)); },
             .reference =
                 [](Arrays x) {
                   return one(chosen_of_lines(
                       x[0], 0, 6, [](const Line& line) { return ordered(line, true); })[1]);
                 },
             .dtypes = all_dtypes(),
             .output_dtype = [](DType) { return kInt64; },
             .opt_out = {{Mode::grad, "the result is integers"}}});
  cases.add({.op = "msort",
             .name = "columns",
             .inputs = {{{6, 4}}},
             .run = [](In x) { return one(msort(x[0])); },
             .reference =
                 [](Arrays x) {
                   return one(chosen_of_lines(
                       x[0], 0, 6, [](const Line& line) { return ordered(line, false); })[0]);
                 },
             .dtypes = all_dtypes()});
  cases.error("sort", "dim out of range", "out of range", [] { sort(ones({3}), 1); });
  cases.error("sort", "complex", "sort", [] { sort(ones({3}, {.dtype = kComplex64})); });
  cases.error("argsort", "dim out of range", "out of range", [] { argsort(ones({3}), -2); });
}

}  // namespace tensora::suite
