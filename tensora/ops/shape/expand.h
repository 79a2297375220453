#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct ExpandAttrs {
  Shape size;
};
extern OpDef<ExpandAttrs> expand_op;

/// Repeats along dims of size 1, and along new leading dims, without a copy. -1 keeps a size.
Tensor expand(const Tensor& self, const Shape& size);
Tensor expand_as(const Tensor& self, const Tensor& other);
Tensor broadcast_to(const Tensor& self, const Shape& size);
/// All tensors expanded to their common shape.
std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors);
/// Coordinate grids over 1-D tensors. `indexing` is "ij", or "xy" to exchange the first two dims.
std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, std::string_view indexing = "ij");

}  // namespace tensora
