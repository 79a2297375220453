#pragma once

#include "tensora/dispatch/op_def.h"

// View ops in place: the tensor itself gets the new sizes and strides; its elements stay where they
// are. They cannot be traced. A view that was taken of the tensor before keeps its own geometry,
// but no longer finds its gradient there: using it in a recorded op afterwards throws.

namespace tensora {

const Tensor& squeeze_(const Tensor& self);
const Tensor& squeeze_(const Tensor& self, const Dims& dim);
const Tensor& unsqueeze_(const Tensor& self, int64_t dim);
const Tensor& transpose_(const Tensor& self, int64_t dim0, int64_t dim1);
const Tensor& swapaxes_(const Tensor& self, int64_t axis0, int64_t axis1);
const Tensor& swapdims_(const Tensor& self, int64_t dim0, int64_t dim1);
const Tensor& t_(const Tensor& self);
const Tensor& as_strided_(const Tensor& self, const Shape& size, const Strides& stride,
                          std::optional<int64_t> storage_offset = {});

/// Gives `self` another size. Elements that remain keep their places in memory, of which new ones
/// come last, uninitialised; the strides become row-major. Memory is allocated only where the
/// storage is too small; it must not be shared then.
const Tensor& resize_(const Tensor& self, const Shape& size);
const Tensor& resize_as_(const Tensor& self, const Tensor& the_template);

}  // namespace tensora
