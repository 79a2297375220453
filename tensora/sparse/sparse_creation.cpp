// The checks of sparse_coo_tensor and sparse_csr_tensor.
#include "tensora/ops.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/sparse/csr_transpose.h"
#include "tensora/ops/sparse/flat_indices.h"
#include "tensora/sparse/sparse_tensor.h"

namespace tensora::sparse {
namespace {

bool holds(const Tensor& condition) { return all(condition).item<bool>(); }

Tensor as_indices(const Tensor& given, Device device, std::string_view op, std::string_view name) {
  check(given.defined(), op, ": ", name, " is undefined");
  check((is_integral(given.dtype()) && given.dtype() != kBool) || given.numel() == 0, op, ": ",
        name, " must be a tensor of integers, got dtype ", given.dtype());
  return contiguous(to(given.detach(), device, kInt64));
}

Tensor as_values(const Tensor& given, const TensorOptions& options, std::string_view op) {
  check(given.defined(), op, ": values is undefined");
  const Tensor values = to(given, TensorOptions{.dtype = options.dtype, .device = options.device});
  return options.requires_grad ? values.detach().requires_grad_() : values;
}

bool may_read(const Tensor& tensor, std::optional<bool> check_invariants) {
  return check_invariants.value_or(true) && !tensor.device().is_meta();
}

// ---- COO
// -----------------------------------------------------------------------------------------

void check_coo_shapes(const Tensor& indices, const Tensor& values) {
  check(indices.dim() == 2,
        "sparse_coo_tensor: indices must be sparse_dim x nnz, but got: ", indices.sizes());
  const int64_t count = values.dim() > 0 ? values.size(0) : 1;
  check(values.dim() > 0 && indices.size(1) == count,
        "sparse_coo_tensor: indices and values must have same nnz, but got nnz from indices: ",
        indices.size(1), ", nnz from values: ", count);
}

void check_coo_size(const Tensor& indices, const Tensor& values, const Shape& size) {
  const int64_t sparse_dim = indices.size(0), dense_dim = values.dim() - 1;
  check(size.size() == sparse_dim + dense_dim,
        "sparse_coo_tensor: 'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = ",
        size.size(), ", sparse_dim = ", sparse_dim, ", dense_dim = ", dense_dim);
  for (int64_t length : size)
    check(length >= 0, "sparse_coo_tensor: sizes must not be negative, got ", size);
  size.numel();  // which throws where positions do not fit into int64
  leading_numel(size, sparse_dim);
  Shape expected{values.size(0)};
  for (int64_t d = sparse_dim; d < size.size(); ++d) expected.push_back(size[static_cast<int>(d)]);
  check(values.sizes() == expected, "sparse_coo_tensor: values has incorrect size, expected ",
        expected, ", got ", values.sizes());
}

void check_within(const Tensor& indices, const Shape& size) {
  if (indices.numel() == 0) return;
  const Tensor lowest = amin(indices, {1}).cpu(), highest = amax(indices, {1}).cpu();
  for (int64_t d = 0; d < indices.size(0); ++d) {
    const auto low = lowest.at<int64_t>({d}), high = highest.at<int64_t>({d});
    check(low >= 0, "sparse_coo_tensor: found negative index ", low, " for dim ", d);
    const int64_t length = size[static_cast<int>(d)];
    check(high < length, "sparse_coo_tensor: size is inconsistent with indices: for dim ", d,
          ", size is ", length, " but found index ", high);
  }
}

bool ascends(const Tensor& positions) {
  const int64_t count = positions.numel();
  return count < 2 || holds(gt(slice(positions, 0, 1), slice(positions, 0, 0, count - 1)));
}

SparseTensor make_coo(const Tensor& indices, const Tensor& values, const Shape& size,
                      std::optional<bool> is_coalesced, std::optional<bool> check_invariants) {
  check_coo_size(indices, values, size);
  if (may_read(indices, check_invariants)) {
    check_within(indices, size);
    check(!is_coalesced.value_or(false) || ascends(flat_indices(indices, size)),
          "sparse_coo_tensor: cannot set is_coalesced to true if indices correspond to uncoalesced "
          "COO tensor");
  }
  return SparseTensor::from_coo(indices, values, size, is_coalesced.value_or(values.size(0) == 0));
}

// ---- CSR
// -----------------------------------------------------------------------------------------

void check_csr_shapes(const Tensor& crow, const Tensor& col, const Tensor& values,
                      const Shape& size) {
  constexpr auto op = "sparse_csr_tensor: ";
  check(size.size() == 2, op,
        "expected a size of 2 dims (batches and dense dims are not supported)"
        ", got ",
        size);
  check(size[0] >= 0 && size[1] >= 0, op, "sizes must not be negative, got ", size);
  size.numel();
  check(crow.size(0) == size[0] + 1, op,
        "crow_indices.shape[-1] must be equal to the number of rows + 1 (=", size[0] + 1,
        "), but got ", crow.size(0));
  check(col.size(0) == values.size(0), op,
        "col_indices.shape[-1] must be equal to nnz (=", values.size(0),
        ") as defined by values.shape[0], but got ", col.size(0));
}

// Whether the columns of every row ascend.
bool check_csr_indices(const Tensor& crow, const Tensor& col, const Shape& size) {
  constexpr auto op = "sparse_csr_tensor: ";
  const int64_t nnz = col.numel(), rows = size[0];
  check(select(crow, 0, 0).item<int64_t>() == 0, op,
        "`crow_indices[..., 0] == 0` is not satisfied.");
  check(select(crow, 0, -1).item<int64_t>() == nnz, op,
        "`crow_indices[..., -1] == nnz` is not satisfied.");
  check(rows == 0 || holds(ge(slice(crow, 0, 1), slice(crow, 0, 0, rows))), op,
        "`0 <= crow_indices[..., 1:] - crow_indices[..., :-1] <= ncols` is not satisfied.");
  check(nnz == 0 || (amin(col).item<int64_t>() >= 0 && amax(col).item<int64_t>() < size[1]), op,
        "`0 <= col_indices < ncols` is not satisfied.");
  return ascends(csr_row_indices(crow, nnz) * size[1] + col);
}

SparseTensor make_csr(const Tensor& crow, const Tensor& col, const Tensor& values,
                      const Shape& size, std::optional<bool> check_invariants) {
  check_csr_shapes(crow, col, values, size);
  bool sorted = col.numel() == 0;
  if (may_read(crow, check_invariants)) {
    sorted = check_csr_indices(crow, col, size);
    check(sorted || !check_invariants.value_or(false),
          "sparse_csr_tensor: `col_indices[..., crow_indices[..., i - 1]:crow_indices[..., i]] for "
          "all i = 1, ..., nrows are sorted and distinct along the last dimension values` is not "
          "satisfied.");
  }
  return SparseTensor::from_csr(crow, col, values, size, sorted);
}

struct CsrParts {
  CsrParts(const Tensor& crow_indices, const Tensor& col_indices, const Tensor& given,
           const TensorOptions& options)
      : values(as_values(given, options, "sparse_csr_tensor")),
        crow(as_indices(crow_indices, values.device(), "sparse_csr_tensor", "crow_indices")),
        col(as_indices(col_indices, values.device(), "sparse_csr_tensor", "col_indices")) {
    check(
        crow.dim() == 1 && col.dim() == 1 && values.dim() == 1,
        "sparse_csr_tensor: crow_indices, col_indices and values must be 1-D (batches of matrices "
        "are not supported), got shapes ",
        crow.sizes(), ", ", col.sizes(), " and ", values.sizes());
    check(crow.size(0) > 0,
          "sparse_csr_tensor: crow_indices must have an element more than there "
          "are rows, got none");
  }

