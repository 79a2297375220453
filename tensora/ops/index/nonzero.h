#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// How many elements are not zero; as an int64 tensor, so that its reader decides when to wait.
extern OpDef<NoAttrs> nonzero_count_op;

struct NonzeroAttrs {
  int64_t count = 0;  // as nonzero_count_op found it
};
extern OpDef<NonzeroAttrs> nonzero_op;

/// The indices of all elements that are not zero, one row per element, in row-major order.
Tensor nonzero(const Tensor& self);
Tensor argwhere(const Tensor& self);
/// The same, one tensor per dim: what indexing accepts.
std::vector<Tensor> nonzero_tuple(const Tensor& self);

}  // namespace tensora
