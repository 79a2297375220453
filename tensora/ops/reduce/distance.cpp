// Registers nothing: functions of other ops.
#include "tensora/ops/reduce/distance.h"

#include <cmath>

#include "tensora/core/tensor.h"
#include "tensora/dispatch/autocast_call.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/p_norm.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/scan/cumulative.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {
namespace {

// How much each slice of `dim` is to be scaled, with the shape of `self` but for the other dims,
// which have size 1.
Tensor scale_of(const Tensor& self, Scalar p, int64_t dim, Scalar maxnorm) {
  check(is_differentiable(self.dtype()), "renorm: expected a floating-point tensor, got ",
        self.dtype());
  check(p.to<double>() > 0, "renorm: p must be positive, got ", p.to<double>());
  check(maxnorm.to<double>() >= 0, "renorm: maxnorm must not be negative, got ",
        maxnorm.to<double>());
  check(self.dim() > 1, "renorm: expected at least 2 dims, got ", self.dim());
  const int kept = wrap_dim(dim, self.dim(), "renorm");
  Dims others;
  for (int i = 0; i < self.dim(); ++i)
    if (i != kept) others.push_back(i);
  const Tensor length = norm(self, p, others, true);
  // An infinite one limits nothing; its quotient would make NaN of the gradient.
  if (std::isinf(maxnorm.to<double>())) return ones_like(length);
  return where(length > maxnorm, maxnorm / (length + 1e-7), 1.0);
}

// What the points contribute along `dim` from one to the next, times the distance of the points.
Tensor sums_of_neighbours(const Tensor& y, int64_t dim) {
  const int64_t count = y.size(dim);
  return narrow(y, dim, 1, count - 1) + narrow(y, dim, 0, count - 1);
}

Tensor areas(const Tensor& y, const Tensor& x, int64_t dim, std::string_view op) {
  Tensor points = x;
  if (x.dim() == 1 && y.dim() > 1) {  // the same points for all
    check(x.size(0) == y.size(dim), op, ": x has ", x.size(0), " points where y has ", y.size(dim),
          " values");
    Shape sizes;
    for (int i = 0; i < y.dim(); ++i) sizes.push_back(i == wrap_dim(dim, y.dim(), op) ? -1 : 1);
    points = view(x, sizes);
  }
  const int64_t count = points.size(dim);
  const Tensor distances = narrow(points, dim, 1, count - 1) - narrow(points, dim, 0, count - 1);
  return sums_of_neighbours(y, dim) * distances / 2.0;
}

// Bools would be added as such.
void check_numbers(const Tensor& y, std::string_view op) {
  check(y.dim() > 0, op, ": expected y to have at least one dimension");
  check(y.dtype() != kBool, op, ": expected numbers, got a bool tensor");
}

Tensor without(const Tensor& y, int64_t dim) {
  Shape sizes = y.sizes();
  sizes.erase(wrap_dim(dim, y.dim(), "trapezoid"));
  return zeros(sizes, {.dtype = y.dtype(), .device = y.device()});
}

}  // namespace

Tensor dist(const Tensor& self, const Tensor& other, Scalar p) { return norm(self - other, p); }

Tensor renorm(const Tensor& self, Scalar p, int64_t dim, Scalar maxnorm) {
  if (is_autocast_enabled())
    return autocast_call(
        "renorm", {Autocast::as_is, Autocast::full},
        [&](const Tensor& x) { return renorm(x, p, dim, maxnorm); }, self);
  return to(self * scale_of(self, p, dim, maxnorm), self.dtype());
}
const Tensor& renorm_(const Tensor& self, Scalar p, int64_t dim, Scalar maxnorm) {
  return mul_(self, scale_of(self.requires_grad() ? clone(self) : self, p, dim, maxnorm));
}

Tensor trapezoid(const Tensor& y, Scalar dx, int64_t dim) {
  check_numbers(y, "trapezoid");
  if (y.size(dim) == 0) return without(y, dim);
  return sum(sums_of_neighbours(y, dim), {dim}) * dx / 2.0;
}
Tensor trapezoid(const Tensor& y, const Tensor& x, int64_t dim) {
  check_numbers(y, "trapezoid");
  if (y.size(dim) == 0) return without(y, dim);
  return sum(areas(y, x, dim, "trapezoid"), {dim});
}
Tensor cumulative_trapezoid(const Tensor& y, Scalar dx, int64_t dim) {
  check_numbers(y, "cumulative_trapezoid");
  if (y.size(dim) == 0) return y * dx / 2.0;
  return cumsum(sums_of_neighbours(y, dim), dim) * dx / 2.0;
}
Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, int64_t dim) {
  check_numbers(y, "cumulative_trapezoid");
  if (y.size(dim) == 0) return y * x / 2.0;
  return cumsum(areas(y, x, dim, "cumulative_trapezoid"), dim);
}

}  // namespace tensora