  Tensor values, crow, col;
};

}  // namespace

SparseTensor sparse_coo_tensor(const Tensor& indices, const Tensor& values, const Shape& size,
                               const TensorOptions& options, std::optional<bool> is_coalesced,
                               std::optional<bool> check_invariants) {
  const Tensor entries = as_values(values, options, "sparse_coo_tensor");
  const Tensor places = as_indices(indices, entries.device(), "sparse_coo_tensor", "indices");
  check_coo_shapes(places, entries);
  return make_coo(places, entries, size, is_coalesced, check_invariants);
}

SparseTensor sparse_coo_tensor(const Tensor& indices, const Tensor& values,
                               const TensorOptions& options, std::optional<bool> is_coalesced,
                               std::optional<bool> check_invariants) {
  const Tensor entries = as_values(values, options, "sparse_coo_tensor");
  const Tensor places = as_indices(indices, entries.device(), "sparse_coo_tensor", "indices");
  check_coo_shapes(places, entries);
  Shape size = Shape::filled(static_cast<int>(places.size(0)), 0);
  if (places.numel() > 0) {
    const Tensor highest = amax(places, {1}).cpu();
    // A negative index is reported as such, not as a negative size.
    for (int64_t d = 0; d < places.size(0); ++d)
      size[static_cast<int>(d)] = std::max<int64_t>(highest.at<int64_t>({d}) + 1, 0);
  }
  for (int64_t d = 1; d < entries.dim(); ++d) size.push_back(entries.size(d));
  return make_coo(places, entries, size, is_coalesced, check_invariants);
}

SparseTensor sparse_coo_tensor(const Shape& size, const TensorOptions& options) {
  const Tensor values = zeros({0}, options);
  const Tensor indices = zeros({size.size(), 0}, {.dtype = kInt64, .device = values.device()});
  return make_coo(indices, values, size, true, {});
}

SparseTensor sparse_csr_tensor(const Tensor& crow_indices, const Tensor& col_indices,
                               const Tensor& values, const Shape& size,
                               const TensorOptions& options, std::optional<bool> check_invariants) {
  const CsrParts parts(crow_indices, col_indices, values, options);
  return make_csr(parts.crow, parts.col, parts.values, size, check_invariants);
}

SparseTensor sparse_csr_tensor(const Tensor& crow_indices, const Tensor& col_indices,
                               const Tensor& values, const TensorOptions& options,
                               std::optional<bool> check_invariants) {
  const CsrParts parts(crow_indices, col_indices, values, options);
  const int64_t columns =
      parts.col.numel() > 0 ? std::max<int64_t>(amax(parts.col).item<int64_t>() + 1, 0) : 0;
  return make_csr(parts.crow, parts.col, parts.values, {parts.crow.numel() - 1, columns},
                  check_invariants);
}

}  // namespace tensora::sparse
