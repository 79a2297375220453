#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// What a gate does with a pair of elements.
enum class Gate : uint8_t {
  glu,     // a * sigmoid(b)
  swiglu,  // silu(a) * b
};
constexpr std::array<std::string_view, 2> names_of(std::type_identity<Gate>) {
  return {"glu", "swiglu"};
}
struct GateAttrs {
  Gate gate = Gate::glu;
  int64_t dim = -1;
};
/// (a, b?): without b, a and b are the halves of the first input along `dim`.
extern OpDef<GateAttrs> gate_op;
/// (grad, a, b?) -> the gradients of a and b, or that of the one input, in one pass.
extern OpDef<GateAttrs> gate_backward_op;

/// The first half of `input` along `dim` times the sigmoid of the second.
Tensor glu(const Tensor& input, int64_t dim = -1);
/// silu(a) * b of the halves of `input` along `dim`, in one pass forward and one backward.
Tensor swiglu(const Tensor& input, int64_t dim = -1);
/// silu(gate) * up of two tensors of one shape.
Tensor swiglu(const Tensor& gate, const Tensor& up);

/// `self` where it is above 0, else times `weight`: one number, or one for each channel (dim 1).
Tensor prelu(const Tensor& self, const Tensor& weight);

}  // namespace tensora
