#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

extern OpDef<NoAttrs> copy_op, clone_op, contiguous_op;

struct CastAttrs {
  DType dtype = DType::float32;
};
extern OpDef<CastAttrs> cast_op;

struct ToDeviceAttrs {
  Device device;
};
extern OpDef<ToDeviceAttrs> to_device_op;

/// Writes `src`, broadcast and cast, into `self`; the two may be on different devices.
const Tensor& copy_(const Tensor& self, const Tensor& src);
/// A copy with memory of its own.
Tensor clone(const Tensor& self);
/// `self` if it is contiguous (row-major), else a contiguous copy.
Tensor contiguous(const Tensor& self);

/// `self` if nothing changes, else a copy of another dtype or on another device. A complex number
/// becomes its real part as a real one (PyTorch warns about that).
Tensor to(const Tensor& self, DType dtype);
Tensor to(const Tensor& self, Device device);
Tensor to(const Tensor& self, Device device, DType dtype);
Tensor to(const Tensor& self, DType dtype, Device device);
/// As the options say; what they leave open stays as it is.
Tensor to(const Tensor& self, const TensorOptions& options);
/// To the dtype and the device of `other`.
Tensor to(const Tensor& self, const Tensor& other);
Tensor type_as(const Tensor& self, const Tensor& other);

}  // namespace tensora
