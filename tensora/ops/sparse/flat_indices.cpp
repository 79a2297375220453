// Registers nothing: helpers of sparse tensors.
#include "tensora/ops/sparse/flat_indices.h"

#include "tensora/ops.h"
#include "tensora/ops/operators.h"

namespace tensora {

Tensor flat_indices(const Tensor& indices, const Shape& sizes) {
  Tensor result;
  for (int64_t d = 0; d < indices.size(0); ++d) {
    const int64_t size = sizes[static_cast<int>(d)];
    if (size == 1 && result.defined()) continue;
    const Tensor row = select(indices, 0, d);
    if (size == 1)
      result = zeros_like(row);
    else
      result = result.defined() ? result * size + row : row;
  }
  if (result.defined()) return result;
  return zeros({indices.size(1)}, {.dtype = kInt64, .device = indices.device()});
}

Tensor indices_of(const Tensor& positions, const Shape& sizes) {
  std::vector<Tensor> rows(static_cast<size_t>(sizes.size()));
  Tensor rest = positions;
  for (int d = sizes.size() - 1; d >= 0; --d) {
    const int64_t size = std::max<int64_t>(sizes[d], 1);
    rows[static_cast<size_t>(d)] = d == 0 ? rest : remainder(rest, size);
    if (d > 0) rest = floor_divide(rest, size);
  }
  if (rows.empty())
    return zeros({0, positions.size(0)}, {.dtype = kInt64, .device = positions.device()});
  return stack(rows);
}

Shape leading(const Shape& sizes, int64_t count) {
  Shape result = sizes;
  result.resize(static_cast<int>(count));
  return result;
}

int64_t leading_numel(const Shape& sizes, int64_t count) { return leading(sizes, count).numel(); }

Tensor sums_at(const Tensor& values, const Tensor& positions, int64_t count) {
  Shape sizes = values.sizes();
  sizes[0] = count;
  const bool half = values.is_floating_point() && element_size(values.dtype()) < 4;
  const Tensor wide = half ? to(values, kFloat32) : values;
  const Tensor none = zeros(sizes, {.dtype = wide.dtype(), .device = wide.device()});
  return to(index_add(none, 0, positions, wide), values.dtype());
}

Tensor elements_at(const Tensor& dense, const Tensor& indices) {
  const int64_t count = indices.size(0);
  Shape rows{leading_numel(dense.sizes(), count)};
  for (int64_t d = count; d < dense.dim(); ++d) rows.push_back(dense.size(d));
  return index_select(reshape(dense, rows), 0, flat_indices(indices, dense.sizes()));
}

}  // namespace tensora
