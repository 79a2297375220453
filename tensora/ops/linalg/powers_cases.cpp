#include "tensora/ops/linalg/powers.h"

#include "tensora/ops/linalg/linalg_cases.h"

namespace tensora::suite {
namespace {

Array power(const Array& a, int64_t n) {
  Array result = identities(a);
  const Array factor = n < 0 ? inverted(a) : a;
  for (int64_t i = 0; i < std::abs(n); ++i) result = product(result, factor);
  return result;
}

Tensor regular(const Tensor& x) {
  return x + 2 * eye(x.size(-1), {.dtype = x.dtype(), .device = x.device()});
}

}  // namespace

void powers_cases(Cases& cases) {
  for (const int64_t n : {0, 1, 2, 5, -1, -3})
    cases.add({.op = "linalg_matrix_power",
               .name = concat(n),
               .inputs = {{.sizes = {2, 3, 3}, .low = -0.5, .high = 0.5}},
               .run = [=](In x) { return one(linalg::matrix_power(regular(x[0]), n)); },
               .reference = [=](Arrays x) { return one(power(plus_identity(x[0], 2), n)); },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 200});
  cases.add(
      {.op = "linalg_multi_dot",
       .name = "four matrices",
       .inputs = {{{2, 5}}, {{5, 3}}, {{3, 4}}, {{4, 2}}},
       .run =
           [](In x) {
             return one(linalg::multi_dot({x.begin(), x.end()}));
           },
       .reference = [](Arrays x) { return one(product(product(x[0], x[1]), product(x[2], x[3]))); },
       .dtypes = {kFloat32, kFloat64},
       .tolerance = 100});
  cases.add({.op = "linalg_multi_dot",
             .name = "between vectors",
             .inputs = {{{3}}, {{3, 4}}, {{4}}},
             .run =
                 [](In x) {
                   return one(linalg::multi_dot({x.begin(), x.end()}));
                 },
             .reference =
                 [](Arrays x) {
                   Array out(Shape{});
                   for (int64_t i = 0; i < 3; ++i)
                     for (int64_t j = 0; j < 4; ++j) out[0] += x[0][i] * x[1][i * 4 + j] * x[2][j];
                   return one(out);
                 },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = 20});
  cases.add({.op = "vander",
             .name = "both orders",
             .inputs = {{{3}}},
             .run =
                 [](In x) {
                   return Out{vander_matrix(x[0]), vander_matrix(x[0], 4, true)};
                 },
             .reference =
                 [](Arrays x) {
                   ArrayList out{Array({3, 3}), Array({3, 4})};
                   for (int64_t i = 0; i < 3; ++i) {
                     for (int64_t k = 0; k < 3; ++k)
                       out[0][i * 3 + k] = std::pow(x[0][i], static_cast<double>(2 - k));
                     for (int64_t k = 0; k < 4; ++k)
                       out[1][i * 4 + k] = std::pow(x[0][i], static_cast<double>(k));
                   }
                   return out;
                 },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = 4});
  cases.error("linalg_matrix_power", "not square", "A must be batches of square matrices", [] {
    matrix_power(ones({2, 3}), 2);
  });
  cases.error("linalg_multi_dot", "one tensor", "expected at least 2 tensors but got 1", [] {
    linalg::multi_dot({ones({2, 2})});
  });
  cases.error("linalg_multi_dot", "shapes", "tensors 0 and 1 with shapes [2, 3] and [4, 4] cannot",
              [] {
                linalg::multi_dot({ones({2, 3}), ones({4, 4})});
              });
  cases.error("linalg_multi_dot", "a batch", "tensor 1 must be 2D but got 3D", [] {
    linalg::multi_dot({ones({2, 3}), ones({1, 3, 4}), ones({4})});
  });
}

}  // namespace tensora::suite
