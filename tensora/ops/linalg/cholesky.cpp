#include "tensora/ops/linalg/cholesky.h"

#include "tensora/dispatch/sharding.h"
#include "tensora/ops/linalg/complex_matrices.h"
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

/// Which triangle of a factor is read.
struct FactorAttrs {
  bool upper = false;
};
constexpr auto describe(std::type_identity<FactorAttrs>) {
  return fields(field("upper", &FactorAttrs::upper));
}

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

Tensor solve_by_factor(const Tensor& B, const Tensor& factor, bool upper) {
  const Tensor L = upper ? adjoint(factor) : factor;
  return linalg::solve_triangular(adjoint(L), linalg::solve_triangular(L, B, false), true);
}

Tensor inverse_of_product(const Tensor& factor, bool upper) {
  const Tensor unit = linalg::identity(factor.size(-1), factor);
  const Tensor inverse = linalg::solve_triangular(upper ? adjoint(factor) : factor, unit, false);
  return matmul(adjoint(inverse), inverse);
}

// Note [The gradient of a factor]
// With A = L L^T and the gradient G of A, that of L is (G + G^T) L. As in PyTorch it is not cut to
// the triangle that is read: what comes from `cholesky` cuts it, and L may have come otherwise.
Tensor factor_gradient(const Tensor& of_product, const Tensor& factor, bool upper) {
  const Tensor both = of_product + adjoint(of_product);
  return upper ? matmul(factor, both) : matmul(both, factor);
}

}  // namespace

constinit OpDef<CholeskyAttrs> cholesky_op = define(Op<CholeskyAttrs>{.name = "linalg_cholesky_ex",
                                                                      .inputs = {"A"},
                                                                      .primitive = true,
                                                                      .infer = infer_cholesky,
                                                                      .vjp = cholesky_vjp,
                                                                      .saves = {out(0)}});

// See Note [Complex matrices as real ones].
constinit OpDef<CholeskyAttrs> complex_cholesky_op = define(Op<CholeskyAttrs>{
    .name = "complex_cholesky",
    .inputs = {"A"},
    .internal = true,
    .reference =
        [](Args in, const CholeskyAttrs& attrs) {
          const Tensors both = apply_all(cholesky_op, {linalg::as_symmetric_matrix(*in[0])}, attrs);
          return Tensors{linalg::from_real_matrix(both[0]), linalg::halved_count(both[1])};
        },
    .vjp = cholesky_vjp,
    .saves = {out(0)}});

constinit OpDef<FactorAttrs> cholesky_solve_op = define(Op<FactorAttrs>{
    .name = "cholesky_solve",
    .inputs = {"self", "input2"},
    .reference =
        [](Args in, const FactorAttrs& attrs) {
          return Tensors{solve_by_factor(*in[0], *in[1], attrs.upper)};
        },
    .vjp =
        [](Vjp& vjp, const FactorAttrs& attrs) {
          const Tensor factor = vjp.input(1);
          const Tensor of_self = cholesky_solve(vjp.grad(), factor, attrs.upper);
          if (vjp.needs(0)) vjp.set(0, of_self);
          if (vjp.needs(1))
            vjp.set(1,
                    factor_gradient(-matmul(of_self, adjoint(vjp.output())), factor, attrs.upper));
        },
    .saves = {in(1), in(1) | out(0)}});

constinit OpDef<FactorAttrs> cholesky_inverse_op =
    define(Op<FactorAttrs>{.name = "cholesky_inverse",
                           .inputs = {"self"},
                           .reference =
                               [](Args in, const FactorAttrs& attrs) {
                                 return Tensors{inverse_of_product(*in[0], attrs.upper)};
                               },
                           .vjp =
                               [](Vjp& vjp, const FactorAttrs& attrs) {
                                 const Tensor inverse = vjp.output();
                                 const Tensor of_product =
                                     -matmul(inverse, matmul(vjp.grad(), inverse));
                                 vjp.set(0, factor_gradient(of_product, vjp.input(0), attrs.upper));
                               },
                           .saves = {in(0) | out(0)}});

void register_cholesky(OpRegistry& registry) {
  registry.add(cholesky_op);
  registry.add(complex_cholesky_op);
  registry.add(cholesky_solve_op);
  registry.add(cholesky_inverse_op);
  shard_by(cholesky_op, "*..->*..,*");
}

namespace {

Tensors factorise(const Tensor& A, bool upper, std::string check_errors_as) {
  const CholeskyAttrs attrs{upper, std::move(check_errors_as)};
  if (!A.defined() || !A.is_complex()) return apply_all(cholesky_op, {A}, attrs);
  linalg::check_square("linalg.cholesky", "A", A);
  return apply_all(complex_cholesky_op, {A}, attrs);
}

}  // namespace

namespace linalg {

Tensor cholesky(const Tensor& A, bool upper) { return factorise(A, upper, "linalg.cholesky")[0]; }

std::tuple<Tensor, Tensor> cholesky_ex(const Tensor& A, bool upper, bool check_errors) {
  const Tensors both = factorise(A, upper, check_errors ? "linalg.cholesky_ex" : "");
  return {both[0], both[1]};
}

}  // namespace linalg

Tensor cholesky(const Tensor& self, bool upper) { return factorise(self, upper, "cholesky")[0]; }

Tensor cholesky_solve(const Tensor& self, const Tensor& input2, bool upper) {
  return called_as("cholesky_solve", [&]() {
    linalg::check_matrix("cholesky_solve", "self", self);
    linalg::check_square("cholesky_solve", "input2", input2);
    return apply(cholesky_solve_op, {self, input2}, {upper});
  });
}

Tensor cholesky_inverse(const Tensor& self, bool upper) {
  return called_as("cholesky_inverse", [&]() {
    linalg::check_square("cholesky_inverse", "self", self);
    return apply(cholesky_inverse_op, {self}, {upper});
  });
}

}  // namespace tensora
