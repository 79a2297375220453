#include "tensora/ops/linalg/triangular.h"

#include "tensora/ops/linalg/linalg_cases.h"

namespace tensora::suite {
namespace {

Array triangle_of(Array x, bool upper, bool unit) {
  const int64_t n = columns_of(x);
  for (int64_t at = 0; at < x.numel(); ++at) {
    const int64_t i = at / n % n, j = at % n;
    if (upper ? i > j : i < j) x[at] = 0;
    if (i == j) x[at] = unit ? 1 : x[at] + 3;
  }
  return x;
}

Tensor with_large_diagonal(const Tensor& x) {
  return x + 3 * eye(x.size(-1), {.dtype = x.dtype(), .device = x.device()});
}

Array reference(const Array& x, const Array& b, bool upper, bool left, bool unit) {
  const Array a = triangle_of(x, upper, unit);
  if (left) return solved(a, b).x;
  return transposed(solved(transposed(a), transposed(b)).x);
}

}  // namespace

void triangular_cases(Cases& cases) {
  const struct {
    Shape a, b;
    bool upper, left, unit;
  } listed[] = {
      {{3, 3}, {3, 2}, false, true, false},      {{3, 3}, {3, 2}, true, true, false},
      {{3, 3}, {2, 3}, true, false, false},      {{3, 3}, {2, 3}, false, false, true},
      {{2, 4, 4}, {2, 4, 1}, true, true, true},  {{2, 0, 0}, {2, 0, 1}, true, true, false},
      {{40, 40}, {40, 7}, false, true, false},   {{40, 40}, {40, 1}, true, true, false},
      {{50, 50}, {300, 50}, true, false, false}, {{50, 50}, {50, 600}, false, true, true}};
  for (const auto& sample : listed)
    cases.add({.op = "linalg_solve_triangular",
               .name = concat(sample.a, " and ", sample.b, sample.upper ? ", upper" : "",
                              sample.left ? "" : ", right", sample.unit ? ", unit" : ""),
               // Small elements beside the diagonal: substitution then amplifies nothing.
               .inputs = {{.sizes = sample.a, .low = -0.1, .high = 0.1}, {sample.b}},
               .run =
                   [=](In x) {
                     return one(linalg::solve_triangular(with_large_diagonal(x[0]), x[1],
                                                         sample.upper, sample.left, sample.unit));
                   },
               .reference =
                   [=](Arrays x) {
                     return one(reference(x[0], x[1], sample.upper, sample.left, sample.unit));
                   },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 20,
               .opt_out = sample.a.numel() > 64
                              ? std::map<Mode, std::string>{{Mode::grad, "too many elements"}}
                              : std::map<Mode, std::string>{}});
  cases.add(
      {.op = "linalg_solve_triangular",
       .name = "triangular_solve, transposed",
       .inputs = {{{3, 2}}, {.sizes = {3, 3}, .low = -0.1, .high = 0.1}},
       .run =
           [](In x) {
             return one(std::get<0>(triangular_solve(x[0], with_large_diagonal(x[1]), true, true)));
           },
       .reference =
           [](Arrays x) { return one(solved(transposed(triangle_of(x[1], true, false)), x[0]).x); },
       .dtypes = {kFloat32, kFloat64},
       .tolerance = 10});
  cases.error("linalg_solve_triangular", "shapes", "Incompatible shapes of A and B", [] {
    linalg::solve_triangular(eye(3), zeros({2, 3}), true);
  });
  cases.error("linalg_solve_triangular", "not square", "A must be batches of square matrices", [] {
    linalg::solve_triangular(zeros({2, 3}), zeros({2, 3}), true);
  });
}

}  // namespace tensora::suite
