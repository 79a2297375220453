#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct ReduceAttrs;
extern OpDef<ReduceAttrs> logsumexp_op;

/// log(sum(exp(self))) over `dim` (all dims if empty), without overflow. Integers become the
/// default float.
Tensor logsumexp(const Tensor& self, const Dims& dim, bool keepdim = false);

}  // namespace tensora
