#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// How many elements of `value` come before and after each dim of the input.
struct ConstantPadAttrs {
  Shape before, after;
  Scalar value = 0;
};
extern OpDef<ConstantPadAttrs> constant_pad_op;

/// Extends the last dims: pad[0] elements before and pad[1] after the last dim, pad[2] and pad[3]
/// for the one before it, and so on; negative numbers cut off. Modes: constant (`value`, or 0) for
/// any dims; reflect, replicate and circular for the last one to three dims of an input that has
/// one or two more.
Tensor pad(const Tensor& input, const std::vector<int64_t>& pad, std::string_view mode = "constant",
           std::optional<Scalar> value = {});

}  // namespace tensora
