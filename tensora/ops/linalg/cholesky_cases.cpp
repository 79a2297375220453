#include "tensora/ops/linalg/cholesky.h"

#include <cmath>
#include <limits>

#include "tensora/ops/linalg/linalg_cases.h"

namespace tensora::suite {
namespace {

Tensor positive_definite(const Tensor& x) {
  return matmul(x, mT(x)) + eye(x.size(-1), {.dtype = x.dtype(), .device = x.device()});
}
Array positive_definite(const Array& x) { return plus_identity(product(x, transposed(x)), 1); }

Array factor(Array a) {
  const int64_t n = columns_of(a);
  for (int64_t b = 0; b < batch_of(a).numel(); ++b) {
    double* const p = a.values.data() + b * n * n;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        for (int64_t k = 0; k < std::min(i, j); ++k) p[i * n + j] -= p[i * n + k] * p[j * n + k];
        p[i * n + j] = i < j ? 0 : i == j ? std::sqrt(p[i * n + j]) : p[i * n + j] / p[j * n + j];
      }
  }
  return a;
}

void factors(Cases& cases) {
  for (const Shape& sizes :
       {Shape{3, 3}, Shape{2, 4, 4}, Shape{1, 1}, Shape{0, 0}, Shape{2, 1, 70, 70}})
    for (const bool upper : {false, true})
      cases.add({.op = "linalg_cholesky_ex",
                 .name = concat(sizes, upper ? ", upper" : ""),
                 .inputs = {{.sizes = sizes, .low = -1, .high = 1}},
                 .run = [=](In x) { return one(linalg::cholesky(positive_definite(x[0]), upper)); },
                 .reference =
                     [=](Arrays x) {
                       const Array lower = factor(positive_definite(x[0]));
                       return one(upper ? transposed(lower) : lower);
                     },
                 .dtypes = {kFloat32, kFloat64},
                 .tolerance = 60,
                 .opt_out = sizes.numel() > 64
                                ? std::map<Mode, std::string>{{Mode::grad, "too many elements"}}
                                : std::map<Mode, std::string>{}});
  cases.add({.op = "linalg_cholesky_ex",
             .name = "solve",
             .inputs = {{.sizes = {3, 3}, .low = -1, .high = 1}, {{3, 2}}},
             .run =
                 [](In x) {
                   return one(cholesky_solve(x[1], linalg::cholesky(positive_definite(x[0]))));
                 },
             .reference = [](Arrays x) { return one(solved(positive_definite(x[0]), x[1]).x); },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = 60});
  cases.add({.op = "linalg_cholesky_ex",
             .name = "inverse",
             .inputs = {{.sizes = {2, 3, 3}, .low = -1, .high = 1}},
             .run =
                 [](In x) {
                   return one(
                       cholesky_inverse(linalg::cholesky(positive_definite(x[0]), true), true));
                 },
             .reference = [](Arrays x) { return one(inverted(positive_definite(x[0]))); },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = 60});
}

// m m^H + 1, of matrices whose numbers are pairs.
Array complex_positive_definite(const Array& m) {
  Array out(m.sizes);
  const int64_t n = m.sizes[m.sizes.size() - 2], batches = m.numel() / (2 * n * n);
  for (int64_t b = 0; b < batches; ++b)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const int64_t at = ((b * n + i) * n + j) * 2;
        out[at] = i == j ? 1 : 0;
        for (int64_t k = 0; k < n; ++k) {
          const int64_t x = ((b * n + i) * n + k) * 2, y = ((b * n + j) * n + k) * 2;
          out[at] += m[x] * m[y] + m[x + 1] * m[y + 1];
          out[at + 1] += m[x + 1] * m[y] - m[x] * m[y + 1];
        }
      }
  return out;
}

// The factor times its adjoint is the matrix again.
void complex_factors(Cases& cases) {
  for (const bool upper : {false, true})
    cases.add({.op = "complex_cholesky",
               .name = upper ? "upper" : "lower",
               .inputs = {{.sizes = {2, 3, 3, 2}, .low = -1, .high = 1}},
               .run =
                   [=](In x) {
                     const Tensor m = view_as_complex(clone(contiguous(x[0])));
                     const Tensor one_each = eye(3, {.dtype = m.dtype(), .device = m.device()});
                     const Tensor f = linalg::cholesky(matmul(m, conj(mT(m))) + one_each, upper);
                     const Tensor adjoint = conj(mT(f));
                     return one(view_as_real(upper ? matmul(adjoint, f) : matmul(f, adjoint)));
                   },
               .reference = [](Arrays x) { return one(complex_positive_definite(x[0])); },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 60});
}

void failures(Cases& cases) {
  cases.add({.op = "linalg_cholesky_ex",
             .name = "info",
             .inputs = {{.sizes = {2, 2, 2}, .values = {1, 0, 0, 1, 1, 2, 2, 1}}},
             .run = [](In x) { return one(std::get<1>(linalg::cholesky_ex(x[0]))); },
             .reference =
                 [](Arrays) {
                   Array out(Shape{2});
                   out.values = {0, 2};
                   return one(out);
                 },
             .dtypes = {kFloat32},
             .output_dtype = [](DType) { return kInt32; },
             .opt_out = {{Mode::grad, "integers"},
                         {Mode::view, "the reference belongs to the listed values"}}});
  cases.error("linalg_cholesky_ex", "not positive",
              "linalg.cholesky: The factorization could not be completed because the input is not "
              "positive-definite (the leading minor of order 1 is not positive-definite).",
              [] { linalg::cholesky(-eye(3)); });
  cases.error("linalg_cholesky_ex", "not positive, in a batch", "(Batch element 1)", [] {
    linalg::cholesky(stack({eye(2), zeros({2, 2})}));
  });
  cases.error("linalg_cholesky_ex", "NaN", "leading minor of order 1", [] {
    linalg::cholesky(full({2, 2}, std::numeric_limits<double>::quiet_NaN()));
  });
  cases.error("linalg_cholesky_ex", "not square", "A must be batches of square matrices", [] {
    linalg::cholesky(zeros({2, 3}));
  });
}

}  // namespace

void cholesky_cases(Cases& cases) {
  factors(cases);
  complex_factors(cases);
  failures(cases);
}

}  // namespace tensora::suite
