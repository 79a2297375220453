#include "tensora/sparse/elementwise.h"

#include <limits>

#include "tensora/ops.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/sparse/flat_indices.h"

namespace tensora::sparse {
namespace {

template <class Function>
SparseTensor of_entries(const SparseTensor& self, const Function& function) {
  const SparseTensor whole = self.coalesce();
  return whole.with_values(function(whole._values()));
}

SparseTensor in_layout_of(const SparseTensor& like, const SparseTensor& coo) {
  return like.is_sparse_csr() ? coo.to_sparse_csr() : coo;
}

void check_same_sizes(const SparseTensor& self, const Shape& other, std::string_view op) {
  check(self.sizes() == other, op, ": expected sizes of 'self' and 'other' to match, but ",
        self.sizes(), " != ", other);
}

// A dense tensor that broadcasts to the shape of `self`, at its entries.
Tensor at_entries(const Tensor& dense, const SparseTensor& self, std::string_view op) {
  check(broadcast_shapes(dense.sizes(), self.sizes(), op) == self.sizes(), op,
        ": a dense tensor of shape ", dense.sizes(), " does not broadcast to the sparse one's, ",
        self.sizes());
  Shape sizes = Shape::filled(static_cast<int>(self.dim() - dense.dim()), 1);
  for (int64_t size : dense.sizes()) sizes.push_back(size);
  return elements_at(reshape(dense, sizes), self._indices());
}

// Values with the dtype of a sum or product of the two.
std::pair<Tensor, Tensor> in_one_dtype(const Tensor& a, const Tensor& b) {
  const DType dtype = promote_types(a.dtype(), b.dtype());
  return {to(a, dtype), to(b, dtype)};
}

Tensor values_as(const SparseTensor& self, std::optional<DType> dtype) {
  return dtype ? to(self._values(), *dtype) : self._values();
}

}  // namespace

SparseTensor abs(const SparseTensor& self) {
  return of_entries(self, [](const Tensor& x) { return tensora::abs(x); });
}
SparseTensor asin(const SparseTensor& self) {
  return of_entries(self, [](const Tensor& x) { return tensora::asin(x); });
}
SparseTensor asinh(const SparseTensor& self) {
  return of_entries(self, [](const Tensor& x) { return tensora::asinh(x); });
}
SparseTensor atan(const SparseTensor& self) {
  return of_entries(self, [](const Tensor& x) { return tensora::atan(x); });
}
SparseTensor atanh(const SparseTensor& self) {
  return of_entries(self, [](const Tensor& x) { return tensora::atanh(x); });
}
SparseTensor ceil(const SparseTensor& self) {
  return of_entries(self, [](const Tensor& x) { return tensora::ceil(x); });
}
SparseTensor deg2rad(const SparseTensor& self) {
  return self.with_values(tensora::deg2rad(self._values()));
}
SparseTensor erf(const SparseTensor& self) {
  return of_entries(self, [](const Tensor& x) { return tensora::erf(x); });
}
SparseTensor erfinv(const SparseTensor& self) {
  return of_entries(self, [](const Tensor& x) { return tensora::erfinv(x); });
}
SparseTensor expm1(const SparseTensor& self) {
  return of_entries(self, [](const Tensor& x) { return tensora::expm1(x); });
}
SparseTensor floor(const SparseTensor& self) {
  return of_entries(self, [](const Tensor& x) { return tensora::floor(x); });
}
SparseTensor frac(const SparseTensor& self) {
  return of_entries(self, [](const Tensor& x) { return tensora::frac(x); });
}
SparseTensor isinf(const SparseTensor& self) {
  return of_entries(self, [](const Tensor& x) { return tensora::isinf(x); });
}
SparseTensor isnan(const SparseTensor& self) {
  return of_entries(self, [](const Tensor& x) { return tensora::isnan(x); });
}
SparseTensor log1p(const SparseTensor& self) {
  return of_entries(self, [](const Tensor& x) { return tensora::log1p(x); });
}
SparseTensor neg(const SparseTensor& self) {
  return self.with_values(tensora::neg(self._values()));
}
SparseTensor rad2deg(const SparseTensor& self) {
  return self.with_values(tensora::rad2deg(self._values()));
}
SparseTensor relu(const SparseTensor& self) {
  return of_entries(self, [](const Tensor& x) { return tensora::relu(x); });
}
SparseTensor round(const SparseTensor& self) {
  return of_entries(self, [](const Tensor& x) { return tensora::round(x); });
}
SparseTensor sgn(const SparseTensor& self) {
  return of_entries(self, [](const Tensor& x) { return tensora::sgn(x); });
}
SparseTensor sign(const SparseTensor& self) {
  return of_entries(self, [](const Tensor& x) { return tensora::sign(x); });
}
SparseTensor sin(const SparseTensor& self) {
  return of_entries(self, [](const Tensor& x) { return tensora::sin(x); });
}
SparseTensor sinh(const SparseTensor& self) {
  return of_entries(self, [](const Tensor& x) { return tensora::sinh(x); });
}
SparseTensor sqrt(const SparseTensor& self) {
  return of_entries(self, [](const Tensor& x) { return tensora::sqrt(x); });
}
SparseTensor square(const SparseTensor& self) {
  return of_entries(self, [](const Tensor& x) { return tensora::square(x); });
}
SparseTensor tan(const SparseTensor& self) {
  return of_entries(self, [](const Tensor& x) { return tensora::tan(x); });
}
SparseTensor tanh(const SparseTensor& self) {
  return of_entries(self, [](const Tensor& x) { return tensora::tanh(x); });
}
SparseTensor trunc(const SparseTensor& self) {
  return of_entries(self, [](const Tensor& x) { return tensora::trunc(x); });
}
SparseTensor pow(const SparseTensor& self, double exponent) {
  check(exponent > 0, "pow: the exponent of a sparse tensor must be greater than 0, got ",
        exponent);
  return of_entries(self, [&](const Tensor& x) { return tensora::pow(x, exponent); });
}

// ---- products, quotients, sums
// -------------------------------------------------------------------

SparseTensor mul(const SparseTensor& self, Scalar other) {
  return self.with_values(self._values() * other);
}

SparseTensor mul(const SparseTensor& self, const Tensor& other) {
  if (other.dim() == 0) return self.with_values(self._values() * other);
  return self.with_values(self._values() * at_entries(other, self, "mul"));
}

SparseTensor mul(const SparseTensor& self, const SparseTensor& other) {
  check_same_sizes(self, other.sizes(), "mul");
  check(self.sparse_dim() == other.sparse_dim(), "mul: expected ", self.sparse_dim(),
        " sparse dims, got ", other.sparse_dim());
  return called_as("mul", [&] {
    const SparseTensor a = self.coalesce().to_sparse(), b = other.coalesce().to_sparse();
    if (b._nnz() == 0) {  // none is shared, and there is nothing to search in
      const auto [left, right] = in_one_dtype(slice(a._values(), 0, 0, 0), b._values());
      return in_layout_of(self, SparseTensor::from_coo(slice(a._indices(), 1, 0, 0), left * right,
                                                       self.sizes(), true));
    }
    const Tensor wanted = flat_indices(a._indices(), self.sizes());
    const Tensor there = flat_indices(b._indices(), self.sizes());
    const Tensor found = clamp_max(searchsorted(there, wanted), b._nnz() - 1);
    const Tensor shared = squeeze(nonzero(eq(index_select(there, 0, found), wanted)), 1);
    const Tensor values = index_select(a._values(), 0, shared) *
                          index_select(b._values(), 0, index_select(found, 0, shared));
    return in_layout_of(self, SparseTensor::from_coo(index_select(a._indices(), 1, shared), values,
                                                     self.sizes(), true));
  });
}

SparseTensor div(const SparseTensor& self, Scalar other) {
  return self.with_values(self._values() / other);
}

SparseTensor div(const SparseTensor& self, const Tensor& other) {
  if (other.dim() == 0) return self.with_values(self._values() / other);
  return self.with_values(self._values() / at_entries(other, self, "div"));
}

SparseTensor add(const SparseTensor& self, const SparseTensor& other, Scalar alpha) {
  check_same_sizes(self, other.sizes(), "add");
  check(self.sparse_dim() == other.sparse_dim(), "add: expected ", self.sparse_dim(),
        " sparse dims, got ", other.sparse_dim());
  return called_as("add", [&] {
    const auto [left, right] = in_one_dtype(self._values(), other._values());
    const Tensor scaled = alpha == Scalar(1) ? right : right * alpha;
    return in_layout_of(self, SparseTensor::from_coo(cat({self._indices(), other._indices()}, 1),
                                                     cat({left, scaled}), self.sizes(), false)
                                  .coalesce());
  });
}

SparseTensor sub(const SparseTensor& self, const SparseTensor& other, Scalar alpha) {
  return add(self, neg(other), alpha);
}

Tensor add(const Tensor& self, const SparseTensor& other, Scalar alpha) {
  check(broadcast_shapes(self.sizes(), other.sizes(), "add") == other.sizes(),
        "add: a dense tensor of shape ", self.sizes(), " does not broadcast to the sparse one's, ",
        other.sizes());
  return called_as("add", [&] {
    const auto [dense, values] = in_one_dtype(self, other._values());
    Shape rows = values.sizes();
    rows[0] = leading_numel(other.sizes(), other.sparse_dim());
    const Tensor flat = reshape(expand(dense, other.sizes()), rows);
    const Tensor positions = flat_indices(other._indices(), other.sizes());
    return reshape(index_add(flat, 0, positions, values, alpha), other.sizes());
  });
}

Tensor sub(const Tensor& self, const SparseTensor& other, Scalar alpha) {
  return add(self, neg(other), alpha);
}

Tensor sum(const SparseTensor& self, std::optional<DType> dtype) {
  return tensora::sum(values_as(self, dtype));
}

SparseTensor sum(const SparseTensor& self, const Dims& dim, std::optional<DType> dtype) {
  return called_as("sum", [&] {
    Dims dense;
    std::vector<bool> summed(static_cast<size_t>(self.dim()));
    for (int64_t d : dim) {
      const int64_t wrapped = d < 0 ? d + self.dim() : d;
      check(wrapped >= 0 && wrapped < self.dim(), "dim ", d, " is out of range for ", self.dim(),
            " dims");
      check(!summed[static_cast<size_t>(wrapped)], "dim ", d, " appears twice");
      summed[static_cast<size_t>(wrapped)] = true;
      if (wrapped >= self.sparse_dim()) dense.push_back(wrapped - self.sparse_dim() + 1);
    }
    std::vector<int64_t> kept;
    Shape sizes;
    for (int64_t d = 0; d < self.dim(); ++d) {
      if (summed[static_cast<size_t>(d)]) continue;
      if (d < self.sparse_dim()) kept.push_back(d);
      sizes.push_back(self.size(d));
    }
    check(!kept.empty() || self.sparse_dim() == 0,
          "all sparse dims are summed over; sum_to_dense gives the dense result");
    const Tensor all = values_as(self, dtype);
    const Tensor values = dense.empty() ? all : tensora::sum(all, dense);
    const bool same = static_cast<int64_t>(kept.size()) == self.sparse_dim();
    const Tensor rows = tensor(kept, {.dtype = kInt64, .device = self.device()});
    return SparseTensor::from_coo(index_select(self._indices(), 0, rows), values, sizes,
                                  same && self.has_distinct_entries())
        .coalesce();
  });
}

Tensor sum_to_dense(const SparseTensor& self, std::optional<DType> dtype) {
  return tensora::sum(values_as(self, dtype), {0});
}

// ---- softmax
// -------------------------------------------------------------------------------------

namespace {

template <class Finish>
SparseTensor over_entries(const SparseTensor& self, int64_t dim, std::optional<DType> dtype,
                          std::string_view op, const Finish& finish) {
  check(self.sparse_dim() == 2 && self.dense_dim() == 0, op, ": expected a sparse matrix, got ",
        self.sparse_dim(), " sparse and ", self.dense_dim(), " dense dims");
  check(dim >= -2 && dim < 2, op, ": expected dim -2 to 1, got ", dim);
  return called_as(op, [&] {
    const SparseTensor whole = self.coalesce();
    const Tensor values = values_as(whole, dtype);
    const int64_t kept = 1 - (dim + 2) % 2;
    const Tensor group = select(whole._indices(), 0, kept);
    const TensorOptions options{.dtype = values.dtype(), .device = values.device()};
    const Tensor lowest =
        full({whole.size(kept)}, -std::numeric_limits<double>::infinity(), options);
    const Tensor most = index_reduce(lowest, 0, group, values.detach(), "amax");
    const Tensor shifted = values - index_select(most, 0, group);
    const Tensor total = index_add(zeros({whole.size(kept)}, options), 0, group, exp(shifted));
    return whole.with_values(finish(shifted, index_select(total, 0, group)));
  });
}

}  // namespace

SparseTensor softmax(const SparseTensor& self, int64_t dim, std::optional<DType> dtype) {
  return over_entries(self, dim, dtype, "softmax",
                      [](const Tensor& x, const Tensor& total) { return exp(x) / total; });
}

SparseTensor log_softmax(const SparseTensor& self, int64_t dim, std::optional<DType> dtype) {
  return over_entries(self, dim, dtype, "log_softmax",
                      [](const Tensor& x, const Tensor& total) { return x - log(total); });
}

}  // namespace tensora::sparse
