#pragma once

// Internal header
// The activations by number, for the kernels of both devices.

#include "tensora/ops/matrix/linear_activation.h"
#include "tensora/ops/pointwise/activations.h"
#include "tensora/ops/pointwise/exponential.h"
#include "tensora/ops/pointwise/smooth_activations.h"
#include "tensora/ops/pointwise/trigonometry.h"

namespace tensora {

struct Identity {
  template <class V>
  constexpr V forward(V x) const {
    return x;
  }
};

/// Calls `body` with the functor of an activation.
template <class Body>
TENSORA_HD constexpr void visit_activation(Activation activation, Body&& body) {
  switch (activation) {
    case Activation::none:
      return body(Identity{});
    case Activation::relu:
      return body(functors::Relu{});
    case Activation::gelu:
      return body(functors::Gelu{});
    case Activation::gelu_tanh:
      return body(functors::GeluTanh{});
    case Activation::silu:
      return body(functors::Silu{});
    case Activation::sigmoid:
      return body(functors::Sigmoid{});
    case Activation::tanh:
      return body(functors::Tanh{});
  }
}

}  // namespace tensora
