// Registers nothing: functions of other ops.

#include "tensora/ops/linalg/powers.h"

#include <limits>
#include <optional>

#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/linalg/linalg_common.h"
#include "tensora/ops/linalg/solve.h"
#include "tensora/ops/matrix/matmul.h"
#include "tensora/ops/operators.h"
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
  if (n == 0) return clone(expand(linalg::identity(A.size(-1), A), A.sizes()));
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

namespace linalg {

Tensor matrix_power(const Tensor& A, int64_t n) { return power_of("linalg.matrix_power", A, n); }

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

Tensor vander_matrix(const Tensor& x, int64_t N) {
  check(x.defined() && x.dim() >= 1, "linalg.vander: expected at least one dimension");
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

Tensor vander_matrix(const Tensor& x, int64_t N, bool increasing) {
  check(x.defined() && x.dim() == 1, "vander: expected a vector");
  const Tensor powers = linalg::vander_matrix(x, N);
  return increasing ? powers : flip(powers, {-1});
}

}  // namespace tensora
