#pragma once

// Internal header

#include "tensora/ops/attention/attention.h"

namespace tensora {

/// attention_op and attention_backward_op by their definition in other ops, with the whole matrix
/// of probabilities. It serves devices without a kernel, and gradients of gradients.
Tensors attention_definition(Args in, const AttentionAttrs& attrs);
Tensors attention_backward_definition(Args in, const AttentionAttrs& attrs);

}  // namespace tensora
