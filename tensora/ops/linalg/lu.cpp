#include "tensora/ops/linalg/lu.h"

#include "tensora/ops/creation/empty.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/index/gather.h"
#include "tensora/ops/linalg/complex_matrices.h"
#include "tensora/ops/linalg/linalg_common.h"
#include "tensora/ops/linalg/triangular.h"
#include "tensora/ops/matrix/matmul.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/any_all.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"
#include "tensora/ops/shape/triangle.h"

namespace tensora {

constexpr auto describe(std::type_identity<PermutationAttrs>) {
  return fields(field("rows", &PermutationAttrs::rows));
}
constexpr auto describe(std::type_identity<LuSolveAttrs>) {
  return fields(field("adjoint", &LuSolveAttrs::adjoint));
}
constexpr auto describe(std::type_identity<LuAttrs>) {
  return fields(field("pivot", &LuAttrs::pivot),
                field("check_errors_as", &LuAttrs::check_errors_as));
}

namespace {

using linalg::adjoint, linalg::solve_triangular;

void infer_factor(Infer& infer, const LuAttrs&) {
  const Tensor& A = infer[0];
  linalg::check_matrix("linalg.lu_factor", "A", A);
  const Shape batch = linalg::batch_of(A);
  Shape pivots = batch;
  pivots.push_back(std::min(A.size(-2), A.size(-1)));
  infer.output(A.sizes(), linalg::result_strides(infer, A.sizes()), A.dtype());
  infer.output(pivots, kInt32);
  infer.output(batch, kInt32);
}

void infer_solve(Infer& infer, const LuSolveAttrs&) {
  constexpr std::string_view kName = "linalg.lu_solve";
  const Tensor &LU = infer[0], &pivots = infer[1], &B = infer[2];
  linalg::check_square(kName, "LU", LU);
  linalg::check_matrix(kName, "B", B);
  linalg::check_same_dtype(kName, LU, B);
  check(pivots.dtype() == kInt32, kName, ": pivots should be a tensor of int32, got ",
        pivots.dtype());
  Shape expected = linalg::batch_of(LU);
  expected.push_back(LU.size(-1));
  check(pivots.sizes() == expected, kName, ": Expected LU_pivots of shape ", expected, ", got ",
        pivots.sizes());
  check(LU.size(-1) == B.size(-2), kName,
        ": Incompatible shapes of LU and B for the equation AX = B", ": ", LU.sizes(), " and ",
        B.sizes());
  Shape sizes = broadcast_shapes(linalg::batch_of(LU), linalg::batch_of(B), kName);
  sizes.push_back(B.size(-2));
  sizes.push_back(B.size(-1));
  infer.output(sizes, linalg::result_strides(infer, sizes), B.dtype());
}

void infer_permutation(Infer& infer, const PermutationAttrs& attrs) {
  const Tensor& pivots = infer[0];
  infer.check(pivots.dim() >= 1 && pivots.dtype() == kInt32,
              "pivots must be int32 and have at least 1 dimension, got ", pivots.dtype(),
              " of shape ", pivots.sizes());
  infer.check(attrs.rows >= pivots.size(-1), "expected at least as many rows as pivots, got ",
              attrs.rows, " for ", pivots.size(-1));
  Shape sizes = pivots.sizes();
  sizes[sizes.size() - 1] = attrs.rows;
  infer.output(sizes, kInt64);
}

Tensor permutation_of(const Tensor& pivots, int64_t rows) {
  return apply(pivots_to_permutation_op, {pivots}, {rows});
}

/// The rows of each matrix in another order: row i of the result is row `order[i]` of x.
Tensor rows_in_order(const Tensor& x, const Tensor& order) {
  const Shape batch =
      broadcast_shapes(linalg::batch_of(x), linalg::batch_of(order, 1), "linalg.lu");
  Shape sizes = batch;
  sizes.push_back(order.size(-1));
  sizes.push_back(x.size(-1));
  return gather(linalg::with_batch(x, batch), -2, expand(unsqueeze(order, -1), sizes));
}

/// The permutation that undoes another one.
Tensor inverse_order(const Tensor& order) {
  const Tensor places =
      expand(arange(order.size(-1), {.dtype = kInt64, .device = order.device()}), order.sizes());
  return scatter(zeros_like(order), -1, order, places);
}

Tensor unit_lower(const Tensor& LU, int64_t k) {
  const Tensor lower = tril(slice(LU, -1, 0, k), -1);
  Tensor unit = linalg::identity(k, LU);
  if (LU.size(-2) > k)
    unit = cat({unit, zeros({LU.size(-2) - k, k}, {.dtype = LU.dtype(), .device = LU.device()})});
  return lower + unit;
}

// P^T A = L U with the gradients of L and U in the two triangles of one matrix.
Tensor factor_gradient(const Tensor& LU, const Tensor& pivots, const Tensor& g) {
  const int64_t m = LU.size(-2), n = LU.size(-1), k = std::min(m, n);
  const Tensor L = slice(LU, -2, 0, k), U = slice(LU, -1, 0, k);  // of these one triangle is read
  const Tensor L1 = unit_lower(slice(L, -1, 0, k), k), U1 = triu(slice(U, -2, 0, k));
  const Tensor g1 = slice(slice(g, -2, 0, k), -1, 0, k);
  Tensor lower = matmul(adjoint(L1), tril(g1, -1)), upper = matmul(triu(g1), adjoint(U1));
  if (m < n)
    lower = lower - matmul(slice(slice(g, -2, 0, k), -1, k, n), adjoint(slice(L, -1, k, n)));
  if (m > n)
    upper = upper - matmul(adjoint(slice(U, -2, k, m)), slice(slice(g, -2, k, m), -1, 0, k));
  const Tensor middle = tril(lower, -1) + triu(upper);
  Tensor result = solve_triangular(adjoint(U1), middle, false, false);
  if (m < n) result = cat({result, slice(slice(g, -2, 0, k), -1, k, n)}, -1);
  result = solve_triangular(adjoint(L1), result, true, true, true);
  if (m > n)
    result = cat(
        {result, solve_triangular(adjoint(U1), slice(slice(g, -2, k, m), -1, 0, k), false, false)},
        -2);
  return rows_in_order(result, inverse_order(permutation_of(pivots, m)));
}

void factor_vjp(Vjp& vjp, const LuAttrs&) {
  if (vjp.grad(0).defined()) vjp.set(0, factor_gradient(vjp.output(0), vjp.output(1), vjp.grad(0)));
}

Tensors solve_reference(Args in, const LuSolveAttrs& attrs) {
  const Tensor &LU = *in[0], &B = *in[2];
  const Tensor order = permutation_of(*in[1], LU.size(-1));
  if (!attrs.adjoint)
    return Tensors{solve_triangular(
        LU, solve_triangular(LU, rows_in_order(B, order), false, true, true), true)};
  const Tensor turned = adjoint(LU);
  return Tensors{
      rows_in_order(solve_triangular(turned, solve_triangular(turned, B, false), true, true, true),
                    inverse_order(order))};
}

// Both equations are two triangular ones; each of their matrices gets its gradient as there.
void solve_vjp(Vjp& vjp, const LuSolveAttrs& attrs) {
  const Tensor LU = vjp.input(0), pivots = vjp.input(1), turned = adjoint(LU);
  const Tensor& g = vjp.grad();
  if (vjp.needs(2)) vjp.set(2, linalg::lu_solve(LU, pivots, g, true, !attrs.adjoint));
  if (!vjp.needs(0)) return;
  const Tensor X = vjp.output(0);
  const Tensor order = permutation_of(pivots, LU.size(-1));
  Tensor lower, upper;
  if (!attrs.adjoint) {  // L Z = P^T B, U X = Z
    const Tensor Z = matmul(triu(LU), X);
    const Tensor g_z = solve_triangular(turned, g, false);
    upper = matmul(g_z, adjoint(X));
    lower = matmul(solve_triangular(turned, g_z, true, true, true), adjoint(Z));
  } else {  // U^T Y = B, L^T W = Y, X = P W
    const Tensor W = rows_in_order(X, order), g_w = rows_in_order(g, order);
    const Tensor g_y = solve_triangular(LU, g_w, false, true, true);
    const Tensor Y = matmul(adjoint(unit_lower(LU, LU.size(-1))), W);
    lower = matmul(W, adjoint(g_y));
    upper = matmul(Y, adjoint(solve_triangular(LU, g_y, true)));
  }
  vjp.set(0, -(tril(lower, -1) + triu(upper)));
}

}  // namespace

constinit OpDef<LuAttrs> lu_factor_op = define(Op<LuAttrs>{.name = "linalg_lu_factor_ex",
                                                           .inputs = {"A"},
                                                           .primitive = true,
                                                           .infer = infer_factor,
                                                           .vjp = factor_vjp,
                                                           .saves = {out(0) | out(1)}});
constinit OpDef<LuSolveAttrs> lu_solve_op =
    define(Op<LuSolveAttrs>{.name = "linalg_lu_solve",
                            .inputs = {"LU", "pivots", "B"},
                            .infer = infer_solve,
                            .reference = solve_reference,
                            .vjp = solve_vjp,
                            .saves = {in(0) | in(1) | out(0), {}, in(0) | in(1)}});
constinit OpDef<PermutationAttrs> pivots_to_permutation_op =
    define(Op<PermutationAttrs>{.name = "linalg_pivots_to_permutation",
                                .inputs = {"pivots"},
                                .primitive = true,
                                .infer = infer_permutation,
                                .gradient = Gradient::not_differentiable});

void register_lu(OpRegistry& registry) {
  registry.add(lu_factor_op);
  registry.add(lu_solve_op);
  registry.add(pivots_to_permutation_op);
}

std::tuple<Tensor, Tensor, Tensor> lu_unpack(const Tensor& LU_data, const Tensor& LU_pivots,
                                             bool unpack_data, bool unpack_pivots) {
  return called_as("lu_unpack", [&]() -> std::tuple<Tensor, Tensor, Tensor> {
    linalg::check_matrix("lu_unpack", "LU_data", LU_data);
    const int64_t m = LU_data.size(-2), k = std::min(m, LU_data.size(-1));
    const TensorOptions options{.dtype = LU_data.dtype(), .device = LU_data.device()};
    Tensor P = zeros({0}, options), L = zeros({0}, options), U = zeros({0}, options);
    if (unpack_data) {
      L = unit_lower(LU_data, k);
      U = triu(slice(LU_data, -2, 0, k));
    }
    if (unpack_pivots) {
      Shape expected = linalg::batch_of(LU_data);
      expected.push_back(k);
      check(LU_pivots.sizes() == expected, "lu_unpack: LU_pivots must have shape ", expected,
            ", got ", LU_pivots.sizes());
      // Row i of P^T is the unit vector of where row i comes from.
      P = adjoint(rows_in_order(linalg::identity(m, LU_data), permutation_of(LU_pivots, m)));
    }
    return {P, L, U};
  });
}

namespace {

Tensors factorise(const Tensor& A, bool pivot, std::string check_errors_as) {
  if (!A.defined() || !A.is_complex())
    return apply_all(lu_factor_op, {A}, {pivot, std::move(check_errors_as)});
  linalg::check_matrix("linalg.lu_factor", "A", A);
  Tensors all = linalg::factorise_complex(A, pivot);
  if (!check_errors_as.empty() && !A.is_meta())
    check(!any(all[2]).item<bool>(), check_errors_as, ": a matrix is singular");
  return all;
}

Tensor solve_factorised(const Tensor& LU, const Tensor& pivots, const Tensor& B, bool turned) {
  if (!LU.is_complex()) return apply(lu_solve_op, {LU, pivots, B}, {turned});
  linalg::check_square("linalg.lu_solve", "LU", LU);
  linalg::check_matrix("linalg.lu_solve", "B", B);
  linalg::check_same_dtype("linalg.lu_solve", LU, B);
  const Tensor inputs[] = {LU, pivots, B};
  return solve_reference(args_of(inputs), {turned})[0];
}

}  // namespace

namespace linalg {

std::tuple<Tensor, Tensor> lu_factor(const Tensor& A, bool pivot) {
  Tensors all = factorise(A, pivot, "linalg.lu_factor");
  return {std::move(all[0]), std::move(all[1])};
}

std::tuple<Tensor, Tensor, Tensor> lu_factor_ex(const Tensor& A, bool pivot, bool check_errors) {
  Tensors all = factorise(A, pivot, check_errors ? "linalg.lu_factor_ex" : "");
  return {std::move(all[0]), std::move(all[1]), std::move(all[2])};
}

std::tuple<Tensor, Tensor, Tensor> lu(const Tensor& A, bool pivot) {
  const Tensors all = factorise(A, pivot, "");
  return lu_unpack(all[0], all[1], true, pivot);
}

Tensor lu_solve(const Tensor& LU, const Tensor& pivots, const Tensor& B, bool left, bool adjoint_) {
  if (left) return solve_factorised(LU, pivots, B, adjoint_);
  linalg::check_matrix("linalg.lu_solve", "B", B);
  return adjoint(solve_factorised(LU, pivots, adjoint(B), !adjoint_));  // X A = B
}

}  // namespace linalg

Tensor lu_solve(const Tensor& self, const Tensor& LU_data, const Tensor& LU_pivots) {
  return linalg::lu_solve(LU_data, LU_pivots, self);
}

}  // namespace tensora
