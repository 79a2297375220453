#include "tensora/autograd/sparse_gradient.h"

namespace tensora {
namespace {

struct SparseMeta final : AutogradMeta {
  SparseParts parts;
};

}  // namespace

Tensor make_sparse(SparseParts parts, const Shape& sizes) {
  const DType dtype = parts.values.dtype();
  const Tensor made = make_view(Storage::defer(0, parts.values.device()), sizes,
                                contiguous_strides(sizes), 0, dtype);
  auto* const meta = new SparseMeta;
  meta->has_parts = true;
  meta->parts = std::move(parts);
  made.impl().autograd = meta;
  return made;
}

SparseParts* detail::find_sparse_parts(const Tensor& tensor) {
  AutogradMeta* const meta = autograd_meta_or_null(tensor);
  return meta && meta->has_parts ? &static_cast<SparseMeta*>(meta)->parts : nullptr;
}

Tensor dense_of(const Tensor& tensor) {
  return is_sparse(tensor) ? engine_ops().densify(tensor) : tensor;
}

Tensor sum_of_sparse(const Tensor& a, const Tensor& b) {
  if (is_sparse(a) && is_sparse(b)) return engine_ops().join_sparse(a, b);
  return engine_ops().add(dense_of(a), dense_of(b));
}

Tensor with_values(const Tensor& sparse, Tensor values) {
  SparseParts parts = *sparse_parts(sparse);
  parts.indices = engine_ops().cast(parts.indices, DType::int64, values.device());
  parts.values = std::move(values);
  return make_sparse(std::move(parts), sparse.sizes());
}

Tensor without_entries(const Tensor& sparse) {
  const SparseParts& parts = *sparse_parts(sparse);
  Shape values = parts.values.sizes();
  values[0] = 0;
  const EngineOps& ops = engine_ops();
  const Device device = sparse.device();
  return make_sparse({ops.zeros({parts.indices.size(0), 0}, kInt64, device),
                      ops.zeros(values, sparse.dtype(), device), true},
                     sparse.sizes());
}

}  // namespace tensora
