#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

/// A tensor with uninitialised contents.
Tensor empty(const Shape& sizes, const TensorOptions& options = {});
Tensor empty_strided(const Shape& sizes, const Strides& strides, const TensorOptions& options = {});
/// The same for a factory that will fill it: errors carry that factory's name.
Tensor empty_for(std::string_view factory, const Shape& sizes, const TensorOptions& options);
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

/// Wraps memory that the caller owns, row-major or with `strides`. `owner`, if given, is released
/// with the last tensor on it; `deleter`, if given, is then called with the address. A tensor over
/// const memory cannot be written to in place.
Tensor from_blob(void* data, const Shape& sizes, const TensorOptions& options = {},
                 Owner owner = {});
Tensor from_blob(const void* data, const Shape& sizes, const TensorOptions& options = {},
                 Owner owner = {});
Tensor from_blob(void* data, const Shape& sizes, const Strides& strides,
                 const TensorOptions& options = {}, Owner owner = {});
Tensor from_blob(const void* data, const Shape& sizes, const Strides& strides,
                 const TensorOptions& options = {}, Owner owner = {});
Tensor from_blob(void* data, const Shape& sizes, std::function<void(void*)> deleter,
                 const TensorOptions& options = {});
Tensor from_blob(void* data, const Shape& sizes, const Strides& strides,
                 std::function<void(void*)> deleter, const TensorOptions& options = {});

}  // namespace tensora
