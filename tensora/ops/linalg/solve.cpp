#include "tensora/ops/linalg/solve.h"

#include <cmath>
#include <limits>

#include "tensora/autograd/grad_mode.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/complex/complex.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/linalg/complex_matrices.h"
#include "tensora/ops/linalg/linalg_common.h"
#include "tensora/ops/linalg/lu.h"
#include "tensora/ops/matrix/matmul.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/amax.h"
#include "tensora/ops/reduce/prod.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/shape/diagonal.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {

constexpr auto describe(std::type_identity<InverseAttrs>) {
  return fields(field("check_errors_as", &InverseAttrs::check_errors_as));
}
constexpr auto describe(std::type_identity<SolveAttrs>) {
  return fields(field("left", &SolveAttrs::left),
                field("check_errors_as", &SolveAttrs::check_errors_as));
}

namespace {

using linalg::adjoint;

/// Describes the factors and their pivots, which further ops may use.
void describe_factors(Infer& infer) {
  const Tensor& A = infer[0];
  infer.output(A.sizes(), linalg::result_strides(infer, A.sizes()), A.dtype());
  Shape pivots = linalg::batch_of(A);
  pivots.push_back(A.size(-1));
  infer.output(pivots, kInt32);
}

// ---- equations ---------------------------------------------------------------------------------

void infer_solve(Infer& infer, const SolveAttrs& attrs) {
  constexpr std::string_view kName = "linalg.solve";
  const Tensor &A = infer[0], &B = infer[1];
  linalg::check_square(kName, "A", A);
  linalg::check_matrix(kName, "B", B);
  linalg::check_same_dtype(kName, A, B);
  check(A.size(-1) == B.size(attrs.left ? -2 : -1), kName,
        ": Incompatible shapes of A and B for the equation ", attrs.left ? "AX = B" : "XA = B",
        " (", A.size(-2), "x", A.size(-1), " and ", B.size(-2), "x", B.size(-1), ")");
  Shape sizes = broadcast_shapes(linalg::batch_of(A), linalg::batch_of(B), kName);
  sizes.push_back(B.size(-2));
  sizes.push_back(B.size(-1));
  infer.output(sizes, linalg::result_strides(infer, sizes, !attrs.left), B.dtype());
  describe_factors(infer);
  infer.output(linalg::batch_of(A), kInt32);
}

Tensors solve_reference(Args in, const SolveAttrs& attrs) {
  Tensors factors = apply_all(lu_factor_op, {*in[0]}, {true, attrs.check_errors_as});
  const Tensor X = linalg::lu_solve(factors[0], factors[1], *in[1], attrs.left);
  return Tensors{X, factors[0], factors[1], factors[2]};
}

void solve_vjp(Vjp& vjp, const SolveAttrs& attrs) {
  if (!vjp.grad(0).defined()) return;
  // For second order the factors must depend on A, so they are computed again.
  const Tensor g = is_grad_enabled() ? linalg::solve(adjoint(vjp.input(0)), vjp.grad(0), attrs.left)
                                     : linalg::lu_solve(vjp.output(1), vjp.output(2), vjp.grad(0),
                                                        attrs.left, true);
  if (vjp.needs(1)) vjp.set(1, g);
  if (!vjp.needs(0)) return;
  const Tensor x = adjoint(vjp.output(0));
  vjp.set(0, neg(attrs.left ? matmul(g, x) : matmul(x, g)));
}

void infer_inverse(Infer& infer, const InverseAttrs&) {
  linalg::check_square("linalg.inv", "A", infer[0]);
  const Shape& sizes = infer[0].sizes();
  infer.output(sizes, linalg::result_strides(infer, sizes), infer[0].dtype());
  infer.output(linalg::batch_of(infer[0]), kInt32);
}

Tensors inverse_reference(Args in, const InverseAttrs& attrs) {
  Tensors factors = apply_all(lu_factor_op, {*in[0]}, {true, attrs.check_errors_as});
  const Tensor unit = linalg::identity(in[0]->size(-1), *in[0]);
  return Tensors{linalg::lu_solve(factors[0], factors[1], unit), factors[2]};
}

void inverse_vjp(Vjp& vjp, const InverseAttrs&) {
  if (!vjp.grad(0).defined()) return;
  const Tensor X = adjoint(vjp.output(0));
  vjp.set(0, neg(matmul(X, matmul(vjp.grad(0), X))));
}

// ---- determinants ------------------------------------------------------------------------------

/// 1, or -1 after an odd number of exchanges.
Tensor parity(const Tensor& pivots, DType dtype) {
  const Tensor unmoved =
      arange(1, pivots.size(-1) + 1, {.dtype = kInt32, .device = pivots.device()});
  const Tensor exchanges = sum(ne(pivots, unmoved), {-1});
  return 1 - 2 * to(remainder(exchanges, 2), dtype);
}

Tensor product_of_pivots(const Tensor& LU, const Tensor& pivots) {
  return prod(linalg::diagonals(LU), {-1}) * parity(pivots, LU.dtype());
}

void infer_det(Infer& infer, const NoAttrs&) {
  linalg::check_square("linalg.det", "A", infer[0]);
  infer.output(linalg::batch_of(infer[0]), infer[0].dtype());
  describe_factors(infer);
}

Tensors det_reference(Args in, const NoAttrs&) {
  const Tensors factors = apply_all(lu_factor_op, {*in[0]});
  return Tensors{product_of_pivots(factors[0], factors[1]), factors[0], factors[1]};
}

Tensor scaled_identity(const Tensor& factor, const Tensor& A) {
  return unsqueeze(unsqueeze(factor, -1), -1) * linalg::identity(A.size(-1), A);
}

// The gradient is the adjugate, det(A) A^-T. It is continuous: where A is singular, that of a
// matrix close to A is taken, whose zero pivots are tiny instead.
void det_vjp(Vjp& vjp, const NoAttrs&) {
  if (!vjp.grad(0).defined()) return;
  const Tensor A = vjp.input(0), LU = vjp.output(1).detach(), pivots = vjp.output(2);
  if (A.numel() == 0) return vjp.set(0, zeros_like(A));
  double epsilon = A.dtype() == kFloat64 ? std::numeric_limits<double>::epsilon()
                                         : std::numeric_limits<float>::epsilon();
  // Second order divides by it twice.
  if (is_grad_enabled()) epsilon = std::sqrt(epsilon);
  const Tensor scale = clamp_min(amax(abs(LU), {-2, -1}) * epsilon, epsilon * epsilon);
  const Tensor shift =
      where(eq(linalg::diagonals(LU), 0), unsqueeze(scale, -1), zeros_like(unsqueeze(scale, -1)));
  if (!is_grad_enabled()) {
    const Tensor moved = LU + diag_embed(shift);
    const Tensor right = scaled_identity(vjp.grad(0) * product_of_pivots(moved, pivots), A);
    return vjp.set(0, linalg::lu_solve(moved, pivots, right, true, true));
  }
  const auto [P, L, U] = lu_unpack(LU, pivots);
  const Tensor moved = A + matmul(P, L * unsqueeze(shift, -2));
  const Tensor right = scaled_identity(vjp.grad(0) * linalg::det(moved), A);
  vjp.set(0, linalg::solve(adjoint(moved), right));
}

void infer_slogdet(Infer& infer, const NoAttrs&) {
  linalg::check_square("linalg.slogdet", "A", infer[0]);
  for (int i = 0; i < 2; ++i) infer.output(linalg::batch_of(infer[0]), infer[0].dtype());
  describe_factors(infer);
}

Tensors slogdet_reference(Args in, const NoAttrs&) {
  const Tensors factors = apply_all(lu_factor_op, {*in[0]});
  const Tensor pivots = linalg::diagonals(factors[0]);
  const Tensor signs = prod(sign(pivots), {-1}) * parity(factors[1], pivots.dtype());
  return Tensors{signs, sum(log(abs(pivots)), {-1}), factors[0], factors[1]};
}

void slogdet_vjp(Vjp& vjp, const NoAttrs&) {
  if (!vjp.grad(1).defined()) return;  // the sign is constant
  const Tensor A = vjp.input(0), right = scaled_identity(vjp.grad(1), A);
  vjp.set(0, is_grad_enabled() ? linalg::solve(adjoint(A), right)
                               : linalg::lu_solve(vjp.output(2), vjp.output(3), right, true, true));
}

}  // namespace

