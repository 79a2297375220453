// Registers nothing: functions of other ops.

#include "tensora/ops/linalg/linalg_norms.h"

#include <cmath>
#include <limits>

#include "tensora/dispatch/autocast_call.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/linalg/linalg_common.h"
#include "tensora/ops/linalg/solve.h"
#include "tensora/ops/linalg/svd.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/amax.h"
#include "tensora/ops/reduce/p_norm.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora::linalg {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The two dims of the matrices, both counted from 0.
std::pair<int, int> matrix_dims(const Tensor& A, const Dims& dim) {
  check(A.defined(), "linalg.matrix_norm: A is undefined");
  check(A.dim() >= 2,
        "linalg.matrix_norm: The input tensor A must have at least 2 dimensions, got shape ",
        A.sizes());
  check(A.is_floating_point() || A.is_complex(),
        "linalg.matrix_norm: Expected a floating point or complex tensor as input. Got ",
        A.dtype());
  check(dim.size() == 2, "linalg.matrix_norm: dim must be a 2-tuple. Got ", dim);
  const int rows = wrap_dim(dim[0], A.dim(), "linalg.matrix_norm");
  const int columns = wrap_dim(dim[1], A.dim(), "linalg.matrix_norm");
  check(rows != columns, "linalg.matrix_norm: dims must be different. Got ", dim);
  return {rows, columns};
}

/// `reduce` of the singular values of the matrices in two dims.
template <class Reduce>
Tensor of_singular_values(const Tensor& A, std::pair<int, int> dims, bool keepdim,
                          const Reduce& reduce) {
  const Tensor moved = movedim(A, {dims.first, dims.second}, {-2, -1});
  const Tensor result = reduce(svdvals(moved));
  if (!keepdim) return result;
  const int first = std::min(dims.first, dims.second), second = std::max(dims.first, dims.second);
  return unsqueeze(unsqueeze(result, first), second);
}

Tensor cast(const Tensor& A, std::optional<DType> dtype) { return dtype ? to(A, *dtype) : A; }

// Of no norms, the largest is 0.
Tensor extremum(const Tensor& x, const Dims& dim, bool keepdim, bool largest) {
  if (largest && x.size(dim[0]) == 0) return sum(x, dim, keepdim);
  return largest ? amax(x, dim, keepdim) : amin(x, dim, keepdim);
}

}  // namespace

Tensor vector_norm(const Tensor& x, Scalar ord, const Dims& dim, bool keepdim,
                   std::optional<DType> dtype) {
  check(x.defined(), "linalg.vector_norm: x is undefined");
  check(x.is_floating_point() || x.is_complex(),
        "linalg.vector_norm: Expected a floating point or complex tensor as input. Got ",
        x.dtype());
  return called_as("linalg.vector_norm",
                   [&]() { return tensora::norm(x, ord, dim, keepdim, dtype); });
}

namespace {

std::string text_of(const NormOrder& order) {
  return order.is_named() ? order.name() : concat(order.number());
}

Tensor named_norm(const Tensor& A, const NormOrder& ord, std::pair<int, int> dims, bool keepdim,
                  std::optional<DType> dtype) {
  check(ord.name() == "fro" || ord.name() == "nuc", "linalg.matrix_norm: Order ", ord.name(),
        " not supported.");
  if (ord.name() == "fro") return vector_norm(A, 2, {dims.first, dims.second}, keepdim, dtype);
  return of_singular_values(cast(A, dtype), dims, keepdim,
                            [](const Tensor& values) { return sum(values, {-1}); });
}

Tensor numbered_norm(const Tensor& A, double p, std::pair<int, int> dims, bool keepdim) {
  const double magnitude = std::abs(p);
  check(magnitude == 1 || magnitude == 2 || magnitude == kInfinity, "linalg.matrix_norm: Order ", p,
        " not supported.");
  if (magnitude == 2)
    return of_singular_values(A, dims, keepdim, [&](const Tensor& values) {
      return extremum(values, {-1}, false, p > 0);
    });
  const int summed = magnitude == 1 ? dims.first : dims.second;
  const int compared = magnitude == 1 ? dims.second : dims.first;
  const Tensor result = extremum(vector_norm(A, 1, {summed}, true), {compared}, true, p > 0);
  return keepdim ? result : squeeze(result, {dims.first, dims.second});
}

}  // namespace

Tensor matrix_norm(const Tensor& A, const NormOrder& ord, const Dims& dim, bool keepdim,
                   std::optional<DType> chosen) {
  const auto dims = matrix_dims(A, dim);
  const auto dtype = autocast_result(A, chosen, {Autocast::as_is, Autocast::full});
  return called_as("linalg.matrix_norm", [&]() {
    return ord.is_named() ? named_norm(A, ord, dims, keepdim, dtype)
                          : numbered_norm(cast(A, dtype), ord.number(), dims, keepdim);
  });
}

Tensor norm(const Tensor& A, const std::optional<NormOrder>& ord, const Dims& dim, bool keepdim,
            std::optional<DType> dtype) {
  check(A.defined(), "linalg.norm: A is undefined");
  if (!ord) return vector_norm(A, 2, dim, keepdim, dtype);
  check(!dim.empty() || A.dim() == 1 || A.dim() == 2,
        "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got ",
        A.dim(), "D.");
  check(dim.size() <= 2, "linalg.norm: If dim is specified, it must be of length 1 or 2. Got ",
        dim);
  const bool matrices = ord->is_named() || (dim.empty() ? A.dim() == 2 : dim.size() == 2);
  if (!matrices) return vector_norm(A, ord->number(), dim, keepdim, dtype);
  return matrix_norm(A, *ord, dim.empty() ? Dims{-2, -1} : dim, keepdim, dtype);
}

Tensor cond(const Tensor& A, const std::optional<NormOrder>& p) {
  const NormOrder order = p.value_or(2);
  return called_as("linalg.cond", [&]() {
    const bool by_values = !order.is_named() && std::abs(order.number()) == 2;
    by_values ? check_matrix("linalg.cond", "A", A)
              : check_square(concat("linalg.cond(ord=", text_of(order), ")"), "A", A);
    if (A.numel() == 0)
      return zeros(batch_of(A), {.dtype = real_dtype(A.dtype()), .device = A.device()});
    if (by_values) {
      const Tensor values = svdvals(A);
      const Tensor first = narrow(values, -1, 0, 1),
                   last = narrow(values, -1, values.size(-1) - 1, 1);
      return squeeze(order.number() > 0 ? first / last : last / first, {-1});
    }
    const auto [inverse, info] = inv_ex(A);
    const Tensor product = matrix_norm(A, order) * matrix_norm(inverse, order);
    return where(eq(info, 0), product, full_like(product, kInfinity));
  });
}

}  // namespace tensora::linalg
