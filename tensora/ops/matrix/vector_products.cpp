// Registers nothing: functions of other ops.

#include "tensora/ops/matrix/vector_products.h"

#include "tensora/core/tensor.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/matrix/einsum.h"
#include "tensora/ops/matrix/matmul.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/any_all.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/diagonal.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {
namespace {

void check_defined(std::string_view op, const Tensor& a, const Tensor& b) {
  check(a.defined() && b.defined(), op, ": ", a.defined() ? "other" : "self", " is undefined");
}

}  // namespace

Tensor inner(const Tensor& self, const Tensor& other) {
  check_defined("inner", self, other);
  if (self.dim() == 0 || other.dim() == 0) return self * other;
  check(self.size(-1) == other.size(-1),
        "inner: the last dimension must match on both input tensors but got shapes ", self.sizes(),
        " and ", other.sizes());
  return called_as("inner", [&]() { return tensordot(self, other, {-1}, {-1}); });
}

Tensor vdot(const Tensor& self, const Tensor& other) {
  check_defined("vdot", self, other);
  return called_as("vdot", [&]() { return dot(self.is_complex() ? conj(self) : self, other); });
}

Tensor kron(const Tensor& self, const Tensor& other) {
  check_defined("kron", self, other);
  const int dims = std::max(self.dim(), other.dim());
  check(2 * dims <= kMaxDims || self.dim() == 0 || other.dim() == 0, "kron: at most ", kMaxDims / 2,
        " dimensions, got shapes ", self.sizes(), " and ", other.sizes());
  if (self.dim() == 0 || other.dim() == 0) return self * other;
  // Dims of one tensor alternate with those of the other, and pairs of them are joined.
  Shape left, right, joined;
  for (int d = 0; d < dims; ++d) {
    const int a = d - (dims - self.dim()), b = d - (dims - other.dim());
    const int64_t m = a < 0 ? 1 : self.size(a), n = b < 0 ? 1 : other.size(b);
    left.push_back(m);
    left.push_back(1);
    right.push_back(1);
    right.push_back(n);
    joined.push_back(m * n);
  }
  return reshape(reshape(self, left) * reshape(other, right), joined);
}

namespace {

Tensor cross_along(std::string_view op, const Tensor& a, const Tensor& b, int64_t dim) {
  check(a.dim() == b.dim(), op, ": inputs must have the same number of dimensions, got shapes ",
        a.sizes(), " and ", b.sizes());
  const int along = wrap_dim(dim, a.dim(), op);
  check(a.size(along) == 3 && b.size(along) == 3, op, ": inputs dimension ", dim,
        " must have length 3. Got ", a.size(along), " and ", b.size(along));
  const auto part = [&](const Tensor& x, int64_t index) { return select(x, along, index); };
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t j = (i + 1) % 3, k = (i + 2) % 3;
    parts.push_back(part(a, j) * part(b, k) - part(a, k) * part(b, j));
  }
  return stack(parts, along);
}

}  // namespace

Tensor cross(const Tensor& self, const Tensor& other, std::optional<int64_t> dim) {
  check_defined("cross", self, other);
  if (dim) return cross_along("cross", self, other, *dim);
  for (int d = 0; d < self.dim(); ++d)
    if (self.size(d) == 3) return cross_along("cross", self, other, d);
  fail("cross: no dimension of size 3 in an input of shape ", self.sizes());
}

Tensor linalg::cross(const Tensor& input, const Tensor& other, int64_t dim) {
  check_defined("linalg.cross", input, other);
  return cross_along("linalg.cross", input, other, dim);
}

namespace {

void check_weights(std::string_view name, const Tensor& weights, int64_t count) {
  check(weights.dim() <= 1, "cov: expected ", name,
        " to have one or fewer dimensions but got shape ", weights.sizes());
  check(weights.numel() == count, "cov: expected ", name, " to have the same numel as there are ",
        "observations in the input but got ", weights.numel(), " != ", count);
  check(weights.is_meta() || !any(weights < 0).item<bool>(), "cov: ", name,
        " must not be negative");
}

}  // namespace

Tensor cov(const Tensor& self, int64_t correction) { return cov(self, correction, {}, {}); }

Tensor cov(const Tensor& self, int64_t correction, const Tensor& fweights, const Tensor& aweights) {
  check(self.defined() && self.dim() <= 2,
        "cov: expected input to have two or fewer dimensions but got ",
        self.defined() ? self.dim() : 0);
  check(self.dtype() != kBool, "cov: bool dtype is not supported for input");
  const bool integers = !self.is_floating_point() && !self.is_complex();
  const Tensor x = integers ? to(self, default_dtype()) : self;
  const Tensor rows = x.dim() < 2 ? reshape(x, {1, x.numel()}) : x;
  const int64_t count = rows.size(1);
  Tensor weights;
  if (fweights.defined()) {
    check_weights("fweights", fweights, count);
    check(!fweights.is_floating_point() && fweights.dtype() != kBool,
          "cov: expected fweights to have integral dtype but got ", fweights.dtype());
    weights = fweights;
  }
  if (aweights.defined()) {
    check_weights("aweights", aweights, count);
    check(aweights.is_floating_point(),
          "cov: expected aweights to have floating point dtype but got ", aweights.dtype());
    weights = weights.defined() ? fweights * aweights : aweights;
  }
  if (weights.defined()) weights = reshape(to(weights, real_dtype(rows.dtype())), {count});
  const TensorOptions like{.dtype = real_dtype(rows.dtype()), .device = rows.device()};
  const Tensor total =
      weights.defined() ? sum(weights) : full({}, static_cast<double>(count), like);
  const Tensor average = sum(weights.defined() ? rows * weights : rows, {1}, true) / total;
  // The weights of the squares, with aweights, correct for how unequal they are.
  Tensor norm = total - correction;
  if (aweights.defined() && correction != 0)
    norm = total -
           correction * sum(weights * reshape(to(aweights, like.dtype.value()), {count})) / total;
  const Tensor centred = rows - average;
  const Tensor turned = mT(weights.defined() ? centred * weights : centred);
  const Tensor product = matmul(centred, turned.is_complex() ? conj(turned) : turned);
  const Tensor result = product / clamp_min(norm, 0);
  return rows.size(0) == 1 ? reshape(result, {}) : result;
}

Tensor corrcoef(const Tensor& self) {
  check(self.defined() && self.dim() <= 2,
        "corrcoef: expected input to have two or fewer dimensions but got ",
        self.defined() ? self.dim() : 0);
  const Tensor c = called_as("corrcoef", [&]() { return cov(self); });
  if (c.dim() == 0) return c / c;
  const Tensor deviation = sqrt(c.is_complex() ? real(diagonal(c)) : diagonal(c));
  const Tensor result = c / unsqueeze(deviation, 1) / unsqueeze(deviation, 0);
  return result.is_complex() ? result : clamp(result, -1, 1);
}

}  // namespace tensora
