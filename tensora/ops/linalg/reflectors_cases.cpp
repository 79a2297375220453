#include "tensora/ops/linalg/reflectors.h"

#include "tensora/ops/linalg/linalg_cases.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

/// The product of reflectors times C, by its definition: … m k.
Array reflected(const Array& a, const Array& tau, Array c, bool transpose) {
  const int64_t m = rows_of(a), n = columns_of(a), k = columns_of(tau), w = columns_of(c);
  for (int64_t b = 0; b < batch_of(a).numel(); ++b)
    for (int64_t step = 0; step < k; ++step) {
      const int64_t r = transpose ? step : k - 1 - step;
      const auto v = [&](int64_t i) { return i < r ? 0 : i == r ? 1 : a[(b * m + i) * n + r]; };
      for (int64_t j = 0; j < w; ++j) {
        double inner = 0;
        for (int64_t i = 0; i < m; ++i) inner += v(i) * c[(b * m + i) * w + j];
        for (int64_t i = 0; i < m; ++i) c[(b * m + i) * w + j] -= tau[b * k + r] * v(i) * inner;
      }
    }
  return c;
}

Array columns_of_identity(const Array& a) {
  Array out(a.sizes);
  const int64_t m = rows_of(a), n = columns_of(a);
  for (int64_t b = 0; b < batch_of(a).numel(); ++b)
    for (int64_t i = 0; i < std::min(m, n); ++i) out[(b * m + i) * n + i] = 1;
  return out;
}

void add_products(Cases& cases) {
  struct Row {
    Shape a, tau;
  };
  for (const Row& row : {Row{{4, 3}, {3}}, Row{{2, 4, 4}, {2, 2}}, Row{{3, 2}, {0}}}) {
    cases.add(
        {.op = "householder_product",
         .name = concat(row.a, row.tau),
         .inputs = {{.sizes = row.a, .low = -1, .high = 1},
                    {.sizes = row.tau, .low = 0, .high = 1}},
         .run = [](In x) { return one(linalg::householder_product(x[0], x[1])); },
         .reference =
             [](Arrays x) { return one(reflected(x[0], x[1], columns_of_identity(x[0]), false)); },
         .dtypes = {kFloat32, kFloat64},
         .tolerance = 20});
    for (const bool left : {true, false})
      for (const bool transpose : {true, false}) {
        Shape c = row.a;
        c[c.size() - 1] = 5;
        if (!left) std::swap(c[c.size() - 1], c[c.size() - 2]);
        cases.add(
            {.op = "ormqr",
             .name =
                 concat(row.a, row.tau, left ? " left" : " right", transpose ? " transposed" : ""),
             .inputs = {{.sizes = row.a, .low = -1, .high = 1},
                        {.sizes = row.tau, .low = 0, .high = 1},
                        {.sizes = c, .low = -1, .high = 1}},
             .run = [=](In x) { return one(ormqr(x[0], x[1], x[2], left, transpose)); },
             .reference =
                 [=](Arrays x) {
                   if (left) return one(reflected(x[0], x[1], x[2], transpose));
                   return one(transposed(reflected(x[0], x[1], transposed(x[2]), !transpose)));
                 },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = 20});
      }
  }
}

}  // namespace

void reflectors_cases(Cases& cases) {
  add_products(cases);
  for (const Shape& sizes : {Shape{4, 3}, Shape{3, 3}, Shape{2, 5, 2}, Shape{1, 1}})
    cases.add({.op = "geqrf",
               .name = concat(sizes),
               .inputs = {{.sizes = sizes, .low = -1, .high = 1}},
               .run =
                   [](In x) {
                     const auto [a, tau] = geqrf(x[0]);
                     const Tensor R = triu(slice(a, -2, 0, a.size(-1)));
                     return one(matmul(linalg::householder_product(a, tau), R));
                   },
               .reference = [](Arrays x) { return one(x[0]); },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 40});
  cases.error("householder_product", "wide", "input.shape[-2] must be greater than or equal to",
              [] {
                linalg::householder_product(ones({2, 3}), ones({2}));
              });
  cases.error("householder_product", "too many", "must be greater than or equal to tau.shape[-1]",
              [] {
                linalg::householder_product(ones({3, 2}), ones({3}));
              });
  cases.error("ormqr", "sizes", "must be equal to input.shape[-2]", [] {
    ormqr(ones({3, 2}), ones({2}), ones({2, 2}));
  });
  cases.error("geqrf", "a vector", "must have at least 2 dimensions", [] { geqrf(ones({3})); });
}

}  // namespace tensora::suite
