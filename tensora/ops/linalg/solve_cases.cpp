#include <cmath>

#include "tensora/ops/linalg/solve.h"

#include "tensora/ops/linalg/linalg_cases.h"
#include "tensora/ops/linalg/lu.h"
#include "tensora/ops/linalg/triangular.h"

namespace tensora::suite {
namespace {

// Far from singular, so that rounding is not amplified.
Tensor regular(const Tensor& x) {
  return x + 4 * eye(x.size(-1), {.dtype = x.dtype(), .device = x.device()});
}
Array regular(const Array& x) { return plus_identity(x, 4); }

Input unit_interval(const Shape& sizes) { return {.sizes = sizes, .low = -1, .high = 1}; }

const std::map<Mode, std::string> kLarge = {
    {Mode::grad, "too many elements; the small samples have it"}};

void equations(Cases& cases) {
  const struct {
    Shape a, b;
    bool left;
  } listed[] = {
      {{3, 3}, {3, 2}, true},       {{2, 3, 3}, {2, 3, 2}, true},  {{1, 1}, {1, 1}, true},
      {{4, 4}, {2, 4}, false},      {{2, 3, 3}, {2, 4, 3}, false}, {{0, 3, 3}, {0, 3, 2}, true},
      {{2, 0, 0}, {2, 0, 3}, true}, {{37, 37}, {37, 5}, true},     {{130, 130}, {130, 300}, true}};
  for (const auto& sample : listed)
    cases.add({.op = "linalg_solve_ex",
               .name = concat(sample.a, " and ", sample.b, sample.left ? "" : ", right"),
               .inputs = {unit_interval(sample.a), unit_interval(sample.b)},
               .run =
                   [=](In x) {
                     return one(linalg::solve(regular(x[0]) * sample.a.back(), x[1], sample.left));
                   },
               .reference =
                   [=](Arrays x) {
                     Array a = regular(x[0]);
                     for (double& value : a.values) value *= static_cast<double>(sample.a.back());
                     if (sample.left) return one(solved(a, x[1]).x);
                     return one(transposed(solved(transposed(a), transposed(x[1])).x));
                   },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 40,
               .opt_out = sample.a.numel() > 64 ? kLarge : std::map<Mode, std::string>{}});
  cases.add({.op = "linalg_solve_ex",
             .name = "vectors",
             .inputs = {unit_interval({2, 3, 3}), unit_interval({2, 3})},
             .run = [](In x) { return one(linalg::solve(regular(x[0]), x[1])); },
             .reference =
                 [](Arrays x) {
                   Array b = x[1];
                   b.sizes.push_back(1);
                   Array out = solved(regular(x[0]), b).x;
                   out.sizes = x[1].sizes;
                   return one(out);
                 },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = 10});
  cases.add({.op = "linalg_solve_ex",
             .name = "one matrix for a batch",
             .inputs = {unit_interval({3, 3}), unit_interval({2, 3, 2})},
             .run = [](In x) { return one(linalg::solve(regular(x[0]), x[1])); },
             .reference =
                 [](Arrays x) {
                   return one(solved(regular(x[0].broadcast_to({2, 3, 3})), x[1]).x);
                 },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = 10});
}

void inverses(Cases& cases) {
  for (const Shape& sizes : {Shape{3, 3}, Shape{2, 2, 4, 4}, Shape{0, 0}, Shape{50, 50}})
    cases.add({.op = "linalg_inv_ex",
               .name = concat(sizes),
               .inputs = {unit_interval(sizes)},
               .run = [](In x) { return one(linalg::inv(regular(x[0]) * x[0].size(-1))); },
               .reference =
                   [](Arrays x) {
                     Array a = regular(x[0]);
                     for (double& value : a.values) value *= static_cast<double>(columns_of(a));
                     return one(inverted(a));
                   },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 40,
               .opt_out = sizes.numel() > 64 ? kLarge : std::map<Mode, std::string>{}});
}

void determinants(Cases& cases) {
  for (const Shape& sizes : {Shape{3, 3}, Shape{2, 4, 4}, Shape{1, 1}, Shape{2, 0, 0}}) {
    cases.add({.op = "linalg_det",
               .name = concat(sizes),
               .inputs = {unit_interval(sizes)},
               .run = [](In x) { return one(linalg::det(x[0])); },
               .reference = [](Arrays x) { return one(solved(x[0], x[0]).determinants); },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 40});
    cases.add({.op = "linalg_slogdet",
               .name = concat(sizes),
               .inputs = {unit_interval(sizes)},
               .run =
                   [](In x) {
                     const auto [sign, magnitude] = linalg::slogdet(x[0]);
                     return Out{sign, magnitude};
                   },
               .reference =
                   [](Arrays x) {
                     const Array dets = solved(x[0], x[0]).determinants;
                     ArrayList out{dets, dets};
                     for (double& value : out[0].values) value = value > 0 ? 1 : -1;
                     for (double& value : out[1].values) value = std::log(std::abs(value));
                     return out;
                   },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 100});
  }
  cases.add({.op = "linalg_det",
             .name = "singular",
             .inputs = {{.sizes = {3, 3}, .values = {1, 2, 3, 2, 4, 6, 1, 0, 1}}},
             .run = [](In x) { return one(linalg::det(x[0])); },
             .reference = [](Arrays) { return one(Array(Shape{})); },
             .dtypes = {kFloat64},
             .tolerance = 1e5,  // its second derivative is that of a matrix close to it
             .opt_out = {{Mode::view, "the reference belongs to the listed values"},
                         {Mode::jit, "the reference belongs to the listed values"}}});
  cases.add({.op = "linalg_slogdet",
             .name = "logdet",
             .inputs = {{.sizes = {2, 2}, .values = {2, 1, 1, 3}}},
             .run = [](In x) { return one(logdet(x[0])); },
             .reference =
                 [](Arrays x) {
                   Array out = solved(x[0], x[0]).determinants;
                   for (double& value : out.values) value = std::log(value);
                   return one(out);
                 },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = 10});
}

void mistakes(Cases& cases) {
  cases.error("linalg_solve_ex", "singular",
              "linalg.solve: The solver failed because the input "
              "matrix is singular.",
              [] {
                linalg::solve(zeros({3, 3}), zeros({3}));
              });
  cases.error("linalg_solve_ex", "shapes",
              "Incompatible shapes of A and B for the equation AX = B "
              "(3x3 and 2x3)",
              [] {
                linalg::solve(eye(3), zeros({2, 3}));
              });
  cases.error("linalg_solve_ex", "dtypes", "Expected A and B to have the same dtype", [] {
    linalg::solve(eye(3), zeros({3, 1}, {.dtype = kFloat64}));
  });
  cases.error("linalg_inv_ex", "singular in a batch",
              "linalg.inv: (Batch element 1): The diagonal element 2 is zero, the inversion could "
              "not be completed because the input matrix is singular.",
              [] {
                linalg::inv(stack({eye(2), ones({2, 2})}));
              });
  cases.error("linalg_inv_ex", "not square",
              "A must be batches of square matrices, but they are 2 "
              "by 3 matrices",
              [] {
                linalg::inv(zeros({2, 3}));
              });
  cases.error("linalg_inv_ex", "a vector", "must have at least 2 dimensions",
              [] { inverse(zeros({3})); });
  cases.error("linalg_inv_ex", "integers", "Expected a floating point tensor as input. Got int64",
              [] {
                linalg::inv(zeros({2, 2}, {.dtype = kInt64}));
              });
  cases.error("linalg_det", "not square", "linalg.det: A must be batches of square matrices", [] {
    linalg::det(zeros({2, 3}));
  });
  cases.error("linalg_slogdet", "not square", "linalg.slogdet: A must be batches of square", [] {
    linalg::slogdet(zeros({2, 3}));
  });
}

}  // namespace

void solve_cases(Cases& cases) {
  equations(cases);
  inverses(cases);
  determinants(cases);
  mistakes(cases);
}

}  // namespace tensora::suite
