#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct FillAttrs {
  Scalar value = 0;
};
extern OpDef<FillAttrs> fill_op;

/// Sets every element.
const Tensor& fill_(const Tensor& self, Scalar value);
/// A tensor like `self` with every element set.
Tensor fill(const Tensor& self, Scalar value);
const Tensor& zero_(const Tensor& self);

}  // namespace tensora
