// Registers nothing: functions that the rooms of this folder share.
#include "tensora/ops/sort/chosen.h"

#include "tensora/dispatch/op.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/index/gather.h"

namespace tensora {

Tensor put_chosen(const Tensor& grad, const Tensor& indices, const Shape& sizes, int64_t dim) {
  const Tensor zero = zeros(sizes, {.dtype = grad.dtype(), .device = grad.device()});
  return scatter(zero, dim, indices, grad);
}

std::tuple<Tensor, Tensor> pair_of(Tensors&& outputs) {
  return {std::move(outputs[0]), std::move(outputs[1])};
}

}  // namespace tensora
