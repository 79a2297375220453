// Registers nothing: functions of other ops.
#include "tensora/ops/linalg/reflectors.h"

#include "tensora/ops/complex/complex.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/linalg/linalg_common.h"
#include "tensora/ops/linalg/linalg_norms.h"
#include "tensora/ops/matrix/matmul.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {
namespace {

using linalg::adjoint, linalg::batch_of;

/// The vector of reflector i as a column, … m 1.
Tensor reflector(const Tensor& A, int64_t i) {
  Shape above = batch_of(A), one = above;
  above.push_back(i);
  one.push_back(1);
  const TensorOptions like{.dtype = A.dtype(), .device = A.device()};
  const Tensor below = select(slice(A, -2, i + 1), -1, i);
  return unsqueeze(cat({zeros(above, like), ones(one, like), below}, -1), -1);
}

/// (1 - factor v v^H) C, where factor is … 1 1.
Tensor reflected(const Tensor& C, const Tensor& v, const Tensor& factor) {
  return C - factor * matmul(v, matmul(adjoint(v), C));
}

Tensor factor_of(const Tensor& tau, int64_t i) { return unsqueeze(slice(tau, -1, i, i + 1), -1); }

/// Q C, or Q^H C: the last reflector acts first.
Tensor times_q(const Tensor& A, const Tensor& tau, Tensor C, bool adjoint_q) {
  const int64_t count = tau.size(-1);
  for (int64_t k = 0; k < count; ++k) {
    const int64_t i = adjoint_q ? k : count - 1 - k;
    const Tensor factor = factor_of(tau, i);
    C = reflected(C, reflector(A, i), adjoint_q ? conj(factor) : factor);
  }
  return C;
}

void check_reflectors(std::string_view op, const Tensor& A, const Tensor& tau) {
  linalg::check_matrix(op, "input", A);
  linalg::check_same_dtype(op, A, tau);
  check(tau.dim() == A.dim() - 1 && batch_of(tau, 1) == batch_of(A), op,
        ": expected tau to have one dimension less than input and the same batch dimensions, got ",
        tau.sizes(), " and ", A.sizes());
  check(A.size(-1) >= tau.size(-1) && A.size(-2) >= tau.size(-1), op,
        ": input.shape[-1] must be greater than or equal to tau.shape[-1], and so must ",
        "input.shape[-2], got ", A.sizes(), " and ", tau.sizes());
}

/// What a step of the factorisation fixes: the diagonal element, the rest of its row, the vector.
struct Step {
  Tensor diagonal, row, vector, tau;
};

/// Turns the first column of `rest` into a multiple of the first unit vector and continues with
/// the remaining matrix.
Step eliminate(Tensor& rest) {
  const Tensor column = slice(rest, -1, 0, 1), alpha = slice(column, -2, 0, 1);
  const Tensor tail = slice(column, -2, 1), others = slice(rest, -1, 1);
  const Tensor norm = linalg::vector_norm(column, 2, {-2}, true);
  const Tensor real_alpha = alpha.is_complex() ? real(alpha) : alpha;
  Tensor done = eq(linalg::vector_norm(tail, 2, {-2}, true), 0);  // nothing to eliminate
  if (alpha.is_complex()) done = logical_and(done, eq(imag(alpha), 0));
  const Tensor beta = to(where(ge(real_alpha, 0), -norm, norm), alpha.dtype());
  const Tensor tau = where(done, 0, (beta - alpha) / where(done, 1, beta));
  const Tensor vector = tail / where(done, 1, alpha - beta);
  const Tensor v = cat({ones_like(alpha), vector}, -2);
  const Tensor turned = reflected(others, v, conj(tau));
  rest = slice(turned, -2, 1);
  return {where(done, alpha, beta), slice(turned, -2, 0, 1), vector, squeeze(tau, {-1})};
}

}  // namespace

std::tuple<Tensor, Tensor> geqrf(const Tensor& self) {
  linalg::check_matrix("geqrf", "input", self);
  const int64_t steps = std::min(self.size(-2), self.size(-1));
  Tensor rest = self;
  std::vector<Step> all;
  for (int64_t i = 0; i < steps; ++i) all.push_back(eliminate(rest));
  Tensor factors = rest;
  std::vector<Tensor> taus;
  for (auto step = all.rbegin(); step != all.rend(); ++step)
    factors = cat({cat({step->diagonal, step->row}, -1), cat({step->vector, factors}, -1)}, -2);
  for (const Step& step : all) taus.push_back(step.tau);
  Shape none = batch_of(self);
  none.push_back(0);
  if (all.empty())
    return {clone(self), zeros(none, {.dtype = self.dtype(), .device = self.device()})};
  return {factors, cat(taus, -1)};
}

Tensor linalg::householder_product(const Tensor& input, const Tensor& tau) {
  check_reflectors("linalg.householder_product", input, tau);
  check(input.size(-2) >= input.size(-1), "linalg.householder_product: input.shape[-2] must be ",
        "greater than or equal to input.shape[-1], got ", input.sizes());
  const int64_t m = input.size(-2), n = input.size(-1);
  const Tensor columns = slice(identity(m, input), -1, 0, n);
  return times_q(input, tau, contiguous(expand(columns, input.sizes())), false);
}

Tensor orgqr(const Tensor& self, const Tensor& tau) {
  return linalg::householder_product(self, tau);
}

Tensor ormqr(const Tensor& self, const Tensor& tau, const Tensor& other, bool left,
             bool transpose) {
  check_reflectors("ormqr", self, tau);
  linalg::check_matrix("ormqr", "other", other);
  linalg::check_same_dtype("ormqr", self, other);
  const int64_t inner = other.size(left ? -2 : -1);
  check(batch_of(other) == batch_of(self) && inner == self.size(-2), "ormqr: other.shape[",
        left ? "-2" : "-1", "] must be equal to input.shape[-2], and the batch dimensions must be ",
        "the same, got ", other.sizes(), " and ", self.sizes());
  if (left) return times_q(self, tau, other, transpose);
  // C Q is the adjoint of Q^H C^H.
  return adjoint(times_q(self, tau, adjoint(other), !transpose));
}

}  // namespace tensora
