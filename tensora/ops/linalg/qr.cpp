#include "tensora/ops/linalg/qr.h"

#include "tensora/dispatch/sharding.h"
#include "tensora/ops/complex/complex.h"
#include "tensora/ops/linalg/batch.h"
#include "tensora/ops/linalg/linalg_common.h"
#include "tensora/ops/linalg/triangular.h"
#include "tensora/ops/matrix/matmul.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/diagonal.h"
#include "tensora/ops/shape/slice.h"
#include "tensora/ops/shape/triangle.h"

namespace tensora {

constexpr auto describe(std::type_identity<QrAttrs>) {
  return fields(field("mode", &QrAttrs::mode));
}

namespace {

using linalg::adjoint, linalg::diagonals;

void infer_qr(Infer& infer, const QrAttrs& attrs) {
  const Tensor& A = infer[0];
  linalg::check_matrix("linalg.qr", "A", A);
  const int64_t m = A.size(-2), n = A.size(-1);
  const int64_t columns = attrs.mode == QrMode::complete ? m : std::min(m, n);
  Shape q = linalg::batch_of(A), r = q;
  q.push_back(m);
  q.push_back(columns);
  r.push_back(columns);
  r.push_back(n);
  if (attrs.mode == QrMode::r)
    infer.output({0}, A.dtype());
  else
    infer.output(q, column_major_strides(q), A.dtype());
  infer.output(r, column_major_strides(r), A.dtype());
}

// For m >= n: [gQ + Q copyltu(triu(gR R^H - Q^H gQ))] R^-H, where the diagonal counts by its real
// part. Otherwise the first m columns determine Q, and the others are Q^H times those of A.
void qr_vjp(Vjp& vjp, const QrAttrs& attrs) {
  check(
      attrs.mode != QrMode::r,
      "linalg.qr: the derivative depends on Q, which is not computed in the mode 'r'; use the mode "
      "'reduced'");
  const Tensor &g_q = vjp.grad(0), &g_r = vjp.grad(1);
  if (!g_q.defined() && !g_r.defined()) return;
  const Tensor Q = vjp.output(0), R = vjp.output(1);
  const int64_t m = Q.size(-2), n = R.size(-1);
  check(attrs.mode == QrMode::reduced || m <= n,
        "linalg.qr: the decomposition is not differentiable in the mode 'complete' where there are "
        "more rows than columns, got ",
        m, " and ", n);
  Tensor inner;
  if (g_r.defined()) inner = matmul(g_r, adjoint(R));
  if (g_q.defined()) {
    const Tensor turned = matmul(adjoint(Q), g_q);
    inner = inner.defined() ? inner - turned : -turned;
  }
  if (m >= n) {
    const Tensor strict = triu(inner, 1), on_diagonal = diag_embed(real(diagonals(inner)));
    Tensor full = matmul(Q, strict + adjoint(strict) + on_diagonal);
    if (g_q.defined()) full = full + g_q;
    return vjp.set(0, linalg::solve_triangular(adjoint(R), full, false, false));
  }
  const Tensor difference = adjoint(inner) - inner;
  Tensor below = tril(difference, -1);
  if (Q.is_complex()) below = (below + tril(difference)) * 0.5;  // half of the diagonal
  const Tensor lower = linalg::solve_triangular(adjoint(slice(R, -1, 0, m)), below, false, false);
  Shape rest = linalg::batch_of(lower);
  rest.push_back(m);
  rest.push_back(n - m);
  Tensor full = cat({lower, zeros(rest, {.dtype = lower.dtype(), .device = lower.device()})}, -1);
  if (g_r.defined()) full = full + g_r;
  vjp.set(0, matmul(Q, full));
}

}  // namespace

constinit OpDef<QrAttrs> qr_op = define(Op<QrAttrs>{.name = "linalg_qr",
                                                    .inputs = {"A"},
                                                    .primitive = true,
                                                    .infer = infer_qr,
                                                    .vjp = qr_vjp,
                                                    .saves = {out(0) | out(1)},
                                                    .accepts = kComputingDTypes});

void register_qr(OpRegistry& registry) {
  registry.add(qr_op);
  shard_by(qr_op, "*..->*..");
}

std::tuple<Tensor, Tensor> qr(const Tensor& self, bool some) {
  return linalg::qr(self, some ? "reduced" : "complete");
}

std::tuple<Tensor, Tensor> linalg::qr(const Tensor& A, std::string_view mode) {
  check(mode == "reduced" || mode == "complete" || mode == "r",
        "linalg.qr: mode must be 'reduced', ", "'complete' or 'r', got '", mode, "'");
  const QrMode chosen = mode == "reduced"    ? QrMode::reduced
                        : mode == "complete" ? QrMode::complete
                                             : QrMode::r;
  Tensors both = apply_all(qr_op, {A}, {chosen});
  return {std::move(both[0]), std::move(both[1])};
}

}  // namespace tensora
