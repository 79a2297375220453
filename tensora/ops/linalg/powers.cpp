// Registers nothing: functions of other ops.

#include "tensora/ops/linalg/powers.h"

#include <cmath>
#include <limits>
#include <optional>

#include "tensora/dispatch/autocast_call.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/linalg/linalg_common.h"
#include "tensora/ops/linalg/solve.h"
#include "tensora/ops/matrix/matmul.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/amax.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/scan/cumulative.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/flip.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {
namespace {

Tensor power_of(std::string_view op, const Tensor& A, int64_t n) {
  check(A.defined(), op, ": A is undefined");
  check(A.dim() >= 2, op, ": The input tensor A must have at least 2 dimensions, got shape ",
        A.sizes());
  check(A.size(-1) == A.size(-2), op, ": A must be batches of square matrices, but they are ",
        A.size(-2), " by ", A.size(-1), " matrices");
  if (n == 0) {  // a constant, but one that has A in its history, with the gradient zero
    const Tensor nowhere = zeros({}, {.dtype = kBool, .device = A.device()});
    return where(nowhere, A, linalg::identity(A.size(-1), A));
  }
  if (n == 1) return clone(A);
  Tensor square = n < 0 ? linalg::inv(A) : A;
  std::optional<Tensor> result;
  for (uint64_t rest = n < 0 ? uint64_t{0} - static_cast<uint64_t>(n) : static_cast<uint64_t>(n);;
       rest >>= 1) {
    if (rest & 1) result = result ? matmul(*result, square) : square;
    if (rest <= 1) return *result;
    square = matmul(square, square);
  }
}

// Scaling and squaring: the sum of Taylor's series up to A^16, which is exact to rounding for
// matrices of norm 0.9, of A / 2^s, squared s times. The series is evaluated in powers of A^4.
constexpr double kSeriesNorm = 0.9;

Tensor series(const Tensor& A) {
  const Tensor unit = linalg::identity(A.size(-1), A);
  const Tensor A2 = matmul(A, A), A3 = matmul(A2, A), A4 = matmul(A2, A2);
  double factorial = 20922789888000.0;  // 16!
  Tensor sum = A4 / factorial;
  for (int block = 3; block >= 0; --block) {  // the terms 4 block to 4 block + 3
    double weights[4];
    for (int k = 3; k >= 0; --k) {
      factorial /= 4 * block + k + 1;
      weights[k] = 1 / factorial;
    }
    sum = sum + A3 * weights[3] + A2 * weights[2] + A * weights[1] + unit * weights[0];
    if (block > 0) sum = matmul(sum, A4);
  }
  return sum;
}

Tensor exponential(std::string_view op, const Tensor& A) {
  linalg::check_square(op, "A", A);
  if (A.numel() == 0) return clone(A);
  int squarings = 0;
  if (!A.is_meta()) {
    const double norm = amax(sum(abs(A.detach()), {-2})).item<double>();
    if (std::isfinite(norm) && norm > kSeriesNorm)
      squarings = static_cast<int>(std::ceil(std::log2(norm / kSeriesNorm)));
  }
  Tensor result = series(A * std::ldexp(1.0, -squarings));
  for (int i = 0; i < squarings; ++i) result = matmul(result, result);
  return result;
}

/// For each chain of factors i to k, after which of them it is cut.
std::vector<std::vector<size_t>> cheapest_cuts(const std::vector<int64_t>& sizes) {
  const size_t count = sizes.size() - 1;
  std::vector<std::vector<double>> cost(count, std::vector<double>(count, 0));
  std::vector<std::vector<size_t>> cut(count, std::vector<size_t>(count, 0));
  for (size_t length = 2; length <= count; ++length)
    for (size_t i = 0; i + length <= count; ++i) {
      const size_t k = i + length - 1;
      cost[i][k] = std::numeric_limits<double>::infinity();
      for (size_t at = i; at < k; ++at) {
        const double product = static_cast<double>(sizes[i]) * static_cast<double>(sizes[at + 1]) *
                               static_cast<double>(sizes[k + 1]);
        const double total = cost[i][at] + cost[at + 1][k] + product;
        if (total >= cost[i][k]) continue;
        cost[i][k] = total;
        cut[i][k] = at;
      }
    }
  return cut;
}

Tensor product_of_chain(const std::vector<Tensor>& factors,
                        const std::vector<std::vector<size_t>>& cut, size_t first, size_t last) {
  if (first == last) return factors[first];
  const size_t at = cut[first][last];
  return matmul(product_of_chain(factors, cut, first, at),
                product_of_chain(factors, cut, at + 1, last));
}

Tensor multiply_chain(const std::vector<Tensor>& matrices) {
  constexpr std::string_view op = "linalg.multi_dot";
  std::vector<int64_t> sizes{matrices[0].size(0)};
  for (size_t i = 0; i < matrices.size(); ++i) {
    check(matrices[i].dim() == 2, op, ": tensor ", i, " must be 2D but got ", matrices[i].dim(),
          "D");
    check(matrices[i].size(0) == sizes.back(), op, ": tensors ", i - 1, " and ", i, " with shapes ",
          matrices[i == 0 ? 0 : i - 1].sizes(), " and ", matrices[i].sizes(),
          " cannot be multiplied");
    sizes.push_back(matrices[i].size(1));
  }
  return product_of_chain(matrices, cheapest_cuts(sizes), 0, matrices.size() - 1);
}

}  // namespace

