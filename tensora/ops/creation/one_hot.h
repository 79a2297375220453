#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct OneHotAttrs {
  int64_t num_classes = 1;
};
extern OpDef<OneHotAttrs> one_hot_op;

/// An int64 tensor with one more dim, of size `num_classes`, with a 1 at the index given
/// by each element of `self`, and zeros elsewhere. -1 takes the largest element as the last class.
Tensor one_hot(const Tensor& self, int64_t num_classes = -1);

}  // namespace tensora
