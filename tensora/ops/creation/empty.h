#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

/// A tensor with unset contents.
Tensor empty(const Shape& sizes, const TensorOptions& options = {});
Tensor empty_strided(const Shape& sizes, const Strides& strides, const TensorOptions& options = {});
/// Contents 0, 1 or `value`. Without a dtype, `full` takes it from the number's kind.
Tensor zeros(const Shape& sizes, const TensorOptions& options = {});
Tensor ones(const Shape& sizes, const TensorOptions& options = {});
Tensor full(const Shape& sizes, Scalar value, const TensorOptions& options = {});

/// Like `self` in shape, dtype and device, unless the options say otherwise.
Tensor empty_like(const Tensor& self, const TensorOptions& options = {});
Tensor zeros_like(const Tensor& self, const TensorOptions& options = {});
Tensor ones_like(const Tensor& self, const TensorOptions& options = {});
Tensor full_like(const Tensor& self, Scalar value, const TensorOptions& options = {});

/// Of the dtype and device of `self`, unless the options say otherwise.
Tensor new_empty(const Tensor& self, const Shape& sizes, const TensorOptions& options = {});
Tensor new_zeros(const Tensor& self, const Shape& sizes, const TensorOptions& options = {});
Tensor new_ones(const Tensor& self, const Shape& sizes, const TensorOptions& options = {});
Tensor new_full(const Tensor& self, const Shape& sizes, Scalar value,
                const TensorOptions& options = {});

/// Wraps memory that the caller owns. `owner`, if given, is released with the last tensor on it.
Tensor from_blob(void* data, const Shape& sizes, const TensorOptions& options = {},
                 std::shared_ptr<void> owner = {});

}  // namespace tensora