constinit OpDef<SolveAttrs> solve_op =
    define(Op<SolveAttrs>{.name = "linalg_solve_ex",
                          .inputs = {"A", "B"},
                          .infer = infer_solve,
                          .reference = solve_reference,
                          .vjp = solve_vjp,
                          .saves = {in(0) | out(0) | out(1) | out(2), in(0) | out(1) | out(2)}});
constinit OpDef<InverseAttrs> inverse_op = define(Op<InverseAttrs>{.name = "linalg_inv_ex",
                                                                   .inputs = {"A"},
                                                                   .infer = infer_inverse,
                                                                   .reference = inverse_reference,
                                                                   .vjp = inverse_vjp,
                                                                   .saves = {out(0)}});
constinit OpDef<NoAttrs> det_op = define(Op<NoAttrs>{.name = "linalg_det",
                                                     .inputs = {"A"},
                                                     .infer = infer_det,
                                                     .reference = det_reference,
                                                     .vjp = det_vjp,
                                                     .saves = {in(0) | out(1) | out(2)}});
constinit OpDef<NoAttrs> slogdet_op = define(Op<NoAttrs>{.name = "linalg_slogdet",
                                                         .inputs = {"A"},
                                                         .infer = infer_slogdet,
                                                         .reference = slogdet_reference,
                                                         .vjp = slogdet_vjp,
                                                         .saves = {in(0) | out(2) | out(3)}});

