#include <cmath>

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

void powers_of(Cases& cases) {
  for (const int64_t n : {0, 1, 2, 5, -1, -3})
    cases.add({.op = "linalg_matrix_power",
               .name = concat(n),
               .inputs = {{.sizes = {2, 3, 3}, .low = -0.5, .high = 0.5}},
               .run = [=](In x) { return one(linalg::matrix_power(regular(x[0]), n)); },
               .reference = [=](Arrays x) { return one(power(plus_identity(x[0], 2), n)); },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 200});
  for (const double size : {0.2, 1.0, 3.0})
    cases.add({.op = "linalg_matrix_exp",
               .name = concat("elements up to ", size),
               .inputs = {{.sizes = {2, 3, 3}, .low = -size, .high = size}},
               .run = [](In x) { return one(linalg::matrix_exp(x[0])); },
               .reference =
                   [](Arrays x) {
                     Array sum = identities(x[0]), term = sum;
                     for (int k = 1; k < 80; ++k) {
                       term = product(term, x[0]);
                       for (double& value : term.values) value /= k;
                       for (int64_t i = 0; i < sum.numel(); ++i) sum[i] += term[i];
                     }
                     return one(sum);
                   },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 400,
               .opt_out = {{Mode::jit, "the number of squarings depends on the values"}}});
  cases.add({.op = "linalg_tensorinv",
             .name = "and tensorsolve",
             .inputs = {{.sizes = {6, 2, 3}, .low = -0.5, .high = 0.5}, {{6}}},
             .run =
                 [](In x) {
                   const TensorOptions like{.dtype = x[0].dtype(), .device = x[0].device()};
                   const Tensor a = x[0] + reshape(3 * eye(6, like), {6, 2, 3});
                   return Out{linalg::tensorinv(a, 1), linalg::tensorsolve(a, x[1])};
                 },
             .reference =
                 [](Arrays x) {
                   Array a = x[0], b = x[1];
                   a.sizes = {6, 6};
                   b.sizes = {6, 1};
                   a = plus_identity(a, 3);
                   ArrayList out{inverted(a), solved(a, b).x};
                   out[0].sizes = {2, 3, 6};
                   out[1].sizes = {2, 3};
                   return out;
                 },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = 40});
  cases.add({.op = "linalg_vecdot",
             .name = "along the first dim",
             .inputs = {{{3, 2}}, {{3, 1}}},
             .run = [](In x) { return one(linalg::vecdot(x[0], x[1], 0)); },
             .reference =
                 [](Arrays x) {
                   Array out(Shape{2});
                   for (int64_t at = 0; at < 6; ++at) out[at % 2] += x[0][at] * x[1][at / 2];
                   return one(out);
                 },
             .tolerance = 4});
}

void chains(Cases& cases) {
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
  cases.add({.op = "linalg_vander",
             .name = "powers",
             .inputs = {{{3}}},
             .run =
                 [](In x) {
                   return Out{linalg::vander(x[0]), linalg::vander(x[0], 4)};
                 },
             .reference =
                 [](Arrays x) {
                   ArrayList out{Array({3, 3}), Array({3, 4})};
                   for (int64_t i = 0; i < 3; ++i) {
                     for (int64_t k = 0; k < 3; ++k)
                       out[0][i * 3 + k] = std::pow(x[0][i], static_cast<double>(k));
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

}  // namespace

void powers_cases(Cases& cases) {
  powers_of(cases);
  chains(cases);
}

}  // namespace tensora::suite
