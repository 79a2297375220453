#include "tensora/sparse/sparse_tensor.h"

#include "tensora/base/error_kinds.h"
#include "tensora/ops.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/sparse/csr_transpose.h"
#include "tensora/ops/sparse/flat_indices.h"

namespace tensora::sparse {
namespace {

int sparse_dim_of(const SparseTensor& tensor, int64_t dim, std::string_view op) {
  const int64_t wrapped = dim < 0 ? dim + tensor.dim() : dim;
  check_as<IndexError>(wrapped >= 0 && wrapped < tensor.dim(), op,
                       ": Dimension out of range (expected to be in range of [", -tensor.dim(),
                       ", ", tensor.dim() - 1, "], but got ", dim, ")");
  check(wrapped < tensor.sparse_dim(), op, ": transposed dimensions must be sparse, got dim ", dim,
        " of a tensor of ", tensor.sparse_dim(), " sparse dims");
  return static_cast<int>(wrapped);
}

}  // namespace

SparseTensor SparseTensor::from_coo(Tensor indices, Tensor values, const Shape& sizes,
                                    bool is_coalesced) {
  SparseTensor result;
  result.sizes_ = sizes;
  result.distinct_ = is_coalesced;
  result.indices_ = std::move(indices);
  result.values_ = std::move(values);
  return result;
}

SparseTensor SparseTensor::from_csr(Tensor crow_indices, Tensor col_indices, Tensor values,
                                    const Shape& sizes, bool is_sorted) {
  SparseTensor result;
  result.sizes_ = sizes;
  result.layout_ = SparseLayout::csr;
  result.distinct_ = is_sorted;
  result.crow_ = std::move(crow_indices);
  result.col_ = std::move(col_indices);
  result.values_ = std::move(values);
  return result;
}

// ---- parts
// ---------------------------------------------------------------------------------------

int64_t SparseTensor::size(int64_t dim) const {
  const int64_t wrapped = dim < 0 ? dim + this->dim() : dim;
  check_as<IndexError>(wrapped >= 0 && wrapped < this->dim(), "size: dim ", dim,
                       " is out of range for a sparse tensor of ", this->dim(), " dims");
  return sizes_[static_cast<int>(wrapped)];
}

int64_t SparseTensor::sparse_dim() const { return is_sparse_csr() ? 2 : indices_.size(0); }

bool SparseTensor::is_coalesced() const {
  check(is_sparse(), "is_coalesced expected sparse coordinate tensor layout but got SparseCsr");
  return distinct_;
}

Tensor SparseTensor::indices() const {
  check(is_sparse(), "indices expected sparse coordinate tensor layout but got SparseCsr");
  check(distinct_, "Cannot get indices on an uncoalesced tensor, please call .coalesce() first");
  return indices_;
}

Tensor SparseTensor::values() const {
  check(is_sparse_csr() || distinct_,
        "Cannot get values on an uncoalesced tensor, please call .coalesce() first");
  return values_;
}

Tensor SparseTensor::_indices() const {
  if (is_sparse()) return indices_;
  return stack({csr_row_indices(crow_, _nnz()), col_});
}

Tensor SparseTensor::crow_indices() const {
  check(is_sparse_csr(),
        "crow_indices expected sparse row compressed tensor layout but got SparseCOO");
  return crow_;
}

Tensor SparseTensor::col_indices() const {
  check(is_sparse_csr(),
        "col_indices expected sparse row compressed tensor layout but got SparseCOO");
  return col_;
}

// ---- conversions
// ---------------------------------------------------------------------------------

SparseTensor SparseTensor::coalesce() const {
  if (distinct_) return *this;
  if (is_sparse_csr()) return to_sparse().coalesce().to_sparse_csr();
  return called_as("coalesce", [&] {
    const Shape sizes = leading(sizes_, sparse_dim());
    const auto [positions, inverse, counts] = unique(flat_indices(indices_, sizes), true, true);
    return from_coo(indices_of(positions, sizes), sums_at(values_, inverse, positions.numel()),
                    sizes_, true);
  });
}

Tensor SparseTensor::to_dense() const {
  return called_as("to_dense", [&] {
    const Tensor positions = flat_indices(_indices(), sizes_);
    return reshape(sums_at(values_, positions, leading_numel(sizes_, sparse_dim())), sizes_);
  });
}

SparseTensor SparseTensor::to_sparse() const {
  if (is_sparse()) return *this;
  return from_coo(_indices(), values_, sizes_, distinct_);
}

SparseTensor SparseTensor::to_sparse_csr() const {
  if (is_sparse_csr()) return *this;
  check(dim() == 2 && sparse_dim() == 2,
        "to_sparse_csr: expected a matrix of two sparse dims, got ", sparse_dim(), " sparse and ",
        dense_dim(), " dense dims");
  return called_as("to_sparse_csr", [&] {
    const SparseTensor whole = coalesce();
    const Tensor rows = arange(sizes_[0] + 1, {.dtype = kInt64, .device = device()});
    return from_csr(searchsorted(select(whole.indices_, 0, 0), rows),
                    contiguous(select(whole.indices_, 0, 1)), whole.values_, sizes_, true);
  });
}

SparseTensor SparseTensor::to(Device device) const {
  const auto move = [&](const Tensor& part) {
    return part.defined() ? tensora::to(part, device) : part;
  };
  SparseTensor result = with_values(move(values_));
  result.indices_ = move(indices_);
  result.crow_ = move(crow_);
  result.col_ = move(col_);
  return result;
}

SparseTensor SparseTensor::to(DType dtype) const {
  return with_values(tensora::to(values_, dtype));
}

SparseTensor SparseTensor::with_values(Tensor values) const {
  SparseTensor result = *this;
  result.values_ = std::move(values);
  return result;
}

SparseTensor SparseTensor::clone() const {
  const auto copy = [](const Tensor& part) { return part.defined() ? tensora::clone(part) : part; };
  SparseTensor result = with_values(copy(values_));
  result.indices_ = copy(indices_);
  result.crow_ = copy(crow_);
  result.col_ = copy(col_);
  return result;
}

const SparseTensor& SparseTensor::requires_grad_(bool value) const {
  values_.requires_grad_(value);
  return *this;
}

SparseTensor SparseTensor::grad() const {
  const Tensor gradient = values_.grad();
  if (!gradient.defined()) return {};
  if (distinct_) return with_values(gradient);
  // Entries of one place have one gradient, that of their sum.
  const SparseTensor coo = to_sparse();
  const Shape sizes = leading(sizes_, sparse_dim());
  const auto [positions, inverse, counts] = unique(flat_indices(coo.indices_, sizes), true, true);
  Shape shape = gradient.sizes();
  shape[0] = positions.numel();
  const Tensor none = zeros(shape, {.dtype = gradient.dtype(), .device = gradient.device()});
  const SparseTensor whole =
      from_coo(indices_of(positions, sizes), index_copy(none, 0, inverse, gradient), sizes_, true);
  return is_sparse() ? whole : whole.to_sparse_csr();
}

SparseTensor SparseTensor::t() const {
  check(dim() <= 2 && sparse_dim() <= 2 && dense_dim() == 0,
        "t: expected a tensor of at most 2 sparse dims and no dense one, got shape ", sizes_);
  return dim() < 2 ? *this : transpose(0, 1);
}

SparseTensor SparseTensor::transpose(int64_t dim0, int64_t dim1) const {
  const int a = sparse_dim_of(*this, dim0, "transpose"),
            b = sparse_dim_of(*this, dim1, "transpose");
  if (a == b) return *this;
  Shape sizes = sizes_;
  std::swap(sizes[a], sizes[b]);
  if (is_sparse_csr()) {
    const auto [crow, col, order] = csr_transpose(crow_, col_, sizes_[1]);
    return from_csr(crow, col, index_select(values_, 0, order), sizes, distinct_);
  }
  std::vector<int64_t> order(static_cast<size_t>(sparse_dim()));
  for (size_t d = 0; d < order.size(); ++d) order[d] = static_cast<int64_t>(d);
  std::swap(order[static_cast<size_t>(a)], order[static_cast<size_t>(b)]);
  const Tensor rows = tensor(order, {.dtype = kInt64, .device = device()});
  return from_coo(index_select(indices_, 0, rows), values_, sizes, _nnz() < 2 && distinct_);
}

// ---- of dense tensors
// ----------------------------------------------------------------------------

SparseTensor to_sparse(const Tensor& self, std::optional<int64_t> sparse_dim) {
  return called_as("to_sparse", [&] {
    const int64_t count = sparse_dim.value_or(self.dim());
    check(count >= (self.dim() > 0 ? 1 : 0) && count <= self.dim(),
          "sparse_dim must be at least 1 and at most the number of dims, ", self.dim(), ", got ",
          count);
    Tensor mask = ne(self.detach(), 0);
    if (count < self.dim()) mask = any(flatten(mask, count), -1);
    const Tensor indices = contiguous(transpose(nonzero(mask), 0, 1));
    return SparseTensor::from_coo(indices, elements_at(self, indices), self.sizes(), true);
  });
}

SparseTensor to_sparse_csr(const Tensor& self) { return to_sparse(self).to_sparse_csr(); }

SparseTensor sparse_mask(const Tensor& self, const SparseTensor& mask) {
  check(self.sizes() == mask.sizes(),
        "sparse_mask: operands have incompatible sizes; self has size ", self.sizes(),
        " but mask has size ", mask.sizes());
  return mask.with_values(elements_at(self, mask._indices()));
}

}  // namespace tensora::sparse
