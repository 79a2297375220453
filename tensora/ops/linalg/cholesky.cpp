#include "tensora/ops/linalg/cholesky.h"

#include "tensora/ops/linalg/linalg_common.h"
#include "tensora/ops/linalg/triangular.h"
#include "tensora/ops/matrix/matmul.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/triangle.h"

namespace tensora {

constexpr auto describe(std::type_identity<CholeskyAttrs>) {
  return fields(field("upper", &CholeskyAttrs::upper),
                field("check_errors_as", &CholeskyAttrs::check_errors_as));
}

namespace {

using linalg::adjoint;

void infer_cholesky(Infer& infer, const CholeskyAttrs&) {
  linalg::check_square("linalg.cholesky", "A", infer[0]);
  infer.output(infer[0].sizes(), infer[0].dtype());
  infer.output(linalg::batch_of(infer[0]), kInt32);
}

// A = L L^T: L^-1 dA L^-T = L^-1 dL + (L^-1 dL)^T, of which L^-1 dL is the lower triangle.
void cholesky_vjp(Vjp& vjp, const CholeskyAttrs& attrs) {
  if (!vjp.grad(0).defined()) return;
  const Tensor L = attrs.upper ? adjoint(vjp.output(0)) : vjp.output(0);
  const Tensor g = attrs.upper ? adjoint(vjp.grad(0)) : vjp.grad(0);
  const Tensor lower = matmul(adjoint(L), g);
  const Tensor strict = tril(lower, -1);
  const Tensor symmetric = (strict + adjoint(strict) + (tril(lower) - strict)) * 0.5;
  const Tensor half = linalg::solve_triangular(adjoint(L), symmetric, true);
  vjp.set(0, linalg::solve_triangular(L, half, false, false));
}

}  // namespace

constinit OpDef<CholeskyAttrs> cholesky_op = define(Op<CholeskyAttrs>{.name = "linalg_cholesky_ex",
                                                                      .inputs = {"A"},
                                                                      .primitive = true,
                                                                      .infer = infer_cholesky,
                                                                      .vjp = cholesky_vjp,
                                                                      .saves = {out(0)}});

void register_cholesky(OpRegistry& registry) { registry.add(cholesky_op); }

namespace linalg {

Tensor cholesky(const Tensor& A, bool upper) {
  return std::move(apply_all(cholesky_op, {A}, {upper, "linalg.cholesky"})[0]);
}

std::tuple<Tensor, Tensor> cholesky_ex(const Tensor& A, bool upper, bool check_errors) {
  Tensors both = apply_all(cholesky_op, {A}, {upper, check_errors ? "linalg.cholesky_ex" : ""});
  return {std::move(both[0]), std::move(both[1])};
}

}  // namespace linalg

Tensor cholesky(const Tensor& self, bool upper) {
  return std::move(apply_all(cholesky_op, {self}, {upper, "cholesky"})[0]);
}

Tensor cholesky_solve(const Tensor& self, const Tensor& input2, bool upper) {
  return called_as("cholesky_solve", [&]() {
    linalg::check_matrix("cholesky_solve", "self", self);
    linalg::check_square("cholesky_solve", "input2", input2);
    const Tensor L = upper ? adjoint(input2) : input2;
    return linalg::solve_triangular(adjoint(L), linalg::solve_triangular(L, self, false), true);
  });
}

Tensor cholesky_inverse(const Tensor& self, bool upper) {
  return called_as("cholesky_inverse", [&]() {
    linalg::check_square("cholesky_inverse", "self", self);
    const Tensor L = upper ? adjoint(self) : self;
    const Tensor inverse =
        linalg::solve_triangular(L, linalg::identity(self.size(-1), self), false);
    return matmul(adjoint(inverse), inverse);
  });
}

}  // namespace tensora
