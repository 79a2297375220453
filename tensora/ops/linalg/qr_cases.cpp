#include <cmath>

#include "tensora/ops/linalg/qr.h"

#include "tensora/ops/linalg/linalg_cases.h"

namespace tensora::suite {
namespace {

// With a positive diagonal of R the factors are unique.
Out with_positive_diagonal(const std::tuple<Tensor, Tensor>& factors) {
  const auto& [Q, R] = factors;
  const Tensor signs = sign(diagonal(R, 0, -2, -1));
  return {Q * unsqueeze(signs, -2), R * unsqueeze(signs, -1)};
}

ArrayList orthogonalised(const Array& a) {
  const int64_t m = rows_of(a), n = columns_of(a), k = std::min(m, n);
  Array q = matrices(batch_of(a), m, k);
  for (int64_t b = 0; b < batch_of(a).numel(); ++b)
    for (int64_t j = 0; j < k; ++j) {
      const auto at = [&](int64_t i, int64_t column) -> double& {
        return q[(b * m + i) * k + column];
      };
      for (int64_t i = 0; i < m; ++i) at(i, j) = a[(b * m + i) * n + j];
      for (int64_t pass = 0; pass < 2; ++pass)
        for (int64_t before = 0; before < j; ++before) {
          double dot = 0;
          for (int64_t i = 0; i < m; ++i) dot += at(i, before) * at(i, j);
          for (int64_t i = 0; i < m; ++i) at(i, j) -= dot * at(i, before);
        }
      double norm = 0;
      for (int64_t i = 0; i < m; ++i) norm += at(i, j) * at(i, j);
      for (int64_t i = 0; i < m; ++i) at(i, j) /= std::sqrt(norm);
    }
  return {q, product(transposed(q), a)};
}

}  // namespace

void qr_cases(Cases& cases) {
  for (const Shape& sizes :
       {Shape{3, 3}, Shape{4, 2}, Shape{2, 3, 5}, Shape{2, 2, 3, 1}, Shape{3, 0}, Shape{60, 40}})
    cases.add({.op = "linalg_qr",
               .name = concat(sizes),
               .inputs = {{.sizes = sizes, .low = -1, .high = 1}},
               .run = [](In x) { return with_positive_diagonal(linalg::qr(x[0])); },
               .reference = [](Arrays x) { return orthogonalised(x[0]); },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 200,
               .opt_out = sizes.numel() > 64
                              ? std::map<Mode, std::string>{{Mode::grad, "too many elements"}}
                              : std::map<Mode, std::string>{}});
  for (const Shape& sizes : {Shape{2, 4, 3}, Shape{3, 5}, Shape{4, 0}})
    cases.add({.op = "linalg_qr",
               .name = concat(sizes, ", complete"),
               .inputs = {{.sizes = sizes, .low = -1, .high = 1}},
               .run =
                   [](In x) {
                     const auto [Q, R] = linalg::qr(x[0], "complete");
                     return Out{matmul(Q, R), matmul(mT(Q), Q), tril(R, -1)};
                   },
               .reference =
                   [](Arrays x) {
                     const int64_t m = rows_of(x[0]);
                     return ArrayList{x[0], plus_identity(matrices(batch_of(x[0]), m, m), 1),
                                      Array(x[0].sizes)};
                   },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 40,
               .opt_out = {{Mode::grad, "constant, or not differentiable"}}});
  cases.add({.op = "linalg_qr",
             .name = "R alone",
             .inputs = {{.sizes = {4, 3}, .low = -1, .high = 1}},
             .run = [](In x) { return one(abs(std::get<1>(linalg::qr(x[0], "r")))); },
             .reference =
                 [](Arrays x) {
                   Array r = orthogonalised(x[0])[1];
                   for (double& value : r.values) value = std::abs(value);
                   return one(r);
                 },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = 40,
             .opt_out = {{Mode::grad, "needs Q"}}});
  cases.error("linalg_qr", "mode", "mode must be 'reduced'", [] { linalg::qr(eye(3), "full"); });
  cases.error("linalg_qr", "a vector", "must have at least 2 dimensions",
              [] { linalg::qr(ones({3})); });
  cases.error("linalg_qr", "gradient of R alone", "not computed in the mode 'r'", [] {
    const Tensor x = ones({2, 2}).requires_grad_();
    sum(std::get<1>(linalg::qr(x, "r"))).backward();
  });
  cases.error("linalg_qr", "gradient of a complete tall one", "not differentiable in the mode", [] {
    const Tensor x = ones({3, 2}).requires_grad_();
    sum(std::get<0>(linalg::qr(x, "complete"))).backward();
  });
}

}  // namespace tensora::suite
