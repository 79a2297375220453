#pragma once

// Internal header: what ops with an activation inside share.

#include "tensora/ops/matrix/linear_activation.h"

namespace tensora {

/// The activation of that name; throws if there is none.
Activation activation_called(std::string_view op, std::string_view activation);
/// Whether the gradient is computed from the argument rather than from the result.
bool needs_argument(Activation activation);
/// The gradient of the argument; `kept` is what needs_argument says.
Tensor argument_gradient(const Tensor& grad, const Tensor& kept, Activation activation);

}  // namespace tensora
