#include "tensora/ops/linalg/pinv.h"

#include <limits>

#include "tensora/ops/complex/complex.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/linalg/linalg_common.h"
#include "tensora/ops/linalg/qr.h"
#include "tensora/ops/linalg/svd.h"
#include "tensora/ops/linalg/triangular.h"
#include "tensora/ops/matrix/matmul.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/amax.h"
#include "tensora/ops/reduce/any_all.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {

constexpr auto describe(std::type_identity<LstsqAttrs>) {
  return fields(field("rcond", &LstsqAttrs::rcond), field("full_rank", &LstsqAttrs::full_rank));
}
constexpr auto describe(std::type_identity<PinvAttrs>) {
  return fields(field("atol", &PinvAttrs::atol), field("rtol", &PinvAttrs::rtol),
                field("hermitian", &PinvAttrs::hermitian));
}

namespace {

using linalg::adjoint;

double epsilon_of(DType dtype) {
  return real_dtype(dtype) == kFloat64 ? std::numeric_limits<double>::epsilon()
                                       : std::numeric_limits<float>::epsilon();
}

/// The share of the largest singular value up to which others count as zero.
double relative_limit(const Tensor& A, double atol, std::optional<double> rtol) {
  if (rtol || atol > 0) return rtol.value_or(0);
  return epsilon_of(A.dtype()) * static_cast<double>(std::max(A.size(-2), A.size(-1)));
}

/// The limit up to which singular values count as zero, one for each matrix.
Tensor limit(const Tensor& A, const Tensor& magnitudes, std::optional<double> atol,
             std::optional<double> rtol) {
  const double absolute = atol.value_or(0), relative = relative_limit(A, absolute, rtol);
  return clamp_min(amax(magnitudes, {-1}, true) * relative, absolute);
}

/// 1 / x where `kept`, else 0.
Tensor reciprocal_where(const Tensor& kept, const Tensor& x) {
  const Tensor zero = zeros_like(x);
  return where(kept, reciprocal(where(kept, x, ones_like(x))), zero);
}

void infer_pinv(Infer& infer, const PinvAttrs& attrs) {
  const Tensor& A = infer[0];
  attrs.hermitian ? linalg::check_square("linalg.pinv", "A", A)
                  : linalg::check_matrix("linalg.pinv", "A", A);
  Shape sizes = linalg::batch_of(A);
  sizes.push_back(A.size(-1));
  sizes.push_back(A.size(-2));
  infer.output(sizes, A.dtype());
}

Tensors pinv_reference(Args in, const PinvAttrs& attrs) {
  const Tensor& A = *in[0];
  if (A.numel() == 0) return Tensors{contiguous(zeros_like(adjoint(A)))};
  if (attrs.hermitian) {
    const auto [L, V] = linalg::eigh(A);
    const Tensor size = abs(L), kept = gt(size, limit(A, size, attrs.atol, attrs.rtol));
    return Tensors{contiguous(matmul(V * unsqueeze(reciprocal_where(kept, L), -2), adjoint(V)))};
  }
  const auto [U, S, Vh] = linalg::svd(A, false);
  const Tensor kept = gt(S, limit(A, S, attrs.atol, attrs.rtol));
  return Tensors{
      contiguous(matmul(adjoint(Vh) * unsqueeze(reciprocal_where(kept, S), -2), adjoint(U)))};
}

/// The gradient of A from that of its pseudo-inverse, for constant rank (Golub and Pereyra).
Tensor pinv_gradient(const Tensor& g, const Tensor& A, const Tensor& pinv) {
  const Tensor turned = adjoint(pinv), g_turned = adjoint(g);
  if (A.size(-2) <= A.size(-1)) {
    const Tensor K = matmul(g_turned, pinv), right = matmul(K, turned);
    return right - adjoint(matmul(pinv, K)) - matmul(A, matmul(pinv, right)) +
           matmul(turned, matmul(pinv, g_turned - matmul(K, A)));
  }
  const Tensor K = matmul(pinv, g_turned), left = matmul(turned, K);
  return left - adjoint(matmul(K, pinv)) - matmul(matmul(left, pinv), A) +
         matmul(matmul(g_turned - matmul(A, K), pinv), turned);
}

void pinv_vjp(Vjp& vjp, const PinvAttrs&) {
  vjp.set(0, pinv_gradient(vjp.grad(), vjp.input(0), vjp.output(0)));
}

// ---- least squares -----------------------------------------------------------------------------

void infer_lstsq(Infer& infer, const LstsqAttrs& attrs) {
  constexpr std::string_view kName = "linalg.lstsq";
  const Tensor &A = infer[0], &B = infer[1];
  linalg::check_matrix(kName, "A", A);
  linalg::check_matrix(kName, "B", B);
  linalg::check_same_dtype(kName, A, B);
  check(A.size(-2) == B.size(-2), kName, ": A.size(-2) should match B.size(-2), got shapes ",
        A.sizes(), " and ", B.sizes());
  Shape sizes = broadcast_shapes(linalg::batch_of(A), linalg::batch_of(B), kName);
  sizes.push_back(A.size(-1));
  sizes.push_back(B.size(-1));
  Shape rank = linalg::batch_of(A), values = rank;
  values.push_back(std::min(A.size(-2), A.size(-1)));
  infer.output(sizes, A.dtype());
  infer.output(attrs.full_rank ? Shape{0} : rank, kInt64);
  infer.output(attrs.full_rank ? Shape{0} : values, real_dtype(A.dtype()));
}

Tensors lstsq_reference(Args in, const LstsqAttrs& attrs) {
  const Tensor &A = *in[0], &B = *in[1];
  const TensorOptions like{.dtype = real_dtype(A.dtype()), .device = A.device()};
  if (attrs.full_rank) {
    const bool tall = A.size(-2) >= A.size(-1);
    const auto [Q, R] = linalg::qr(tall ? A : adjoint(A));
    const Tensor X =
        tall ? linalg::solve_triangular(R, matmul(adjoint(Q), B), true)
             : matmul(Q, linalg::solve_triangular(adjoint(R), B, false));  // the smallest one
    return Tensors{contiguous(X), zeros({0}, {.dtype = kInt64, .device = A.device()}),
                   zeros({0}, like)};
  }
  const auto [U, S, Vh] = linalg::svd(A, false);
  if (S.size(-1) == 0)
    return Tensors{contiguous(matmul(adjoint(Vh), matmul(adjoint(U), B))),
                   zeros(linalg::batch_of(A), {.dtype = kInt64, .device = A.device()}), S};
  const Tensor kept = gt(S, limit(A, S, 0, attrs.rcond));
  const Tensor inner = matmul(adjoint(U), B) * unsqueeze(reciprocal_where(kept, S), -1);
  return Tensors{contiguous(matmul(adjoint(Vh), inner)), sum(kept, {-1}), S};
}

void lstsq_vjp(Vjp& vjp, const LstsqAttrs&) {
  if (!vjp.grad(0).defined()) return;
  const Tensor A = vjp.input(0), &g = vjp.grad(0);
  const Tensor pinv = linalg::pinv(A);
  if (vjp.needs(1)) vjp.set(1, matmul(adjoint(pinv), g));
  if (vjp.needs(0)) vjp.set(0, pinv_gradient(matmul(g, adjoint(vjp.input(1))), A, pinv));
}

}  // namespace

