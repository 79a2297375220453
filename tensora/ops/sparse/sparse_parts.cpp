// Registers nothing: helpers of sparse tensors.
#include "tensora/ops/sparse/sparse_parts.h"

#include "tensora/ops.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/sparse/flat_indices.h"

namespace tensora {
namespace {

// The sums of the values that belong to each of the first `count` positions.
Tensor sums_of(const SparseParts& parts, const Tensor& positions, int64_t count) {
  Shape sizes = parts.values.sizes();
  sizes[0] = count;
  const TensorOptions options{.dtype = parts.values.dtype(), .device = parts.values.device()};
  return index_add(zeros(sizes, options), 0, positions, parts.values);
}

}  // namespace

Tensor densified(const Tensor& sparse) {
  const SparseParts& parts = *sparse_parts(sparse);
  const int64_t rows = leading_numel(sparse.sizes(), parts.indices.size(0));
  const Tensor positions = flat_indices(parts.indices, sparse.sizes());
  return reshape(sums_of(parts, positions, rows), sparse.sizes());
}

Tensor joined_entries(const Tensor& a, const Tensor& b) {
  const SparseParts &first = *sparse_parts(a), &second = *sparse_parts(b);
  if (first.indices.size(0) != second.indices.size(0)) return add(densified(a), densified(b));
  return make_sparse({cat({first.indices, second.indices}, 1), cat({first.values, second.values})},
                     a.sizes());
}

Tensor coalesced(const Tensor& sparse) {
  const SparseParts& parts = *sparse_parts(sparse);
  if (parts.coalesced) return sparse;
  const Shape sizes = leading(sparse.sizes(), parts.indices.size(0));
  const auto [positions, inverse, counts] =
      unique(flat_indices(parts.indices, sizes), /*sorted=*/true, /*return_inverse=*/true);
  return make_sparse(
      {indices_of(positions, sizes), sums_of(parts, inverse, positions.numel()), true},
      sparse.sizes());
}

}  // namespace tensora
