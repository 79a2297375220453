#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct TriangleAttrs {
  int64_t diagonal = 0;
};
extern OpDef<TriangleAttrs> tril_op, triu_op;

/// Matrices with the part above (`tril`) or below (`triu`) a diagonal set to zero.
Tensor tril(const Tensor& self, int64_t diagonal = 0);
Tensor triu(const Tensor& self, int64_t diagonal = 0);
const Tensor& tril_(const Tensor& self, int64_t diagonal = 0);
const Tensor& triu_(const Tensor& self, int64_t diagonal = 0);

}  // namespace tensora
