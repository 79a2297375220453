#include "tensora/ops/linalg/eig.h"

#include "tensora/autograd/grad_mode.h"
#include "tensora/ops/complex/complex.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/linalg/batch.h"
#include "tensora/ops/linalg/linalg_common.h"
#include "tensora/ops/linalg/solve.h"
#include "tensora/ops/linalg/svd.h"
#include "tensora/ops/matrix/matmul.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/shape/diagonal.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/triangle.h"

namespace tensora {

constexpr auto describe(std::type_identity<EigAttrs>) {
  return fields(field("compute_v", &EigAttrs::compute_v));
}
constexpr auto describe(std::type_identity<LdlFactorAttrs>) {
  return fields(field("hermitian", &LdlFactorAttrs::hermitian),
                field("check_errors", &LdlFactorAttrs::check_errors));
}
constexpr auto describe(std::type_identity<LdlAttrs>) {
  return fields(field("hermitian", &LdlAttrs::hermitian));
}

namespace {

using linalg::adjoint, linalg::diagonals;

/// Whether only the CPU, by LAPACK, has the decomposition.
bool runs_on_host(const Tensor& A) { return !A.is_cpu() && !A.is_meta(); }

// ---- eigenvalues -------------------------------------------------------------------------------

void infer_eig(Infer& infer, const EigAttrs& attrs) {
  const Tensor& A = infer[0];
  linalg::check_square("linalg.eig", "A", A);
  const DType dtype = complex_dtype(real_dtype(A.dtype()));
  Shape values = linalg::batch_of(A);
  values.push_back(A.size(-1));
  infer.output(values, dtype);
  if (attrs.compute_v)
    infer.output(A.sizes(), column_major_strides(A.sizes()), dtype);
  else
    infer.output({0}, dtype);
}

// V^-H (diag(gL) + (V^H gV - V^H V diag(Re V^H gV)) / conj(E)) V^H, where E_ij = L_j - L_i and the
// diagonal of the middle term is 0: vectors keep their norm.
void eig_vjp(Vjp& vjp, const EigAttrs& attrs) {
  check(attrs.compute_v, "linalg.eig: the derivative depends on V, which is not computed");
  const Tensor &g_l = vjp.grad(0), &g_v = vjp.grad(1);
  if (!g_l.defined() && !g_v.defined()) return;
  const Tensor L = vjp.output(0), V = vjp.output(1), Vh = adjoint(V);
  Tensor inner;
  if (g_v.defined()) {
    const Tensor turns = matmul(Vh, g_v), along = diagonals(turns);
    const Tensor phases = imag(along).detach();
    check(phases.is_meta() || allclose(phases, zeros_like(phases), 1e-2, 1e-2),
          "linalg.eig: eigenvectors are determined up to a factor e^{i phi}; the gradient depends "
          "on it, which makes it ill-defined");
    const Tensor unit = linalg::identity(L.size(-1), real(L));
    const Tensor gaps = conj(unsqueeze(L, -2) - unsqueeze(L, -1)) + unit;
    inner = (turns - matmul(Vh, V * unsqueeze(real(along), -2))) / gaps * (1 - unit);
  }
  if (g_l.defined()) inner = inner.defined() ? inner + diag_embed(g_l) : diag_embed(g_l);
  const Tensor result = linalg::solve(Vh, matmul(inner, Vh));
  vjp.set(0, is_complex(vjp.input_dtype(0)) ? result : real(result));
}

// ---- LDL ---------------------------------------------------------------------------------------

void infer_ldl_factor(Infer& infer, const LdlFactorAttrs&) {
  const Tensor& A = infer[0];
  linalg::check_square("linalg.ldl_factor_ex", "A", A);
  Shape pivots = linalg::batch_of(A);
  infer.output(A.sizes(), column_major_strides(A.sizes()), A.dtype());
  const Shape infos = pivots;
  pivots.push_back(A.size(-1));
  infer.output(pivots, kInt32);
  infer.output(infos, kInt32);
}

void infer_ldl_solve(Infer& infer, const LdlAttrs&) {
  const Tensor &LD = infer[0], &pivots = infer[1], &B = infer[2];
  linalg::check_square("linalg.ldl_solve", "LD", LD);
  linalg::check_matrix("linalg.ldl_solve", "B", B);
  linalg::check_same_dtype("linalg.ldl_solve", LD, B);
  infer.check(pivots.dtype() == kInt32 && linalg::batch_of(LD) == linalg::batch_of(pivots, 1) &&
                  pivots.size(-1) == LD.size(-1),
              "expected int32 pivots of shape LD.shape[:-1], got ", pivots.dtype(), " ",
              pivots.sizes());
  infer.check(B.size(-2) == LD.size(-1), "expected B of shape (*, ", LD.size(-1), ", k), got ",
              B.sizes());
  Shape sizes = broadcast_shapes(linalg::batch_of(LD), linalg::batch_of(B), infer.op);
  sizes.push_back(B.size(-2));
  sizes.push_back(B.size(-1));
  infer.output(sizes, column_major_strides(sizes), B.dtype());
}

// A is symmetric, or Hermitian: A^-H g is conj(A^-1 conj(g)), or A^-1 g.
void ldl_solve_vjp(Vjp& vjp, const LdlAttrs& attrs) {
  check(!vjp.needs(0), "the derivative for 'linalg_ldl_solve: LD' is not implemented.");
  if (!vjp.needs(2)) return;
  const Tensor LD = vjp.input(0), pivots = vjp.input(1);
  if (attrs.hermitian) return vjp.set(2, linalg::ldl_solve(LD, pivots, vjp.grad(), true));
  vjp.set(2, conj(linalg::ldl_solve(LD, pivots, conj(vjp.grad()), false)));
}

}  // namespace

constinit OpDef<EigAttrs> eig_op = define(Op<EigAttrs>{.name = "linalg_eig",
                                                       .inputs = {"A"},
                                                       .primitive = true,
                                                       .infer = infer_eig,
                                                       .vjp = eig_vjp,
                                                       .saves = {out(0) | out(1)},
                                                       .accepts = kComputingDTypes});
constinit OpDef<LdlFactorAttrs> ldl_factor_op = define(
    Op<LdlFactorAttrs>{.name = "linalg_ldl_factor",
                       .inputs = {"A"},
                       .primitive = true,
                       .infer = infer_ldl_factor,
                       .vjp =
                           [](Vjp&, const LdlFactorAttrs&) {
                             fail("the derivative for 'linalg_ldl_factor_ex' is not implemented.");
                           },
                       .accepts = kComputingDTypes});
constinit OpDef<LdlAttrs> ldl_solve_op =
    define(Op<LdlAttrs>{.name = "linalg_ldl_solve",
                        .inputs = {"LD", "pivots", "B"},
                        .primitive = true,
                        .infer = infer_ldl_solve,
                        .vjp = ldl_solve_vjp,
                        .saves = {Slots{}, Slots{}, in(0) | in(1)},
                        .accepts = kComputingDTypes});

void register_eig(OpRegistry& registry) {
  registry.add(eig_op);
  registry.add(ldl_factor_op);
  registry.add(ldl_solve_op);
}

namespace linalg {

std::tuple<Tensor, Tensor> eig(const Tensor& A) {
  if (runs_on_host(A)) {
    const auto [L, V] = eig(A.cpu());
    return {to(L, A.device()), to(V, A.device())};
  }
  Tensors both = apply_all(eig_op, {A}, {true});
  return {std::move(both[0]), std::move(both[1])};
}

Tensor eigvals(const Tensor& A) {
  if (runs_on_host(A)) return to(eigvals(A.cpu()), A.device());
  return std::move(apply_all(eig_op, {A}, {is_grad_enabled() && A.requires_grad()})[0]);
}

std::tuple<Tensor, Tensor, Tensor> ldl_factor_ex(const Tensor& A, bool hermitian,
                                                 bool check_errors) {
  if (runs_on_host(A)) {
    const auto [LD, pivots, info] = ldl_factor_ex(A.cpu(), hermitian, check_errors);
    return {to(LD, A.device()), to(pivots, A.device()), to(info, A.device())};
  }
  Tensors all = apply_all(ldl_factor_op, {A}, {hermitian, check_errors});
  return {std::move(all[0]), std::move(all[1]), std::move(all[2])};
}

std::tuple<Tensor, Tensor> ldl_factor(const Tensor& A, bool hermitian) {
  const auto [LD, pivots, info] = ldl_factor_ex(A, hermitian, true);
  return {LD, pivots};
}

Tensor ldl_solve(const Tensor& LD, const Tensor& pivots, const Tensor& B, bool hermitian) {
  if (runs_on_host(LD))
    return to(ldl_solve(LD.cpu(), pivots.cpu(), B.cpu(), hermitian), LD.device());
  return apply(ldl_solve_op, {LD, pivots, B}, {hermitian});
}

Tensor matrix_sqrth(const Tensor& A) {
  check_square("linalg.matrix_sqrth", "A", A);
  const auto [L, V] = eigh(A);
  return matmul(V * unsqueeze(sqrt(L), -2), adjoint(V));
}

}  // namespace linalg
}  // namespace tensora
