#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct ReduceAttrs;
extern OpDef<ReduceAttrs> amax_op, amin_op, max_op, min_op, aminmax_op;

/// The largest (smallest) element over `dim` (all dims if empty); NaN if there is one. Elements
/// that tie share the gradient evenly.
Tensor amax(const Tensor& self, const Dims& dim = {}, bool keepdim = false);
Tensor amin(const Tensor& self, const Dims& dim = {}, bool keepdim = false);
/// Both in one pass: (min, max).
std::tuple<Tensor, Tensor> aminmax(const Tensor& self, std::optional<int64_t> dim = {},
                                   bool keepdim = false);
/// The largest (smallest) of all elements. With a dim, see max_dim.h.
Tensor max(const Tensor& self);
Tensor min(const Tensor& self);
/// PyTorch's other spelling of maximum and minimum, element by element.
Tensor max(const Tensor& self, const Tensor& other);
Tensor min(const Tensor& self, const Tensor& other);

}  // namespace tensora