void register_solve(OpRegistry& registry) {
  registry.add(solve_op);
  registry.add(inverse_op);
  registry.add(det_op);
  registry.add(slogdet_op);
  shard_by(inverse_op, "*..->*..,*");
  shard_by(det_op, "*..->*");
  shard_by(slogdet_op, "*..->*");
}

namespace {

std::tuple<Tensor, Tensor> solve_as(const Tensor& A, const Tensor& B, bool left,
                                    std::string check_errors_as) {
  check(A.defined() && B.defined(), "linalg.solve: ", A.defined() ? "B" : "A", " is undefined");
  const bool vectors = B.dim() == 1 || (A.dim() >= 2 && B.dim() == A.dim() - 1 &&
                                        B.sizes() == linalg::batch_of(A, 1));
  check(left || !vectors,
        "linalg.solve: Vector broadcasting of the left hand side is not supported "
        "for left=false: B has shape ",
        B.sizes());
  const Tensor right = vectors ? unsqueeze(B, -1) : B;
  if (A.is_complex()) {
    linalg::check_square("linalg.solve", "A", A);
    linalg::check_matrix("linalg.solve", "B", right);
    linalg::check_same_dtype("linalg.solve", A, B);
    const Tensor matrix = linalg::as_real_matrix(left ? A : mT(A));
    const Tensors all =
        apply_all(solve_op, {matrix, linalg::as_real_columns(left ? right : mT(right))},
                  {true, std::move(check_errors_as)});
    const Tensor X = linalg::from_real_columns(all[0]);
    return {vectors ? squeeze(X, -1) : left ? X : mT(X), linalg::halved_count(all[3])};
  }
  Tensors all = apply_all(solve_op, {A, right}, {left, std::move(check_errors_as)});
  return {vectors ? squeeze(all[0], -1) : all[0], all[3]};
}

Tensors inverse_as(const Tensor& A, std::string check_errors_as) {
  if (!A.defined() || !A.is_complex())
    return apply_all(inverse_op, {A}, {std::move(check_errors_as)});
  linalg::check_square("linalg.inv", "A", A);
  const Tensors both =
      apply_all(inverse_op, {linalg::as_real_matrix(A)}, {std::move(check_errors_as)});
  return {linalg::from_real_matrix(both[0]), linalg::halved_count(both[1])};
}

}  // namespace

namespace linalg {

Tensor solve(const Tensor& A, const Tensor& B, bool left) {
  return std::get<0>(solve_as(A, B, left, "linalg.solve"));
}

std::tuple<Tensor, Tensor> solve_ex(const Tensor& A, const Tensor& B, bool left,
                                    bool check_errors) {
  return solve_as(A, B, left, check_errors ? "linalg.solve_ex" : "");
}

Tensor inv(const Tensor& A) { return inverse_as(A, "linalg.inv")[0]; }

std::tuple<Tensor, Tensor> inv_ex(const Tensor& A, bool check_errors) {
  const Tensors both = inverse_as(A, check_errors ? "linalg.inv_ex" : "");
  return {both[0], both[1]};
}

Tensor det(const Tensor& A) {
  if (A.defined() && A.is_complex()) {
    check_square("linalg.det", "A", A);
    const Tensors factors = factorise_complex(A, true);
    return product_of_pivots(factors[0], factors[1]);
  }
  return std::move(apply_all(det_op, {A})[0]);
}

std::tuple<Tensor, Tensor> slogdet(const Tensor& A) {
  if (A.defined() && A.is_complex()) {
    check_square("linalg.slogdet", "A", A);
    const Tensors factors = factorise_complex(A, true);
    const Tensor pivots = diagonals(factors[0]);
    return {prod(sgn(pivots), {-1}) * parity(factors[1], pivots.dtype()),
            sum(log(abs(pivots)), {-1})};
  }
  Tensors all = apply_all(slogdet_op, {A});
  return {std::move(all[0]), std::move(all[1])};
}

}  // namespace linalg

Tensor inverse(const Tensor& self) { return linalg::inv(self); }
Tensor det(const Tensor& self) { return linalg::det(self); }
std::tuple<Tensor, Tensor> slogdet(const Tensor& self) { return linalg::slogdet(self); }

Tensor logdet(const Tensor& self) {
  const auto [sign, magnitude] = linalg::slogdet(self);
  if (sign.is_complex()) return log(sign) + magnitude;
  return where(lt(sign, 0), std::numeric_limits<double>::quiet_NaN(), magnitude);
}

}  // namespace tensora
