#include <cmath>

#include "tensora/ops/linalg/pinv.h"

#include "tensora/ops/linalg/linalg_cases.h"

namespace tensora::suite {
namespace {

/// For full rank: (A^T A)^-1 A^T, or A^T (A A^T)^-1.
Array pseudo_inverse(const Array& a) {
  const Array turned = transposed(a);
  return rows_of(a) >= columns_of(a) ? product(inverted(product(turned, a)), turned)
                                     : product(turned, inverted(product(a, turned)));
}

Tensor well_posed(const Tensor& x) {
  return x + 2 * eye(x.size(-2), x.size(-1), {.dtype = x.dtype(), .device = x.device()});
}
Array well_posed(Array x) {
  const int64_t m = rows_of(x), n = columns_of(x);
  for (int64_t at = 0; at < x.numel(); ++at)
    if (at / n % m == at % n) x[at] += 2;
  return x;
}

void inverses(Cases& cases) {
  for (const Shape& sizes : {Shape{3, 3}, Shape{4, 2}, Shape{2, 2, 3}, Shape{0, 3}})
    cases.add({.op = "linalg_pinv",
               .name = concat(sizes),
               .inputs = {{.sizes = sizes, .low = -1, .high = 1}},
               .run = [](In x) { return one(linalg::pinv(well_posed(x[0]))); },
               .reference = [](Arrays x) { return one(pseudo_inverse(well_posed(x[0]))); },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 200});
  cases.add({.op = "linalg_pinv",
             .name = "symmetric",
             .inputs = {{.sizes = {3, 3}, .low = -0.5, .high = 0.5}},
             .run =
                 [](In x) {
                   const Tensor a = well_posed(x[0]);
                   return one(linalg::pinv(a + mT(a), {}, {}, true));
                 },
             .reference =
                 [](Arrays x) {
                   Array a = well_posed(x[0]);
                   const Array turned = transposed(a);
                   for (int64_t i = 0; i < a.numel(); ++i) a[i] += turned[i];
                   return one(inverted(a));
                 },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = 200});
  cases.add({.op = "linalg_pinv",
             .name = "rank, and a small value cut off",
             .inputs = {{.sizes = {2, 2}, .values = {2, 0, 0, 0.01}}},
             .run =
                 [](In x) {
                   return Out{linalg::pinv(x[0], 0.1),
                              to(stack({linalg::matrix_rank(x[0]), linalg::matrix_rank(x[0], 0.1),
                                        linalg::matrix_rank(x[0], {}, 0.1),
                                        linalg::matrix_rank(x[0], {}, {}, true)}),
                                 x[0].dtype())};
                 },
             .reference =
                 [](Arrays) {
                   Array out({2, 2}), ranks(Shape{4});
                   out.values = {0.5, 0, 0, 0};
                   ranks.values = {2, 1, 1, 2};
                   return ArrayList{out, ranks};
                 },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = 4,
             .opt_out = {{Mode::grad, "ranks are constant"},
                         {Mode::view, "the reference belongs to the listed values"}}});
}

void least_squares(Cases& cases) {
  for (const Shape& sizes : {Shape{3, 3}, Shape{4, 2}, Shape{2, 2, 3}})
    for (const char* driver : {"gels", "gelsy", "gelsd"}) {
      Shape right = sizes;
      right[right.size() - 1] = 2;
      cases.add({.op = "linalg_lstsq",
                 .name = concat(sizes, ", ", driver),
                 .inputs = {{.sizes = sizes, .low = -1, .high = 1}, {right}},
                 .run =
                     [=](In x) {
                       return one(std::get<0>(linalg::lstsq(well_posed(x[0]), x[1], {}, driver)));
                     },
                 .reference =
                     [](Arrays x) { return one(product(pseudo_inverse(well_posed(x[0])), x[1])); },
                 .dtypes = {kFloat32, kFloat64},
                 .tolerance = 400,
                 .opt_out = {{Mode::jit, "whether there are residuals depends on the values"}}});
    }
  cases.add(
      {.op = "linalg_lstsq",
       .name = "residuals of vectors",
       .inputs = {{.sizes = {3, 1}, .values = {1, 1, 1}}, {.sizes = {3}, .values = {1, 2, 6}}},
       .run =
           [](In x) {
             const auto [solution, residuals, rank, values] =
                 linalg::lstsq(x[0], x[1], {}, "gelsd");
             return Out{solution, residuals, values};
           },
       .reference =
           [](Arrays) {
             return ArrayList{Array(Shape{1}, 3), Array(Shape{}, 14),
                              Array(Shape{1}, std::sqrt(3.0))};
           },
       .dtypes = {kFloat32, kFloat64},
       .tolerance = 20,
       .opt_out = {{Mode::jit, "whether there are residuals depends on the values"},
                   {Mode::grad, "the singular values are not differentiable here"},
                   {Mode::meta, "whether there are residuals depends on the values"},
                   {Mode::view, "the reference belongs to the listed values"}}});
}

}  // namespace

void pinv_cases(Cases& cases) {
  inverses(cases);
  least_squares(cases);
  cases.error("linalg_lstsq", "sizes", "A.size(-2) should match B.size(-2)", [] {
    linalg::lstsq(ones({4, 2}), ones({3, 1}));
  });
  cases.error("linalg_lstsq", "driver", "parameter `driver` should be one of", [] {
    linalg::lstsq(ones({4, 2}), ones({4, 1}), {}, "x");
  });
  cases.error("linalg_pinv", "a vector", "must have at least 2 dimensions",
              [] { pinverse(ones({3})); });
}

}  // namespace tensora::suite
