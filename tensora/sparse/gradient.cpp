#include "tensora/sparse/gradient.h"

#include "tensora/autograd/sparse_gradient.h"

namespace tensora::sparse {

bool is_sparse(const Tensor& tensor) { return tensora::is_sparse(tensor); }

SparseTensor from_tensor(const Tensor& tensor) {
  const SparseParts* const parts = sparse_parts(tensor);
  check(parts, "sparse::from_tensor: the tensor is dense; sparse::to_sparse finds its entries");
  return SparseTensor::from_coo(parts->indices, parts->values, tensor.sizes(), parts->coalesced);
}

Tensor as_tensor(const SparseTensor& sparse) {
  check(sparse.defined() && sparse.is_sparse(),
        "sparse::as_tensor: expected a COO tensor; call to_sparse()");
  return make_sparse({sparse._indices(), sparse._values(), sparse.is_coalesced()}, sparse.sizes());
}

Tensor to_dense(const Tensor& tensor) { return dense_of(tensor); }

}  // namespace tensora::sparse
