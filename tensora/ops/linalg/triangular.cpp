#include "tensora/ops/linalg/triangular.h"

#include "tensora/ops/copy/copy.h"
#include "tensora/ops/linalg/complex_matrices.h"
#include "tensora/ops/linalg/linalg_common.h"
#include "tensora/ops/matrix/matmul.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/triangle.h"

namespace tensora {

constexpr auto describe(std::type_identity<TriangularAttrs>) {
  using A = TriangularAttrs;
  return fields(field("upper", &A::upper), field("left", &A::left),
                field("unitriangular", &A::unitriangular));
}

namespace {

void infer_solve(Infer& infer, const TriangularAttrs& attrs) {
  constexpr std::string_view kName = "linalg.solve_triangular";
  const Tensor &A = infer[0], &B = infer[1];
  linalg::check_square(kName, "A", A);
  linalg::check_matrix(kName, "B", B);
  linalg::check_same_dtype(kName, A, B);
  check(A.size(-1) == B.size(attrs.left ? -2 : -1), kName, ": Incompatible shapes of A and B for ",
        attrs.left ? "the equation AX = B" : "the equation XA = B", ": ", A.sizes(), " and ",
        B.sizes());
  Shape sizes = broadcast_shapes(linalg::batch_of(A), linalg::batch_of(B), kName);
  sizes.push_back(B.size(-2));
  sizes.push_back(B.size(-1));
  // The vectors that are solved for together lie side by side: the rows of X, or its columns.
  const bool turned = !attrs.left && !infer.device.is_cuda();
  infer.output(sizes, linalg::result_strides(infer, sizes, turned), B.dtype());
}

void solve_vjp(Vjp& vjp, const TriangularAttrs& attrs) {
  const Tensor A = vjp.input(0);
  const Tensor g = linalg::solve_triangular(linalg::adjoint(A), vjp.grad(), !attrs.upper,
                                            attrs.left, attrs.unitriangular);
  if (vjp.needs(1)) vjp.set(1, g);
  if (!vjp.needs(0)) return;
  const Tensor x = linalg::adjoint(vjp.output(0));
  const Tensor full = neg(attrs.left ? matmul(g, x) : matmul(x, g));
  const int64_t beside = attrs.unitriangular ? 1 : 0;
  vjp.set(0, attrs.upper ? triu(full, beside) : tril(full, -beside));
}

}  // namespace

constinit OpDef<TriangularAttrs> solve_triangular_op =
    define(Op<TriangularAttrs>{.name = "linalg_solve_triangular",
                               .inputs = {"A", "B"},
                               .primitive = true,
                               .infer = infer_solve,
                               .vjp = solve_vjp,
                               .saves = {in(0) | out(0), in(0)}});

void register_triangular(OpRegistry& registry) { registry.add(solve_triangular_op); }

std::tuple<Tensor, Tensor> triangular_solve(const Tensor& self, const Tensor& A, bool upper,
                                            bool transpose, bool unitriangular) {
  return called_as("triangular_solve", [&]() -> std::tuple<Tensor, Tensor> {
    linalg::check_square("triangular_solve", "A", A);
    const Tensor turned = transpose ? tensora::transpose(A, -2, -1) : A;
    const Tensor solution =
        linalg::solve_triangular(turned, self, upper != transpose, true, unitriangular);
    Shape sizes = solution.sizes();
    sizes[sizes.size() - 1] = A.size(-1);
    return {solution, clone(expand(A, sizes))};
  });
}

Tensor linalg::solve_triangular(const Tensor& A, const Tensor& B, bool upper, bool left,
                                bool unitriangular) {
  if (A.defined() && B.defined() && A.is_complex()) {
    check_square("linalg.solve_triangular", "A", A);
    check_matrix("linalg.solve_triangular", "B", B);
    check_same_dtype("linalg.solve_triangular", A, B);
    if (left) return solve_complex_triangular(A, B, upper, unitriangular);
    return mT(solve_complex_triangular(mT(A), mT(B), !upper, unitriangular));  // X A = B
  }
  return apply(solve_triangular_op, {A, B}, {upper, left, unitriangular});
}

}  // namespace tensora
