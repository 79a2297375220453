#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct LogcumsumexpAttrs {
  int64_t dim = 0;
  bool reverse = false;  // from the end
};
extern OpDef<LogcumsumexpAttrs> logcumsumexp_op;

/// Element i of the result is log(exp(x[0]) + … + exp(x[i])) along `dim`, without overflow.
Tensor logcumsumexp(const Tensor& self, int64_t dim);

}  // namespace tensora
