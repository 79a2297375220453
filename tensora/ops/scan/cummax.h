#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct CummaxAttrs {
  int64_t dim = 0;
};
/// Outputs: values, indices.
extern OpDef<CummaxAttrs> cummax_op, cummin_op;

/// Element i of the result is the largest (smallest) of elements 0 … i along `dim`, and where it
/// is, (values, indices); the last of several that are equal. Once a NaN was met it stays.
std::tuple<Tensor, Tensor> cummax(const Tensor& self, int64_t dim);
std::tuple<Tensor, Tensor> cummin(const Tensor& self, int64_t dim);

}  // namespace tensora
