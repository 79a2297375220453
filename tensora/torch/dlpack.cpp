#include <memory>

#include "tensora/core/backend.h"
#include "tensora/torch/bridge.h"

namespace tensora::torch {
namespace {

struct Row {
  DType dtype;
  DLDataType type;
};
constexpr Row row(DType dtype, DLDataTypeCode code) {
  return {dtype, {static_cast<uint8_t>(code), static_cast<uint8_t>(element_size(dtype) * 8), 1}};
}
constexpr Row kRows[] = {
    row(kBool, kDLBool),
    row(kUInt8, kDLUInt),
    row(kInt8, kDLInt),
    row(kInt16, kDLInt),
    row(kInt32, kDLInt),
    row(kInt64, kDLInt),
    row(kFloat16, kDLFloat),
    row(kBFloat16, kDLBfloat),
    row(kFloat32, kDLFloat),
    row(kFloat64, kDLFloat),
    row(kComplex64, kDLComplex),
    row(kComplex128, kDLComplex),
    row(kFloat8E4M3, kDLFloat8_e4m3fn),
    row(kFloat8E5M2, kDLFloat8_e5m2),
    row(kUInt16, kDLUInt),
    row(kUInt32, kDLUInt),
    row(kUInt64, kDLUInt),
};

struct Exported {
  DLManagedTensorVersioned managed = {};
  Tensor tensor;
  Shape sizes;
  Strides strides;
};

struct GiveBack {
  void operator()(DLManagedTensorVersioned* managed) const {
    if (managed->deleter) managed->deleter(managed);
  }
};
using Imported = std::unique_ptr<DLManagedTensorVersioned, GiveBack>;

DType dtype_of(const DLDataType& type) {
  for (const Row& each : kRows)
    if (each.type.code == type.code && each.type.bits == type.bits && type.lanes == 1)
      return each.dtype;
  fail("from_dlpack: there is no dtype of code ", int{type.code}, " with ", int{type.bits},
       " bits and ", type.lanes, " lanes");
}

Device device_of(const DLDevice& device) {
  if (device.device_type == kDLCPU || device.device_type == kDLCUDAHost) return {};
  check(device.device_type == kDLCUDA, "from_dlpack: expected memory of the host or of CUDA, got ",
        "device type ", static_cast<int>(device.device_type));
  return {DeviceType::cuda, device.device_id};
}

}  // namespace

DLManagedTensorVersioned* to_dlpack(const Tensor& tensor) {
  check(tensor.defined(), "to_dlpack: the tensor is undefined");
  check(!tensor.requires_grad(),
        "to_dlpack: the tensor requires grad, and history does not cross; call detach");
  const auto index = static_cast<size_t>(tensor.dtype());
  check(index < std::size(kRows), "to_dlpack: DLPack has no ", tensor.dtype(),
        "; dequantize the tensor first");
  check(tensor.is_cpu() || tensor.is_cuda(), "to_dlpack: a tensor on ", tensor.device(),
        " cannot be shared");
  auto exported = std::make_unique<Exported>();
  exported->tensor = tensor;
  exported->sizes = tensor.sizes();
  exported->strides = tensor.strides();
  DLManagedTensorVersioned& managed = exported->managed;
  managed.version = {1, 0};
  managed.flags = tensor.impl().storage->read_only() ? DLPACK_FLAG_BITMASK_READ_ONLY : 0;
  managed.dl_tensor = {.data = tensor.data_ptr(),
                       .device = {tensor.is_cpu() ? kDLCPU : kDLCUDA, tensor.device().index},
                       .ndim = tensor.dim(),
                       .dtype = kRows[index].type,
                       .shape = exported->sizes.data(),
                       .strides = exported->strides.data(),
                       .byte_offset = 0};
  managed.deleter = [](DLManagedTensorVersioned* self) {
    delete static_cast<Exported*>(self->manager_ctx);
  };
  managed.manager_ctx = exported.get();
  return &exported.release()->managed;
}

Tensor from_dlpack(DLManagedTensorVersioned* managed) {
  check(managed != nullptr, "from_dlpack: expected a tensor, got a null pointer");
  Imported held(managed);
  check(managed->version.major == 1, "from_dlpack: expected DLPack 1.x, got ",
        managed->version.major, ".", managed->version.minor);
  const DLTensor& array = managed->dl_tensor;
  const DType dtype = dtype_of(array.dtype);
  const Device device = device_of(array.device);
  check(array.ndim == 0 || (array.ndim > 0 && array.shape != nullptr),
        "from_dlpack: expected a size for each dimension, got ", array.ndim, " dimensions",
        array.shape ? "" : " without sizes");
  const auto dims = static_cast<size_t>(array.ndim);
  const Shape sizes(std::span<const int64_t>(array.shape, dims));
  const Strides strides = array.strides ? Strides(std::span<const int64_t>(array.strides, dims))
                                        : contiguous_strides(sizes);
  if (sizes.numel() == 0) return make_tensor(sizes, strides, dtype, device);
  int64_t last = 0;
  for (size_t i = 0; i < dims; ++i) {
    check(array.shape[i] > 0 && strides[static_cast<int>(i)] >= 0,
          "from_dlpack: expected strides of 0 or more, got ", strides);
    last += (array.shape[i] - 1) * strides[static_cast<int>(i)];
  }
  const auto bytes = static_cast<size_t>(bytes_of(dtype, last + 1));
  char* data = static_cast<char*>(array.data) + array.byte_offset;
  const bool read_only = (managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
  Owner owner(std::move(held));
  auto storage =
      read_only ? Storage::wrap(static_cast<const void*>(data), bytes, device, std::move(owner))
                : Storage::wrap(static_cast<void*>(data), bytes, device, std::move(owner));
  return make_view(std::move(storage), sizes, strides, 0, dtype);
}

}  // namespace tensora::torch
