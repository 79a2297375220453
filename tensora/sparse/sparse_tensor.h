#pragma once

#include <iosfwd>
#include <optional>
#include <string>

#include "tensora/core/tensor.h"

namespace tensora::sparse {

enum class SparseLayout : uint8_t { coo, csr };

/// A tensor of which only some elements, its entries, are stored: their indices and their values.
/// All other elements are 0. Copies share both.
///
/// COO: `indices` (sparse_dim nnz) has a column for each entry, `values` (nnz …) its value: a
/// number, or for hybrid tensors a dense tensor of the last `dense_dim` dims. Entries of equal
/// indices are added. CSR: a matrix whose row i has the entries from `crow_indices[i]` to
/// `crow_indices[i + 1]`, at `col_indices`.
///
/// The values are an ordinary tensor: gradients reach it through every function of
/// tensora/sparse.h, and on every device.
class SparseTensor {
 public:
  SparseTensor() = default;
  /// Of parts that are trusted to fit; sparse_coo_tensor and sparse_csr_tensor check theirs.
  static SparseTensor from_coo(Tensor indices, Tensor values, const Shape& sizes,
                               bool is_coalesced);
  static SparseTensor from_csr(Tensor crow_indices, Tensor col_indices, Tensor values,
                               const Shape& sizes, bool is_sorted);

  bool defined() const { return values_.defined(); }
  SparseLayout layout() const { return layout_; }
  bool is_sparse() const { return layout_ == SparseLayout::coo; }
  bool is_sparse_csr() const { return layout_ == SparseLayout::csr; }
  const Shape& sizes() const { return sizes_; }
  /// Negative dims count from the end.
  int64_t size(int64_t dim) const;
  int64_t dim() const { return sizes_.size(); }
  int64_t numel() const { return sizes_.numel(); }
  DType dtype() const { return values_.dtype(); }
  DType scalar_type() const { return dtype(); }
  Device device() const { return values_.device(); }
  int64_t sparse_dim() const;
  int64_t dense_dim() const { return values_.dim() - 1; }
  /// The number of entries.
  int64_t _nnz() const { return values_.size(0); }

  /// Whether the entries are sorted by their indices and no two have the same. COO only.
  bool is_coalesced() const;
  /// The same for both layouts.
  bool has_distinct_entries() const { return distinct_; }
  /// The parts of a coalesced COO tensor, …
  Tensor indices() const;
  /// … or, of the values, of a CSR tensor.
  Tensor values() const;
  /// The same whatever the layout, coalesced or not; a CSR tensor's indices are computed.
  Tensor _indices() const;
  Tensor _values() const { return values_; }
  /// The parts of a CSR tensor.
  Tensor crow_indices() const;
  Tensor col_indices() const;

  /// With sorted entries, each index once: values of equal indices are added.
  SparseTensor coalesce() const;
  Tensor to_dense() const;
  /// As COO.
  SparseTensor to_sparse() const;
  /// As CSR; of two sparse dims and no dense one.
  SparseTensor to_sparse_csr() const;
  SparseTensor to(Device device) const;
  SparseTensor to(DType dtype) const;
  SparseTensor cpu() const { return to(Device("cpu")); }
  SparseTensor cuda() const { return to(Device("cuda")); }
  /// The same entries with other values.
  SparseTensor with_values(Tensor values) const;

  SparseTensor clone() const;
  SparseTensor detach() const { return with_values(values_.detach()); }
  bool requires_grad() const { return values_.requires_grad(); }
  const SparseTensor& requires_grad_(bool value = true) const;
  /// The gradient of the values, as a sparse tensor of the same indices, each once.
  SparseTensor grad() const;

  SparseTensor t() const;
  /// With two sparse dims swapped. COO is not sorted again.
  SparseTensor transpose(int64_t dim0, int64_t dim1) const;
  /// PyTorch's printed form.
  std::string to_string() const;

 private:
  Shape sizes_;
  SparseLayout layout_ = SparseLayout::coo;
  bool distinct_ = true;
  Tensor indices_;  // COO
  Tensor crow_, col_;
  Tensor values_;
};

std::ostream& operator<<(std::ostream& stream, const SparseTensor& tensor);

/// A COO tensor. Without a size, the smallest that holds all indices. `check_invariants` false
/// skips the checks that read the indices: that all are within the size and, with `is_coalesced`,
/// that they are sorted and distinct. (A product or a sum with a wrong index throws or computes
/// nonsense.)
SparseTensor sparse_coo_tensor(const Tensor& indices, const Tensor& values, const Shape& size,
                               const TensorOptions& options = {},
                               std::optional<bool> is_coalesced = {},
                               std::optional<bool> check_invariants = {});
SparseTensor sparse_coo_tensor(const Tensor& indices, const Tensor& values,
                               const TensorOptions& options = {},
                               std::optional<bool> is_coalesced = {},
                               std::optional<bool> check_invariants = {});
/// Without entries.
SparseTensor sparse_coo_tensor(const Shape& size, const TensorOptions& options = {});
/// A CSR matrix. The columns of a row may come in any order and repeat, unless `check_invariants`
/// is true; where it is false, the indices are not read.
SparseTensor sparse_csr_tensor(const Tensor& crow_indices, const Tensor& col_indices,
                               const Tensor& values, const Shape& size,
                               const TensorOptions& options = {},
                               std::optional<bool> check_invariants = {});
SparseTensor sparse_csr_tensor(const Tensor& crow_indices, const Tensor& col_indices,
                               const Tensor& values, const TensorOptions& options = {},
                               std::optional<bool> check_invariants = {});

/// The elements that are not 0; with `sparse_dim`, slices of the first dims that hold such an
/// element.
SparseTensor to_sparse(const Tensor& self, std::optional<int64_t> sparse_dim = {});
SparseTensor to_sparse_csr(const Tensor& self);
/// The elements of a dense tensor at the entries of `mask`.
SparseTensor sparse_mask(const Tensor& self, const SparseTensor& mask);

}  // namespace tensora::sparse

namespace tensora {

using sparse::sparse_coo_tensor;
using sparse::sparse_csr_tensor;
using sparse::SparseTensor;

}  // namespace tensora
