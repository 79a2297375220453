#include "tensora/ops/linalg/lu.h"

#include "tensora/ops/linalg/linalg_cases.h"

namespace tensora::suite {
namespace {

const std::map<Mode, std::string> kLarge = {
    {Mode::grad, "too many elements; the small samples have it"}};

// Rows that need no exchange, so that the factors of the reference are those of the op. The
// columns fall off: the smallest element of each row of the diagonal stays the largest below it.
Array factors(Array a) {
  const int64_t m = rows_of(a), n = columns_of(a);
  for (int64_t b = 0; b < batch_of(a).numel(); ++b) {
    double* const p = a.values.data() + b * m * n;
    for (int64_t k = 0; k < std::min(m, n); ++k)
      for (int64_t i = k + 1; i < m; ++i) {
        p[i * n + k] /= p[k * n + k];
        for (int64_t j = k + 1; j < n; ++j) p[i * n + j] -= p[i * n + k] * p[k * n + j];
      }
  }
  return a;
}

Array with_diagonal(Array x) {
  const int64_t m = rows_of(x), n = columns_of(x);
  for (int64_t at = 0; at < x.numel(); ++at)
    if (at / n % m == at % n) x[at] += 8;
  return x;
}
Tensor with_diagonal(const Tensor& x) {
  return x + 8 * eye(x.size(-2), x.size(-1), {.dtype = x.dtype(), .device = x.device()});
}

void factorisations(Cases& cases) {
  for (const Shape& sizes : {Shape{3, 3}, Shape{2, 4, 4}, Shape{3, 5}, Shape{5, 3}, Shape{0, 2}})
    cases.add({.op = "linalg_lu_factor_ex",
               .name = concat(sizes),
               .inputs = {{.sizes = sizes, .low = -1, .high = 1}},
               .run = [](In x) { return one(std::get<0>(linalg::lu_factor(with_diagonal(x[0])))); },
               .reference = [](Arrays x) { return one(factors(with_diagonal(x[0]))); },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 20});
  for (const Shape& sizes :
       {Shape{4, 4}, Shape{2, 3, 5}, Shape{7, 4}, Shape{90, 90}, Shape{33, 70}})
    cases.add(
        {.op = "linalg_lu_factor_ex",
         .name = concat("P L U of ", sizes),
         .inputs = {{.sizes = sizes, .low = -1, .high = 1}},
         .run =
             [](In x) {
               const auto [P, L, U] = linalg::lu(x[0]);
               return Out{matmul(P, matmul(L, U)), tril(U, -1), triu(L, 1), diagonal(L, 0, -2, -1)};
             },
         .reference =
             [](Arrays x) {
               const int64_t m = rows_of(x[0]), n = columns_of(x[0]), k = std::min(m, n);
               const Shape batch = batch_of(x[0]);
               Shape ones = batch;
               ones.push_back(k);
               return ArrayList{x[0], matrices(batch, k, n), matrices(batch, m, k), Array(ones, 1)};
             },
         .dtypes = {kFloat32, kFloat64},
         .tolerance = 60,
         .opt_out = sizes.numel() > 64 ? kLarge : std::map<Mode, std::string>{}});
  cases.add({.op = "linalg_pivots_to_permutation",
             .name = "two exchanges",
             .inputs = {{.sizes = {2, 3}, .dtype = kInt32, .values = {2, 2, 3, 4, 3, 3}}},
             .run =
                 [](In x) {
                   return one(std::get<0>(
                       lu_unpack(zeros({2, 4, 3}, {.device = x[0].device()}), x[0], false)));
                 },
             .reference =
                 [](Arrays) {
                   Array out({2, 4, 4});
                   out.values = {0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1,
                                 0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0};
                   return one(out);
                 },
             .dtypes = {kFloat32},
             .opt_out = {{Mode::view, "the reference belongs to the listed values"}}});
}

void solves(Cases& cases) {
  for (const bool left : {true, false})
    for (const bool adjoint : {false, true})
      for (const Shape& sizes : {Shape{3, 3}, Shape{2, 4, 4}, Shape{60, 60}})
        cases.add({.op = "linalg_lu_solve",
                   .name = concat(sizes, left ? "" : ", right", adjoint ? ", adjoint" : ""),
                   .inputs = {{.sizes = sizes, .low = -1, .high = 1},
                              {.sizes = sizes, .low = -1, .high = 1}},
                   .run =
                       [=](In x) {
                         const auto [LU, pivots] =
                             linalg::lu_factor(flip(with_diagonal(x[0]) * x[0].size(-1), {-2}));
                         return one(linalg::lu_solve(LU, pivots, x[1], left, adjoint));
                       },
                   .reference =
                       [=](Arrays x) {
                         Array a = with_diagonal(x[0]);
                         const int64_t n = columns_of(a);
                         Array flipped = a;
                         for (int64_t at = 0; at < a.numel(); ++at) {
                           const int64_t i = at / n % n;
                           flipped[at] = a[at + (n - 1 - 2 * i) * n] * static_cast<double>(n);
                         }
                         const Array turned = adjoint ? transposed(flipped) : flipped;
                         if (left) return one(solved(turned, x[1]).x);
                         return one(transposed(solved(transposed(turned), transposed(x[1])).x));
                       },
                   .dtypes = {kFloat32, kFloat64},
                   .tolerance = 40,
                   .opt_out = sizes.numel() > 64 ? kLarge : std::map<Mode, std::string>{}});
}

}  // namespace

void lu_cases(Cases& cases) {
  factorisations(cases);
  solves(cases);
  cases.error("linalg_lu_factor_ex", "singular", "linalg.lu_factor: U[2,2] is zero", [] {
    linalg::lu_factor(ones({2, 2}));
  });
  cases.error("linalg_lu_factor_ex", "a vector", "must have at least 2 dimensions",
              [] { linalg::lu(ones({2})); });
  cases.error("lu_unpack", "too few pivots", "LU_pivots must have shape [3], got [1]", [] {
    lu_unpack(ones({3, 3}), ones({1}, {.dtype = kInt32}));
  });
  cases.error("linalg_lu_solve", "pivots", "pivots must be between 1 and 2, got 3",
              [] { linalg::lu_solve(eye(2), full({2}, 3, {.dtype = kInt32}), eye(2)); });
  cases.error("linalg_lu_solve", "pivots of another type", "pivots should be a tensor of int32",
              [] { linalg::lu_solve(eye(2), ones({2}), eye(2)); });
}

}  // namespace tensora::suite
