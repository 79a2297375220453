#include "tensora/ops/linalg/svd.h"

#include <cmath>
#include <limits>

#include "tensora/ops/linalg/linalg_cases.h"

namespace tensora::suite {
namespace {

const std::map<Mode, std::string> kLarge = {
    {Mode::grad, "too many elements; the small samples have it"}};

Array squared(const Array& x, bool wide) {
  return wide ? product(x, transposed(x)) : product(transposed(x), x);
}

/// The singular values, and U Vh: A (A^T A)^-1/2, or (A A^T)^-1/2 A.
ArrayList singular(const Array& a) {
  const bool wide = rows_of(a) < columns_of(a);
  const Eigen squares = eigen(squared(a, wide));
  Array values = squares.values;
  const int64_t k = values.sizes.back();
  for (int64_t at = 0; at < values.numel(); ++at)
    values[at] = std::sqrt(std::max(0.0, squares.values[at / k * k + k - 1 - at % k]));
  const Array root = function_of(squares, [](double x) { return 1 / std::sqrt(x); });
  return {values, wide ? product(root, a) : product(a, root)};
}

void decompositions(Cases& cases) {
  for (const Shape& sizes : {Shape{3, 3}, Shape{4, 2}, Shape{2, 2, 3}, Shape{1, 1}, Shape{30, 20}})
    cases.add({.op = "linalg_svd",
               .name = concat(sizes),
               .inputs = {{.sizes = sizes, .low = -1, .high = 1}},
               .run =
                   [](In x) {
                     const auto [U, S, Vh] = linalg::svd(x[0], false);
                     return Out{S, matmul(U, Vh), matmul(U * unsqueeze(S, -2), Vh)};
                   },
               .reference =
                   [](Arrays x) {
                     ArrayList out = singular(x[0]);
                     out.push_back(x[0]);
                     return out;
                   },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 400,
               .opt_out = sizes.numel() > 64 ? kLarge : std::map<Mode, std::string>{}});
  for (const Shape& sizes : {Shape{4, 2}, Shape{2, 2, 3}, Shape{3, 0}, Shape{0, 2, 2}})
    cases.add({.op = "linalg_svd",
               .name = concat(sizes, ", full"),
               .inputs = {{.sizes = sizes, .low = -1, .high = 1}},
               .run =
                   [](In x) {
                     const auto [U, S, Vh] = linalg::svd(x[0]);
                     return Out{matmul(mT(U), U), matmul(Vh, mT(Vh))};
                   },
               .reference =
                   [](Arrays x) {
                     const Shape batch = batch_of(x[0]);
                     const int64_t m = rows_of(x[0]), n = columns_of(x[0]);
                     return ArrayList{plus_identity(matrices(batch, m, m), 1),
                                      plus_identity(matrices(batch, n, n), 1)};
                   },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 40,
               .opt_out = {{Mode::grad, "constant"}}});
  cases.add({.op = "linalg_svd",
             .name = "values alone",
             .inputs = {{.sizes = {2, 4, 3}, .low = -1, .high = 1}},
             .run = [](In x) { return one(linalg::svdvals(x[0])); },
             .reference = [](Arrays x) { return one(singular(x[0])[0]); },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = 100});
}

void eigenvalues(Cases& cases) {
  for (const Shape& sizes : {Shape{3, 3}, Shape{2, 4, 4}, Shape{1, 1}, Shape{0, 0}, Shape{25, 25}})
    for (const char* triangle : {"L", "U"})
      cases.add({.op = "linalg_eigh",
                 .name = concat(sizes, triangle),
                 .inputs = {{.sizes = sizes, .low = -1, .high = 1}},
                 .run =
                     [=](In x) {
                       const auto [L, V] = linalg::eigh(x[0] + mT(x[0]), triangle);
                       return Out{L, matmul(V * unsqueeze(exp(L), -2), mT(V))};
                     },
                 .reference =
                     [](Arrays x) {
                       Array a = x[0];
                       const Array turned = transposed(a);
                       for (int64_t i = 0; i < a.numel(); ++i) a[i] += turned[i];
                       const Eigen found = eigen(a);
                       return ArrayList{found.values,
                                        function_of(found, [](double l) { return std::exp(l); })};
                     },
                 .dtypes = {kFloat32, kFloat64},
                 .tolerance = 200,
                 .opt_out = sizes.numel() > 64 ? kLarge : std::map<Mode, std::string>{}});
  cases.add({.op = "linalg_eigh",
             .name = "of one triangle, values alone",
             .inputs = {{.sizes = {2, 2}, .values = {2, 99, 1, 3}}},
             .run = [](In x) { return one(linalg::eigvalsh(x[0])); },
             .reference =
                 [](Arrays) {
                   Array out(Shape{2});
                   out.values = {2.5 - std::sqrt(1.25), 2.5 + std::sqrt(1.25)};
                   return one(out);
                 },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = 10,
             .opt_out = {{Mode::grad, "the gradient is that of a symmetric matrix"},
                         {Mode::view, "the reference belongs to the listed values"}}});
}

}  // namespace

void svd_cases(Cases& cases) {
  decompositions(cases);
  eigenvalues(cases);
  cases.error("linalg_svd", "a vector", "must have at least 2 dimensions",
              [] { linalg::svd(ones({3})); });
  cases.error("linalg_svd", "NaN", "linalg.svd: The algorithm failed to converge", [] {
    linalg::svd(full({2, 2}, std::numeric_limits<double>::quiet_NaN()));
  });
  cases.error("linalg_eigh", "not square", "A must be batches of square matrices", [] {
    linalg::eigh(ones({2, 3}));
  });
  cases.error("linalg_eigh", "triangle", "Expected UPLO argument to be 'L' or 'U', but got X", [] {
    linalg::eigh(ones({2, 2}), "X");
  });
}

}  // namespace tensora::suite
