#include "tensora/ops/matrix/vector_products.h"

#include <cmath>

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

void inner_products(Cases& cases) {
  cases.add({.op = "inner",
             .name = "a matrix and three dims",
             .inputs = {{{2, 3}}, {{4, 2, 3}}},
             .run = [](In x) { return one(inner(x[0], x[1])); },
             .reference =
                 [](Arrays x) {
                   Array out({2, 4, 2});
                   for (int64_t at = 0; at < 16; ++at)
                     for (int64_t k = 0; k < 3; ++k)
                       out[at] += x[0][at / 8 * 3 + k] * x[1][at % 8 * 3 + k];
                   return one(out);
                 },
             .tolerance = 4});
  cases.add({.op = "inner",
             .name = "a number",
             .inputs = {{{}}, {{3}}},
             .run = [](In x) { return one(inner(x[0], x[1])); },
             .reference =
                 [](Arrays x) {
                   Array out = x[1];
                   for (double& value : out.values) value *= x[0][0];
                   return one(out);
                 }});
  cases.add({.op = "vdot",
             .name = "vectors",
             .inputs = {{{5}}, {{5}}},
             .run = [](In x) { return one(vdot(x[0], x[1])); },
             .reference =
                 [](Arrays x) {
                   Array out(Shape{});
                   for (int64_t i = 0; i < 5; ++i) out[0] += x[0][i] * x[1][i];
                   return one(out);
                 },
             .tolerance = 4});
  cases.error("inner", "sizes", "the last dimension must match",
              [] { inner(ones({2}), ones({3})); });
}

void kronecker(Cases& cases) {
  for (const auto& [a, b] : {std::pair(Shape{2, 3}, Shape{2, 2}), std::pair(Shape{2}, Shape{3, 2}),
                             std::pair(Shape{}, Shape{3}), std::pair(Shape{0, 2}, Shape{2, 2})})
    cases.add({.op = "kron",
               .name = concat(a, " and ", b),
               .inputs = {{a}, {b}},
               .run = [](In x) { return one(kron(x[0], x[1])); },
               .reference =
                   [](Arrays x) {
                     const auto padded = [](const Array& y, int dims) {
                       Array out = y;
                       while (out.sizes.size() < dims) out.sizes.insert(0, 1);
                       return out;
                     };
                     const int dims = std::max(x[0].sizes.size(), x[1].sizes.size());
                     const Array p = padded(x[0], dims), q = padded(x[1], dims);
                     Shape sizes;
                     for (int d = 0; d < dims; ++d) sizes.push_back(p.sizes[d] * q.sizes[d]);
                     Array out(sizes);
                     Array::each(sizes, [&](const Shape& at) {
                       Shape i, k;
                       for (int d = 0; d < dims; ++d) {
                         i.push_back(at[d] / q.sizes[d]);
                         k.push_back(at[d] % q.sizes[d]);
                       }
                       out.at(at) = p.at(i) * q.at(k);
                     });
                     return one(out);
                   },
               .dtypes = number_dtypes()});
}

Array cross_of(const Array& a, const Array& b) {  // along the last dim
  Array out = a;
  for (int64_t row = 0; row < a.numel() / 3; ++row)
    for (int64_t i = 0; i < 3; ++i) {
      const int64_t j = row * 3 + (i + 1) % 3, k = row * 3 + (i + 2) % 3;
      out[row * 3 + i] = a[j] * b[k] - a[k] * b[j];
    }
  return out;
}

