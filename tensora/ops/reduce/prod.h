#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct ReduceAttrs;
extern OpDef<ReduceAttrs> prod_op;

/// The product over `dim` (all dims if empty). Integers and bools are multiplied as int64; `dtype`,
/// if given, is what the elements are cast to first.
Tensor prod(const Tensor& self, const Dims& dim = {}, bool keepdim = false,
            std::optional<DType> dtype = {});
Tensor prod(const Tensor& self, DType dtype);

}  // namespace tensora
