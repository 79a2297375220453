#include "tensora/sparse/products.h"

#include "tensora/ops.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/sparse/csr_matmul.h"
#include "tensora/ops/sparse/csr_transpose.h"
#include "tensora/ops/sparse/flat_indices.h"

namespace tensora::sparse {
namespace {

struct Csr {
  Tensor crow, col, values;
};

Tensor counting(int64_t count, const Tensor& like) {
  return arange(count, {.dtype = kInt64, .device = like.device()});
}

// The entries by rows. Those of an uncoalesced tensor are sorted by row alone.
Csr by_rows(const SparseTensor& matrix) {
  if (matrix.is_sparse_csr())
    return {matrix.crow_indices(), matrix.col_indices(), matrix._values()};
  const Tensor indices = matrix._indices(), values = matrix._values();
  const Tensor rows = contiguous(select(indices, 0, 0)), columns = select(indices, 0, 1);
  if (matrix.is_coalesced())
    return {searchsorted(rows, counting(matrix.size(0) + 1, rows)), contiguous(columns), values};
  // As the transpose of a matrix with one entry in each row, at the column `rows[i]`.
  const auto [crow, order, same] =
      csr_transpose(counting(rows.numel() + 1, rows), rows, matrix.size(0));
  return {crow, index_select(columns, 0, order), index_select(values, 0, order)};
}

void check_matrix(const SparseTensor& matrix, std::string_view op) {
  check(matrix.defined(), op, ": the sparse matrix is undefined");
  check(matrix.sparse_dim() == 2 && matrix.dense_dim() == 0, op,
        ": expected a sparse matrix, got a tensor of ", matrix.sparse_dim(), " sparse and ",
        matrix.dense_dim(), " dense dims");
}

void check_fits(bool fits, const Shape& left, const Shape& right, std::string_view op) {
  check(fits, op, ": mat1 and mat2 shapes cannot be multiplied (", left, " and ", right, ")");
}

Tensor product(const SparseTensor& left, const Tensor& right, std::string_view op) {
  check_matrix(left, op);
  check(right.dim() == 1 || right.dim() == 2, op, ": expected a dense matrix or vector, got shape ",
        right.sizes());
  check_fits(left.size(1) == right.size(0), left.sizes(), right.sizes(), op);
  return called_as(op, [&] {
    const DType dtype = promote_types(left.dtype(), right.dtype());
    const Csr entries = by_rows(left);
    const Tensor dense = to(right.dim() == 1 ? unsqueeze(right, 1) : right, dtype);
    const Tensor out = csr_matmul(entries.crow, entries.col, to(entries.values, dtype), dense);
    return right.dim() == 1 ? squeeze(out, 1) : out;
  });
}

Tensor product(const Tensor& left, const SparseTensor& right, std::string_view op) {
  check_matrix(right, op);
  check(left.dim() == 1 || left.dim() == 2, op, ": expected a dense matrix or vector, got shape ",
        left.sizes());
  check_fits(left.size(-1) == right.size(0), left.sizes(), right.sizes(), op);
  if (left.dim() == 1) return product(right.t(), left, op);
  return transpose(product(right.t(), transpose(left, 0, 1), op), 0, 1);
}

// Where the entries of some rows begin and end. Those of a COO tensor are searched for: a tensor of
// crow_indices would be as large as the matrix is high.
std::pair<Tensor, Tensor> rows_of(const SparseTensor& matrix, const Tensor& rows) {
  if (matrix.is_sparse_csr()) {
    const Tensor crow = matrix.crow_indices();
    return {index_select(crow, 0, rows), index_select(crow, 0, rows + 1)};
  }
  const Tensor all = contiguous(select(matrix._indices(), 0, 0));
  return {searchsorted(all, rows), searchsorted(all, rows, false, true)};
}

// Each entry (i, k) of the left matrix meets all entries of row k of the right one.
SparseTensor product(const SparseTensor& left, const SparseTensor& right, std::string_view op) {
  check_matrix(left, op);
  check_matrix(right, op);
  check_fits(left.size(1) == right.size(0), left.sizes(), right.sizes(), op);
  return called_as(op, [&] {
    const Tensor indices = left._indices(), inner = contiguous(select(indices, 0, 1));
    const SparseTensor rows = right.is_sparse_csr() ? right : right.coalesce();
    const auto [begins, ends] = rows_of(rows, inner);
    const Tensor counts = ends - begins;
    // For each product its entry on the left, and its number among those of that entry.
    const Tensor entry = repeat_interleave(counting(left._nnz(), inner), counts);
    const Tensor number =
        counting(entry.numel(), inner) - index_select(cumsum(counts, 0) - counts, 0, entry);
    const Tensor other = index_select(begins, 0, entry) + number;
    const Tensor values =
        index_select(left._values(), 0, entry) * index_select(rows._values(), 0, other);
    const Tensor columns =
        rows.is_sparse_csr() ? rows.col_indices() : select(rows._indices(), 0, 1);
    const Tensor places =
        stack({index_select(select(indices, 0, 0), 0, entry), index_select(columns, 0, other)});
    const auto all =
        SparseTensor::from_coo(places, values, {left.size(0), right.size(1)}, false).coalesce();
    return left.is_sparse_csr() ? all.to_sparse_csr() : all;
  });
}

}  // namespace

Tensor mm(const SparseTensor& self, const Tensor& mat2) { return product(self, mat2, "mm"); }
Tensor mm(const Tensor& self, const SparseTensor& mat2) { return product(self, mat2, "mm"); }
SparseTensor mm(const SparseTensor& self, const SparseTensor& mat2) {
  return product(self, mat2, "mm");
}
Tensor mv(const SparseTensor& self, const Tensor& vec) {
  check(vec.dim() == 1, "mv: expected a vector, got shape ", vec.sizes());
  return product(self, vec, "mv");
}
Tensor matmul(const SparseTensor& self, const Tensor& other) {
  return product(self, other, "matmul");
}
Tensor matmul(const Tensor& self, const SparseTensor& other) {
  return product(self, other, "matmul");
}
SparseTensor matmul(const SparseTensor& self, const SparseTensor& other) {
  return product(self, other, "matmul");
}

Tensor addmm(const Tensor& self, const SparseTensor& mat1, const Tensor& mat2, Scalar beta,
             Scalar alpha) {
  check(mat2.dim() == 2, "addmm: mat2 must be a matrix, got shape ", mat2.sizes());
  const Tensor scaled = product(mat1, mat2, "addmm") * alpha;
  return beta == Scalar(0) ? scaled : self * beta + scaled;  // where beta is 0, NaN does not count
}

SparseTensor sampled_addmm(const SparseTensor& self, const Tensor& mat1, const Tensor& mat2,
                           Scalar beta, Scalar alpha) {
  check_matrix(self, "sampled_addmm");
  check(mat1.dim() == 2 && mat2.dim() == 2, "sampled_addmm: expected matrices, got shapes ",
        mat1.sizes(), " and ", mat2.sizes());
  check_fits(mat1.size(1) == mat2.size(0), mat1.sizes(), mat2.sizes(), "sampled_addmm");
  check(self.sizes() == Shape{mat1.size(0), mat2.size(1)}, "sampled_addmm: self must have shape [",
        mat1.size(0), ", ", mat2.size(1), "], got ", self.sizes());
  return called_as("sampled_addmm", [&] {
    const SparseTensor whole = self.coalesce();
    const Csr entries = by_rows(whole);
    const Tensor products =
        csr_sampled_matmul(entries.crow, entries.col, mat1, transpose(mat2, 0, 1)) * alpha;
    return whole.with_values(beta == Scalar(0) ? products : entries.values * beta + products);
  });
}

}  // namespace tensora::sparse
