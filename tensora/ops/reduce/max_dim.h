#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct DimAttrs {
  std::optional<int64_t> dim = {};  // none: all dims, as if flattened
  bool keepdim = false;
};
extern OpDef<DimAttrs> max_dim_op, min_dim_op, argmax_op, argmin_op;

/// The largest (smallest) elements along `dim` and their positions, (values, indices). The first of
/// several that tie is taken, and gets the gradient; NaN counts as the largest and the smallest.
std::tuple<Tensor, Tensor> max(const Tensor& self, int64_t dim, bool keepdim = false);
std::tuple<Tensor, Tensor> min(const Tensor& self, int64_t dim, bool keepdim = false);

/// The positions alone; without `dim` that of the flattened tensor.
Tensor argmax(const Tensor& self, std::optional<int64_t> dim = {}, bool keepdim = false);
Tensor argmin(const Tensor& self, std::optional<int64_t> dim = {}, bool keepdim = false);

}  // namespace tensora
