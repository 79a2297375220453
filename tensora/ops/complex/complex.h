#pragma once

// Complex tensors: making them from real ones, and views of their parts.
//
// Gradients follow PyTorch: that of a real loss L with respect to z = x + iy is dL/dx + i dL/dy, so
// that z - rate * grad is a step downhill. For a holomorphic f the rule is grad * conj(f'(z)).
// Complex products of matrices (matmul, mm, bmm, mv, dot, addmm, linear) are composed of four real
// ones. What has no complex form says so by name.

#include "tensora/core/tensor.h"
#include "tensora/dispatch/op_def.h"

namespace tensora {

extern OpDef<NoAttrs> view_as_real_op, view_as_complex_op;

/// A view of a complex tensor as a real one with a last dim of 2: real and imaginary parts.
Tensor view_as_real(const Tensor& self);
/// The reverse, for a float32 or float64 tensor whose last dim has size 2 and stride 1.
Tensor view_as_complex(const Tensor& self);
/// A view of the real parts; a real tensor itself.
Tensor real(const Tensor& self);
/// A view of the imaginary parts; throws for a real tensor.
Tensor imag(const Tensor& self);

/// The complex conjugates, computed eagerly (PyTorch's are lazy); a real tensor itself.
Tensor conj(const Tensor& self);
/// The angle to the positive real axis, in (-pi, pi]; of real numbers 0 or pi.
Tensor angle(const Tensor& self);
/// self / |self|, and 0 of 0; for real tensors the sign.
Tensor sgn(const Tensor& self);
inline bool is_complex(const Tensor& tensor) { return tensor.is_complex(); }

/// real + i imag, for two float32 or two float64 tensors.
Tensor complex(const Tensor& real, const Tensor& imag);
/// abs * (cos(angle) + i sin(angle)), likewise.
Tensor polar(const Tensor& abs, const Tensor& angle);

// What a functor writes as nonnegative(x): whether the real part is.
Tensor nonnegative(const Tensor& x);

}  // namespace tensora
