#include "tensora/ops/linalg/svd.h"

#include "tensora/autograd/grad_mode.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/complex/complex.h"
#include "tensora/ops/linalg/batch.h"
#include "tensora/ops/linalg/linalg_common.h"
#include "tensora/ops/matrix/matmul.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/shape/diagonal.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {

constexpr auto describe(std::type_identity<EighAttrs>) {
  return fields(field("upper", &EighAttrs::upper), field("compute_v", &EighAttrs::compute_v));
}
constexpr auto describe(std::type_identity<SvdAttrs>) {
  return fields(field("full_matrices", &SvdAttrs::full_matrices),
                field("compute_uv", &SvdAttrs::compute_uv));
}

namespace {

using linalg::adjoint, linalg::diagonals;

Tensor scale_columns(const Tensor& A, const Tensor& factors) { return A * unsqueeze(factors, -2); }
Tensor scale_rows(const Tensor& A, const Tensor& factors) { return A * unsqueeze(factors, -1); }

/// values[j] - values[i], and 1 on the diagonal.
Tensor differences(const Tensor& values) {
  return unsqueeze(values, -2) - unsqueeze(values, -1) + linalg::identity(values.size(-1), values);
}

// ---- singular values ---------------------------------------------------------------------------

void infer_svd(Infer& infer, const SvdAttrs& attrs) {
  const Tensor& A = infer[0];
  linalg::check_matrix("linalg.svd", "A", A);
  const int64_t m = A.size(-2), n = A.size(-1), k = std::min(m, n);
  const Shape batch = linalg::batch_of(A);
  Shape u = batch, s = batch, vh = batch;
  for (const int64_t size : {m, attrs.full_matrices ? m : k}) u.push_back(size);
  for (const int64_t size : {attrs.full_matrices ? n : k, n}) vh.push_back(size);
  s.push_back(k);
  if (attrs.compute_uv)
    infer.output(u, column_major_strides(u), A.dtype());
  else
    infer.output({0}, A.dtype());
  infer.output(s, real_dtype(A.dtype()));
  if (attrs.compute_uv)
    infer.output(vh, column_major_strides(vh), A.dtype());
  else
    infer.output({0}, A.dtype());
}

/// How a gradient turns vectors, twice: skew.
Tensor rotation(const Tensor& vectors, const Tensor& gradient) {
  const Tensor inner = matmul(adjoint(vectors), gradient);
  return inner - adjoint(inner);
}

// Note [Phases of vectors]
// A complex singular vector or eigenvector may be multiplied by any number of magnitude 1. Only
// what does not depend on these phases has a gradient; it does not turn a vector along itself.
void check_phases(std::string_view op, const Tensor& turns) {
  if (!turns.is_complex() || turns.is_meta()) return;
  const Tensor phases = imag(diagonals(turns)).detach();
  check(allclose(phases, zeros_like(phases), 1e-2, 1e-2), op,
        ": complex vectors are determined up to a factor e^{i phi}; the gradient depends on it, "
        "which makes it ill-defined");
}

void svd_vjp(Vjp& vjp, const SvdAttrs& attrs) {
  const Tensor& g_s = vjp.grad(1);
  check(attrs.compute_uv, "linalg.svd: the derivative depends on U and Vh, which are not computed");
  const Tensor S = vjp.output(1);
  const int64_t k = S.size(-1);
  const Tensor U = slice(vjp.output(0), -1, 0, k), Vh = slice(vjp.output(2), -2, 0, k);
  const bool has_u = vjp.grad(0).defined(), has_v = vjp.grad(2).defined();
  if (!has_u && !has_v)
    return g_s.defined() ? vjp.set(0, matmul(scale_columns(U, g_s), Vh)) : void();
  const Tensor gaps = differences(S * S), V = adjoint(Vh);
  const Tensor g_u = has_u ? slice(vjp.grad(0), -1, 0, k) : Tensor();
  const Tensor g_v = has_v ? adjoint(slice(vjp.grad(2), -2, 0, k)) : Tensor();
  Tensor inner;
  const auto add = [&](const Tensor& part) { inner = inner.defined() ? inner + part : part; };
  const Tensor u_turns = has_u ? rotation(U, g_u) : Tensor();
  const Tensor v_turns = has_v ? rotation(V, g_v) : Tensor();
  check_phases("linalg.svd", has_u && has_v ? u_turns + v_turns : has_u ? u_turns : v_turns);
  if (has_u) add(scale_columns(u_turns / gaps, S));
  if (has_v) add(scale_rows(v_turns / gaps, S));
  // Both sides may turn by opposite phases: that is a turn of A.
  if (has_u && has_v && U.is_complex()) add(diag_embed(diagonals(u_turns) / (2 * S)));
  if (g_s.defined()) add(diag_embed(g_s));
  Tensor result = matmul(matmul(U, inner), Vh);
  // What leaves the span of the vectors.
  if (has_u && U.size(-2) > k) {
    const Tensor scaled = g_u / unsqueeze(S, -2);
    result = result + matmul(scaled - matmul(U, matmul(adjoint(U), scaled)), Vh);
  }
  if (has_v && Vh.size(-1) > k) {
    const Tensor scaled = g_v / unsqueeze(S, -2);
    result = result + matmul(U, adjoint(scaled - matmul(V, matmul(Vh, scaled))));
  }
  vjp.set(0, result);
}

// ---- eigenvalues -------------------------------------------------------------------------------

void infer_eigh(Infer& infer, const EighAttrs& attrs) {
  const Tensor& A = infer[0];
  linalg::check_square("linalg.eigh", "A", A);
  Shape values = linalg::batch_of(A);
  values.push_back(A.size(-1));
  infer.output(values, real_dtype(A.dtype()));
  if (attrs.compute_v)
    infer.output(A.sizes(), column_major_strides(A.sizes()), A.dtype());
  else
    infer.output({0}, A.dtype());
}

void eigh_vjp(Vjp& vjp, const EighAttrs& attrs) {
  check(attrs.compute_v, "linalg.eigh: the derivative depends on V, which is not computed");
  const Tensor &g_l = vjp.grad(0), &g_v = vjp.grad(1);
  if (!g_l.defined() && !g_v.defined()) return;
  const Tensor L = vjp.output(0), V = vjp.output(1);
  if (!g_v.defined()) return vjp.set(0, matmul(scale_columns(V, g_l), adjoint(V)));
  const Tensor unit = linalg::identity(L.size(-1), L);
  // Half of the turns, skew, over gaps that change their sign: Hermitian, as A is.
  const Tensor turns = rotation(V, g_v) / 2;
  check_phases("linalg.eigh", turns);
  Tensor inner = turns / differences(L) * (1 - unit);
  if (g_l.defined()) inner = inner + diag_embed(g_l);
  vjp.set(0, matmul(V, matmul(inner, adjoint(V))));
}

bool is_upper(std::string_view op, std::string_view UPLO) {
  check(UPLO == "L" || UPLO == "U" || UPLO == "l" || UPLO == "u", op,
        ": Expected UPLO argument to be 'L' or 'U', but got ", UPLO);
  return UPLO == "U" || UPLO == "u";
}

bool will_differentiate(const Tensor& A) {
  return A.defined() && is_grad_enabled() && A.requires_grad();
}

}  // namespace

