#include "tensora/nn/flatten.h"

#include "tensora/nn/repr.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora::nn {

Tensor Flatten::forward(const Tensor& input) const {
  return flatten(input, options.start_dim, options.end_dim);
}
std::string Flatten::extra_repr() const {
  return concat("start_dim=", options.start_dim, ", end_dim=", options.end_dim);
}

Tensor Unflatten::forward(const Tensor& input) const {
  return unflatten(input, dim, unflattened_size);
}
std::string Unflatten::extra_repr() const {
  return concat("dim=", dim, ", unflattened_size=", repr_tuple(unflattened_size));
}

}  // namespace tensora::nn
