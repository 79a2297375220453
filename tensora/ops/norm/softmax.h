#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct SoftmaxAttrs {
  int64_t dim = -1;
  std::optional<DType> dtype = {};  // of the result
};
/// (self) -> the result; the dtype may only widen.
extern OpDef<SoftmaxAttrs> softmax_op, log_softmax_op;
/// (grad, the result) -> the gradient of self.
extern OpDef<SoftmaxAttrs> softmax_backward_op, log_softmax_backward_op;

/// exp(self) over its sum along `dim`, without overflow. `dtype`, if given, is what the elements
/// are cast to first. A line that holds NaN or +infinity, or nothing but -infinity, becomes NaN.
Tensor softmax(const Tensor& self, int64_t dim, std::optional<DType> dtype = {});
/// Its logarithm, accurate where the softmax itself vanishes.
Tensor log_softmax(const Tensor& self, int64_t dim, std::optional<DType> dtype = {});
/// The softmax of -input.
Tensor softmin(const Tensor& input, int64_t dim, std::optional<DType> dtype = {});

/// A random point near a corner of the simplex: the softmax of (logits + noise) / tau, where the
/// noise has a Gumbel distribution. With `hard` the corner itself (a one-hot vector, distributed
/// as the softmax of the logits says), with the gradient of the soft point.
Tensor gumbel_softmax(const Tensor& logits, double tau = 1, bool hard = false, int64_t dim = -1);

}  // namespace tensora