constinit OpDef<SvdAttrs> svd_op = define(Op<SvdAttrs>{.name = "linalg_svd",
                                                       .inputs = {"A"},
                                                       .primitive = true,
                                                       .infer = infer_svd,
                                                       .vjp = svd_vjp,
                                                       .saves = {out(0) | out(1) | out(2)},
                                                       .accepts = kComputingDTypes});
constinit OpDef<EighAttrs> eigh_op = define(Op<EighAttrs>{.name = "linalg_eigh",
                                                          .inputs = {"A"},
                                                          .primitive = true,
                                                          .infer = infer_eigh,
                                                          .vjp = eigh_vjp,
                                                          .saves = {out(0) | out(1)},
                                                          .accepts = kComputingDTypes});

void register_svd(OpRegistry& registry) {
  registry.add(svd_op);
  registry.add(eigh_op);
  shard_by(svd_op, "*..->*..,*.,*..");
  shard_by(eigh_op, "*..->*.,*..");
}

namespace linalg {

std::tuple<Tensor, Tensor, Tensor> svd(const Tensor& A, bool full_matrices) {
  Tensors all = apply_all(svd_op, {A}, {full_matrices, true});
  return {std::move(all[0]), std::move(all[1]), std::move(all[2])};
}

Tensor svdvals(const Tensor& A) {
  return std::move(apply_all(svd_op, {A}, {false, will_differentiate(A)})[1]);
}

std::tuple<Tensor, Tensor> eigh(const Tensor& A, std::string_view UPLO) {
  Tensors both = apply_all(eigh_op, {A}, {is_upper("linalg.eigh", UPLO), true});
  return {std::move(both[0]), std::move(both[1])};
}

Tensor eigvalsh(const Tensor& A, std::string_view UPLO) {
  const bool upper = is_upper("linalg.eigvalsh", UPLO);
  return std::move(apply_all(eigh_op, {A}, {upper, will_differentiate(A)})[0]);
}

}  // namespace linalg

std::tuple<Tensor, Tensor, Tensor> svd(const Tensor& self, bool some, bool compute_uv) {
  if (!compute_uv) {
    const Tensor S = linalg::svdvals(self);
    const auto square = [&](int64_t size) {
      Shape sizes = linalg::batch_of(self);
      sizes.push_back(size);
      sizes.push_back(size);
      return zeros(sizes, {.dtype = self.dtype(), .device = self.device()});
    };
    return {square(self.size(-2)), S, square(self.size(-1))};
  }
  const auto [U, S, Vh] = linalg::svd(self, !some);
  return {U, S, adjoint(Vh)};
}

}  // namespace tensora
