#pragma once

// Internal header

#include "tensora/ops/attention/attention.h"

namespace tensora {

/// attention_op and attention_backward_op by their definition in other ops, with the whole matrix
/// of probabilities. It serves devices without a kernel, and gradients of gradients.
Tensors attention_definition(Args in, const AttentionAttrs& attrs);
Tensors attention_backward_definition(Args in, const AttentionAttrs& attrs);

/// Whether a query's heads lie beside each other within a row, as a projection leaves them. The
/// result then lies the same way, which is how the next projection reads it.
bool heads_lie_inside(const Tensor& query);

}  // namespace tensora
