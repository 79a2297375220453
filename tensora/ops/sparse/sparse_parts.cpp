// Registers nothing: helpers of sparse tensors.
#include "tensora/ops/sparse/sparse_parts.h"

#include "tensora/ops.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/sparse/flat_indices.h"

namespace tensora {

Tensor densified(const Tensor& sparse) {
  const SparseParts& parts = *sparse_parts(sparse);
  const int64_t rows = leading_numel(sparse.sizes(), parts.indices.size(0));
  const Tensor positions = flat_indices(parts.indices, sparse.sizes());
  return reshape(sums_at(parts.values, positions, rows), sparse.sizes());
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
      {indices_of(positions, sizes), sums_at(parts.values, inverse, positions.numel()), true},
      sparse.sizes());
}

}  // namespace tensora
