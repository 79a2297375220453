#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct NormAttrs {
  double p = 2;
  Dims dim;  // empty: all
  bool keepdim = false;
  std::optional<DType> dtype = {};
};
extern OpDef<NormAttrs> norm_op;

/// The p-norm of the elements over `dim` (all dims if empty): sum(|x|^p)^(1/p); for p = ±infinity
/// the largest (smallest) magnitude, for p = 0 the number of elements that are not zero.
Tensor norm(const Tensor& self, Scalar p = 2, const Dims& dim = {}, bool keepdim = false,
            std::optional<DType> dtype = {});

}  // namespace tensora
