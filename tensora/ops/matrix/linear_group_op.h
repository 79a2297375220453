#pragma once

// Internal header: several linear layers of one input.

#include <span>
#include <vector>

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// (input [m, k], weights [n, k]…) -> input @ weight^T of each. As one op, because in the backward
/// the gradient of the input is a sum that the products themselves add up.
extern OpDef<NoAttrs> linear_group_op;

/// linear(input, weight) of each weight.
std::vector<Tensor> linear_group(const Tensor& input, std::span<const Tensor> weights);

}  // namespace tensora