constinit OpDef<PinvAttrs> pinv_op = define(Op<PinvAttrs>{.name = "linalg_pinv",
                                                          .inputs = {"A"},
                                                          .infer = infer_pinv,
                                                          .reference = pinv_reference,
                                                          .vjp = pinv_vjp,
                                                          .saves = {in(0) | out(0)},
                                                          .accepts = kComputingDTypes});
constinit OpDef<LstsqAttrs> lstsq_op = define(Op<LstsqAttrs>{.name = "linalg_lstsq",
                                                             .inputs = {"A", "B"},
                                                             .infer = infer_lstsq,
                                                             .reference = lstsq_reference,
                                                             .vjp = lstsq_vjp,
                                                             .saves = {in(0) | in(1), in(0)},
                                                             .accepts = kComputingDTypes});

void register_pinv(OpRegistry& registry) {
  registry.add(pinv_op);
  registry.add(lstsq_op);
}

Tensor pinverse(const Tensor& self, double rcond) { return linalg::pinv(self, 0.0, rcond); }

namespace linalg {

Tensor pinv(const Tensor& A, std::optional<double> atol, std::optional<double> rtol,
            bool hermitian) {
  return apply(pinv_op, {A}, {atol, rtol, hermitian});
}

Tensor matrix_rank(const Tensor& A, std::optional<double> atol, std::optional<double> rtol,
                   bool hermitian) {
  check_matrix("linalg.matrix_rank", "A", A);
  const Tensor S = hermitian ? abs(eigvalsh(A)) : svdvals(A);
  if (S.size(-1) == 0) return zeros(batch_of(A), {.dtype = kInt64, .device = A.device()});
  return sum(gt(S, limit(A, S, atol, rtol)), {-1});
}

std::tuple<Tensor, Tensor, Tensor, Tensor> lstsq(const Tensor& A, const Tensor& B,
                                                 std::optional<double> rcond,
                                                 std::optional<std::string_view> driver) {
  check(A.defined() && B.defined(), "linalg.lstsq: ", A.defined() ? "B" : "A", " is undefined");
  const std::string_view chosen = driver.value_or(A.is_cuda() ? "gels" : "gelsy");
  check(chosen == "gels" || chosen == "gelsy" || chosen == "gelsd" || chosen == "gelss",
        "linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), got ",
        chosen);
  const bool vectors =
      B.dim() == 1 || (A.dim() >= 2 && B.dim() == A.dim() - 1 && B.sizes() == batch_of(A, 1));
  const Tensor right = vectors ? unsqueeze(B, -1) : B;
  Tensors all = apply_all(lstsq_op, {A, right}, {rcond, chosen == "gels"});
  const int64_t m = A.size(-2), n = A.size(-1);
  const TensorOptions like{.dtype = real_dtype(A.dtype()), .device = A.device()};
  Tensor residuals = zeros({0}, like);
  const bool full_rank = chosen == "gels" || (m > n && chosen != "gelsy" && !A.is_meta() &&
                                              tensora::all(eq(all[1], n)).item<bool>());
  if (m > n && full_rank) {
    const Tensor difference = matmul(A, all[0]) - right;
    residuals = sum(real(difference * conj(difference)), {-2});
    if (vectors) residuals = squeeze(residuals, {-1});
  }
  const bool with_values = chosen == "gelsd" || chosen == "gelss";
  return {vectors ? squeeze(all[0], {-1}) : all[0], residuals, all[1],
          with_values ? all[2] : zeros({0}, like)};
}

}  // namespace linalg
}  // namespace tensora