void vector_product(Cases& cases) {
  cases.add({.op = "cross",
             .name = "last dim",
             .inputs = {{{2, 4, 3}}, {{2, 4, 3}}},
             .run =
                 [](In x) {
                   return Out{
                       linalg::cross(x[0], x[1]), cross(x[0], x[1]),
                       transpose(cross(transpose(x[0], 0, 2), transpose(x[1], 0, 2), 0), 0, 2)};
                 },
             .reference =
                 [](Arrays x) {
                   const Array out = cross_of(x[0], x[1]);
                   return ArrayList{out, out, out};
                 },
             .tolerance = 4});
  cases.add({.op = "cross",
             .name = "broadcast",
             .inputs = {{{2, 3}}, {{1, 3}}},
             .run = [](In x) { return one(linalg::cross(x[0], x[1])); },
             .reference =
                 [](Arrays x) {
                   return one(cross_of(x[0], x[1].broadcast_to({2, 3})));
                 },
             .tolerance = 4});
  cases.error("cross", "length", "must have length 3. Got 3 and 4", [] {
    cross(ones({2, 3}), ones({2, 4}));
  });
  cases.error("cross", "no such dim", "no dimension of size 3", [] {
    cross(ones({2, 4}), ones({2, 4}));
  });
}

/// Rows are variables.
Array covariances(const Array& x, const std::vector<double>& w, double divisor) {
  const int64_t rows = x.sizes[0], count = x.sizes[1];
  double total = 0;
  for (const double weight : w) total += weight;
  std::vector<double> mean(static_cast<size_t>(rows));
  for (int64_t at = 0; at < x.numel(); ++at)
    mean[static_cast<size_t>(at / count)] += x[at] * w[static_cast<size_t>(at % count)] / total;
  Array out({rows, rows});
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < rows; ++k)
      for (int64_t n = 0; n < count; ++n)
        out[i * rows + k] += w[static_cast<size_t>(n)] *
                             (x[i * count + n] - mean[static_cast<size_t>(i)]) *
                             (x[k * count + n] - mean[static_cast<size_t>(k)]) / divisor;
  return out;
}

void covariance(Cases& cases) {
  cases.add({.op = "cov",
             .name = "matrix",
             .inputs = {{{3, 6}}},
             .run =
                 [](In x) {
                   return Out{cov(x[0]), cov(x[0], 0), corrcoef(x[0])};
                 },
             .reference =
                 [](Arrays x) {
                   const std::vector<double> w(6, 1);
                   ArrayList out{covariances(x[0], w, 5), covariances(x[0], w, 6), {}};
                   out[2] = out[0];
                   for (int64_t at = 0; at < 9; ++at)
                     out[2][at] /= std::sqrt(out[0][at / 3 * 4] * out[0][at % 3 * 4]);
                   return out;
                 },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = 40,
             .opt_out = {{Mode::grad, "the diagonal of corrcoef is clamped"}}});
  cases.add({.op = "cov",
             .name = "weights",
             .inputs = {{{2, 3}}},
             .run =
                 [](In x) {
                   const TensorOptions integers{.dtype = kInt64, .device = x[0].device()};
                   return one(cov(
                       x[0], 1, arange(1, 4, integers),
                       tensor({1.0, 0.5, 2.0}, {.dtype = x[0].dtype(), .device = x[0].device()})));
                 },
             .reference =
                 [](Arrays x) {
                   const std::vector<double> w{1, 1, 6};
                   return one(covariances(x[0], w, 8 - (1 * 1 + 1 * 0.5 + 6 * 2) / 8.0));
                 },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = 40,
             .opt_out = {{Mode::jit, "the signs of the weights are read"}}});
  cases.error("cov", "negative fweights", "cov: fweights must not be negative", [] {
    cov(ones({2, 2}), 1, tensor({1, -1}), {});
  });
  cases.error("cov", "negative aweights", "cov: aweights must not be negative", [] {
    cov(ones({2, 2}), 1, {}, tensor({1.0, -1.0}));
  });
  cases.error("cov", "three dims", "two or fewer dimensions", [] { cov(ones({2, 2, 2})); });
}

}  // namespace

void vector_products_cases(Cases& cases) {
  inner_products(cases);
  kronecker(cases);
  vector_product(cases);
  covariance(cases);
}

}  // namespace tensora::suite
