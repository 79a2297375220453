#pragma once

#include "tensora/dispatch/op_def.h"

// Casts by name. `x.float()`, `.double()`, `.long()`, `.int()`, `.short()`, `.char()` and `.bool()`
// are words of C++: write `x.to(kFloat32)`, or kFloat, as in LibTorch.

namespace tensora {

Tensor half(const Tensor& self);
Tensor bfloat16(const Tensor& self);
Tensor byte(const Tensor& self);
Tensor cfloat(const Tensor& self);
Tensor cdouble(const Tensor& self);

/// The number of elements, and whether numbers of the dtype may be negative.
int64_t nelement(const Tensor& self);
bool is_signed(const Tensor& self);
/// Whether the only element is not 0; throws if there is another number of them.
bool is_nonzero(const Tensor& self);
bool is_same_size(const Tensor& self, const Tensor& other);

/// The conjugate of the matrices' transposes.
Tensor adjoint(const Tensor& self);
Tensor mH(const Tensor& self);
/// All dims in reverse order.
Tensor numpy_T(const Tensor& self);

/// An uninitialised tensor of the dtype and on the device of `self`.
Tensor new_empty_strided(const Tensor& self, const Shape& size, const Strides& stride,
                         const TensorOptions& options = {});
/// A number as a 0-dim tensor.
Tensor scalar_tensor(Scalar s, const TensorOptions& options = {});

/// Summed over the dims along which `size` would have to be expanded to give the shape of `self`.
Tensor sum_to_size(const Tensor& self, const Shape& size);

}  // namespace tensora
