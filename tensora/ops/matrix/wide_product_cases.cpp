#include "tensora/dispatch/op.h"
#include "tensora/ops/matrix/wide_product_op.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

ArrayList added(Arrays x) {
  Array out = x[0];
  const int64_t m = out.sizes[0], n = out.sizes[1], k = x[1].sizes[1];
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t l = 0; l < k; ++l) out[i * n + j] += x[1][i * k + l] * x[2][l * n + j];
  return {out};
}

}  // namespace

void wide_product_cases(Cases& cases) {
  struct Sizes {
    int64_t m, n, k;
  };
  for (const auto [m, n, k] : {Sizes{3, 4, 5}, Sizes{64, 24, 40}, Sizes{2, 3, 0}, Sizes{0, 3, 2}})
    for (const DType half : {kBFloat16, kFloat16})
      cases.add({.op = "add_wide_product",
                 .name = concat(m, " x ", n, " x ", k, " in ", half),
                 .inputs = {{{m, n}}, {{m, k}, -3, 3, half}, {{k, n}, -3, 3, half}},
                 .run =
                     [](In x) {
                       return one(apply(add_wide_product_op, {x[0], x[1], x[2]}));
                     },
                 .reference = added,
                 .dtypes = {kFloat32},
                 .inplace =
                     [](In x) {
                       apply_inplace(add_wide_product_op, {x[0], x[1], x[2]});
                     },
                 .tolerance = 8,
                 .opt_out = {{Mode::grad, "the sum is float32"}}});
  cases.error("add_wide_product", "dtypes", "a float32 sum and two factors of one 16-bit dtype",
              [] {
                apply(add_wide_product_op, {zeros({2, 2}), zeros({2, 2}), zeros({2, 2})});
              });
  cases.error("add_wide_product", "shapes", "do not fit", [] {
    const Tensor a = zeros({2, 3}, {.dtype = kBFloat16});
    apply(add_wide_product_op, {zeros({2, 2}), a, a});
  });
}

}  // namespace tensora::suite
