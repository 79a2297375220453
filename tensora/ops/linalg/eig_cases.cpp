#include "tensora/ops/linalg/eig.h"

#include "tensora/ops/linalg/linalg_cases.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

Array symmetric(const Array& x) {
  Array out = x;
  const Array turned = transposed(x);
  for (int64_t i = 0; i < out.numel(); ++i) out[i] += turned[i];
  return out;
}

void add_eig(Cases& cases) {
  // Vectors are determined up to a phase: what does not depend on it is the square of A.
  for (const Shape& sizes : {Shape{3, 3}, Shape{2, 4, 4}, Shape{1, 1}})
    cases.add({.op = "linalg_eig",
               .name = concat(sizes),
               .inputs = {{.sizes = sizes, .low = -1, .high = 1}},
               .run =
                   [](In x) {
                     const auto [L, V] = linalg::eig(x[0]);
                     return one(real(linalg::solve(V, V * unsqueeze(L * L, -2), false)));
                   },
               .reference = [](Arrays x) { return one(product(x[0], x[0])); },
               .dtypes = {kFloat64},
               .tolerance = 1e4,
               .opt_out = {{Mode::grad, "below"}}});
  cases.add({.op = "linalg_eig",
             .name = "values",
             .inputs = {{.sizes = {2, 3, 3}, .low = -1, .high = 1}},
             .run =
                 [](In x) {
                   const Tensor L = linalg::eigvals(x[0]);
                   return one(sum(real(L * L * L), {-1}));
                 },
             .reference =
                 [](Arrays x) {
                   const Array cube = product(x[0], product(x[0], x[0]));
                   Array out(Shape{2});
                   for (int64_t b = 0; b < 2; ++b)
                     for (int64_t i = 0; i < 3; ++i) out[b] += cube[(b * 3 + i) * 3 + i];
                   return one(out);
                 },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = 1000});
  cases.error("linalg_eig", "NaN", "linalg.eig: input tensor should not contain infs or NaNs", [] {
    linalg::eig(full({2, 2}, std::nan("")));
  });
  cases.error("linalg_eig", "not square", "A must be batches of square matrices", [] {
    linalg::eigvals(ones({2, 3}));
  });
}

/// Matrices of a batch of 1 for each matrix of `like`.
Array repeated(const Array& x, const Array& like) {
  const int64_t batch = batch_of(like).numel();
  if (batch_of(x).numel() == batch) return x;
  return x.broadcast_to({batch, rows_of(x), columns_of(x)});
}

void add_ldl(Cases& cases) {
  for (const Shape& batch : {Shape{}, Shape{2}, Shape{1}}) {
    Shape a = batch.size() == 1 ? Shape{2} : Shape{}, b = batch;
    for (const int64_t size : {4, 4}) a.push_back(size);
    for (const int64_t size : {4, 3}) b.push_back(size);
    cases.add(
        {.op = "linalg_ldl_solve",
         .name = concat(a, b),
         .inputs = {{.sizes = a, .low = -1, .high = 1}, {.sizes = b, .low = -1, .high = 1}},
         .run =
             [](In x) {
               const Tensor A = x[0].detach();
               const auto [LD, pivots] = linalg::ldl_factor(A + mT(A));
               return one(linalg::ldl_solve(LD, pivots, x[1]));
             },
         .reference = [](Arrays x) { return one(solved(symmetric(x[0]), repeated(x[1], x[0])).x); },
         .dtypes = {kFloat64},
         .tolerance = 1e5,
         .grad_inputs = std::vector<int>{1}});
  }
  cases.add({.op = "linalg_ldl_factor",
             .name = "status",
             .inputs = {{.sizes = {2, 2}, .values = {0, 0, 0, 0}}},
             .run = [](In x) { return one(std::get<2>(linalg::ldl_factor_ex(x[0]))); },
             .reference =
                 [](Arrays) {
                   Array out{Shape{}};
                   out[0] = 1;
                   return one(out);
                 },
             .dtypes = {kFloat32, kFloat64},
             .opt_out = {{Mode::grad, "PyTorch has no gradient of it"},
                         {Mode::view, "the status belongs to the listed values"}},
             .output_dtypes = {kInt32}});
  cases.error("linalg_ldl_factor", "singular", "linalg.ldl_factor: D[1,1] is zero", [] {
    linalg::ldl_factor(zeros({2, 2}));
  });
  cases.error("linalg_ldl_solve", "pivots", "expected int32 pivots", [] {
    linalg::ldl_solve(ones({2, 2}), ones({2}, kInt64), ones({2, 1}));
  });
  cases.error("linalg_ldl_solve", "no such row", "pivots must be row numbers from 1 to 2", [] {
    linalg::ldl_solve(ones({2, 2}), full({2}, 7, {.dtype = kInt32}), ones({2, 1}));
  });
}

}  // namespace

void eig_cases(Cases& cases) {
  add_eig(cases);
  add_ldl(cases);
  cases.add(
      {.op = "matrix_sqrth",
       .name = "squared again",
       .inputs = {{.sizes = {2, 3, 3}, .low = -1, .high = 1}},
       .run =
           [](In x) {
             const Tensor A =
                 matmul(x[0], mT(x[0])) + eye(3, {.dtype = dtype(), .device = device()});
             const Tensor root = linalg::matrix_sqrth(A);
             return one(matmul(root, root));
           },
       .reference = [](Arrays x) { return one(plus_identity(product(x[0], transposed(x[0])), 1)); },
       .dtypes = {kFloat32, kFloat64},
       .tolerance = 200});
}

}  // namespace tensora::suite