Tensor matrix_power(const Tensor& self, int64_t n) { return power_of("matrix_power", self, n); }

Tensor matrix_exp(const Tensor& self) { return exponential("matrix_exp", self); }

namespace linalg {

Tensor matrix_power(const Tensor& A, int64_t n) { return power_of("linalg.matrix_power", A, n); }
Tensor matrix_exp(const Tensor& A) { return exponential("linalg.matrix_exp", A); }

Tensor vecdot(const Tensor& x, const Tensor& y, int64_t dim) {
  check(x.defined() && y.defined(), "linalg.vecdot: ", x.defined() ? "y" : "x", " is undefined");
  if (is_autocast_enabled())
    return autocast_call(
        "linalg.vecdot", Autocast::lower,
        [&](const Tensor& a, const Tensor& b) { return vecdot(a, b, dim); }, x, y);
  return called_as("linalg.vecdot",
                   [&]() { return sum((x.is_complex() ? conj(x) : x) * y, {dim}); });
}

Tensor tensorinv(const Tensor& A, int64_t ind) {
  check(A.defined(), "linalg.tensorinv: A is undefined");
  check(ind > 0 && ind <= A.dim(), "linalg.tensorinv: expected a strictly positive ind of at most ",
        A.dim(), ", got ", ind);
  Shape first, last;
  for (int d = 0; d < A.dim(); ++d) (d < ind ? first : last).push_back(A.size(d));
  check(first.numel() == last.numel(), "linalg.tensorinv: expected the product of the first ", ind,
        " sizes to be that of the others, got shape ", A.sizes());
  Shape sizes = last;
  for (const int64_t size : first) sizes.push_back(size);
  return called_as("linalg.tensorinv", [&]() {
    return reshape(inv(reshape(A, {first.numel(), last.numel()})), sizes);
  });
}

Tensor tensorsolve(const Tensor& A, const Tensor& B) {
  check(A.defined() && B.defined(), "linalg.tensorsolve: ", A.defined() ? "B" : "A",
        " is undefined");
  check(A.dim() >= B.dim(),
        "linalg.tensorsolve: expected A to have at least the dims of B, got shapes ", A.sizes(),
        " and ", B.sizes());
  Shape sizes;
  for (int d = B.dim(); d < A.dim(); ++d) sizes.push_back(A.size(d));
  check(
      A.numel() == B.numel() * sizes.numel() && sizes.numel() == B.numel(),
      "linalg.tensorsolve: Expected self to satisfy the requirement prod(self.shape[other.ndim:]) "
      "== prod(self.shape[:other.ndim]), but got ",
      sizes.numel(), " != ", B.numel());
  return called_as("linalg.tensorsolve", [&]() {
    return reshape(solve(reshape(A, {B.numel(), sizes.numel()}), reshape(B, {B.numel()})), sizes);
  });
}

Tensor multi_dot(const std::vector<Tensor>& tensors) {
  check(tensors.size() >= 2, "linalg.multi_dot: expected at least 2 tensors but got ",
        tensors.size());
  for (const Tensor& tensor : tensors)
    check(tensor.defined(), "linalg.multi_dot: undefined tensor");
  std::vector<Tensor> matrices = tensors;
  const bool row = tensors.front().dim() == 1, column = tensors.back().dim() == 1;
  if (row) matrices.front() = unsqueeze(matrices.front(), 0);
  if (column) matrices.back() = unsqueeze(matrices.back(), 1);
  Tensor result = multiply_chain(matrices);
  if (row) result = squeeze(result, {0});
  return column ? squeeze(result, {-1}) : result;
}

Tensor vander(const Tensor& x, int64_t N) {
  check(x.defined(), "linalg.vander: x is undefined");
  if (x.dim() == 0) return vander(reshape(x, {1}), N);
  check(N >= 0, "linalg.vander: N must not be negative, got ", N);
  const int64_t columns = N == 0 ? x.size(-1) : N;
  const Tensor base =
      x.dtype() == kBool || !(x.is_floating_point() || x.is_complex()) ? to(x, kInt64) : x;
  const Tensor ones = unsqueeze(ones_like(base), -1);
  if (columns <= 1) return columns == 1 ? ones : narrow(ones, -1, 0, 0);
  Shape sizes = base.sizes();
  sizes.push_back(columns - 1);
  return cat({ones, cumprod(expand(unsqueeze(base, -1), sizes), -1)}, -1);
}

}  // namespace linalg

}  // namespace tensora
