#include "tensora/torch/bridge.h"

#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>

#include <memory>

#include "tensora/torch/scope.h"

namespace tensora::torch {
namespace {

struct Pair {
  DType ours;
  at::ScalarType theirs;
};
constexpr Pair kPairs[] = {
    {kBool, at::kBool},
    {kUInt8, at::kByte},
    {kInt8, at::kChar},
    {kInt16, at::kShort},
    {kInt32, at::kInt},
    {kInt64, at::kLong},
    {kFloat16, at::kHalf},
    {kBFloat16, at::kBFloat16},
    {kFloat32, at::kFloat},
    {kFloat64, at::kDouble},
    {kComplex64, at::kComplexFloat},
    {kComplex128, at::kComplexDouble},
    {kFloat8E4M3, at::kFloat8_e4m3fn},
    {kFloat8E5M2, at::kFloat8_e5m2},
    {kUInt16, at::kUInt16},
    {kUInt32, at::kUInt32},
    {kUInt64, at::kUInt64},
};

void release_storage(void* storage) {
  IntrusivePtr<Storage>::adopt(static_cast<Storage*>(storage)).reset();
}

// Elements from the first to behind the last one that sizes and strides reach.
template <class Sizes>
int64_t extent(const Sizes& sizes, const Sizes& strides) {
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) last += (sizes[i] - 1) * strides[i];
  return last + 1;
}

struct Kept {
  at::Tensor tensor;
  Owner also;
};

Tensor wrapped(const at::Tensor& tensor, Owner owner) {
  const Shape sizes{std::span(tensor.sizes().data(), tensor.sizes().size())};
  const Strides strides{std::span(tensor.strides().data(), tensor.strides().size())};
  const auto bytes =
      static_cast<size_t>(extent(tensor.sizes(), tensor.strides())) * tensor.element_size();
  const Device device = tensor.is_cuda() ? Device(DeviceType::cuda, tensor.get_device()) : Device();
  return make_view(Storage::wrap(tensor.data_ptr(), bytes, device, std::move(owner)), sizes,
                   strides, 0, tensora_dtype(tensor.scalar_type()));
}

void check_plain(const at::Tensor& tensor) {
  check(tensor.defined(), "from_torch: the tensor is undefined");
  check(tensor.layout() == at::kStrided && !tensor.is_nested() && !tensor.is_quantized(),
        "from_torch: expected a strided tensor, got a sparse, nested or quantized one");
  check(tensor.is_cpu() || tensor.is_cuda(),
        "from_torch: expected a tensor on the CPU or on CUDA, ", "got one on ",
        tensor.device().str());
  check(!tensor.is_conj() && !tensor.is_neg(),
        "from_torch: the tensor is a lazy conjugate or negative; call resolve_conj or resolve_neg");
  check(!tensor.requires_grad(),
        "from_torch: the tensor requires grad, and history does not cross; call detach");
}

Tensor empty_like_theirs(const at::Tensor& tensor) {
  const Shape sizes{std::span(tensor.sizes().data(), tensor.sizes().size())};
  const Strides strides{std::span(tensor.strides().data(), tensor.strides().size())};
  const Device device = tensor.is_cuda() ? Device(DeviceType::cuda, tensor.get_device()) : Device();
  return make_tensor(sizes, strides, tensora_dtype(tensor.scalar_type()), device);
}

}  // namespace

at::ScalarType torch_dtype(DType dtype) {
  // The table is in the order of the enumeration up to the quantized dtypes.
  const auto index = static_cast<size_t>(dtype);
  check(index < std::size(kPairs), "to_torch: LibTorch has no ", dtype,
        "; dequantize the tensor first");
  return kPairs[index].theirs;
}

DType tensora_dtype(at::ScalarType dtype) {
  for (const Pair& pair : kPairs)
    if (pair.theirs == dtype) return pair.ours;
  fail("from_torch: Tensora has no dtype like LibTorch's ", c10::toString(dtype));
}

at::Device torch_device(Device device) {
  if (device.is_cpu()) return at::Device(at::kCPU);
  check(device.is_cuda(), "to_torch: expected a tensor on the CPU or on CUDA, got ", device);
  return {at::kCUDA, device.index};
}

at::Tensor to_torch(const Tensor& tensor) {
  check(tensor.defined(), "to_torch: the tensor is undefined");
  check(!tensor.requires_grad(),
        "to_torch: the tensor requires grad, and history does not cross; call detach");
  const View& view = tensor.impl().view;
  const at::IntArrayRef sizes(view.sizes.data(), static_cast<size_t>(view.dim()));
  const at::IntArrayRef strides(view.strides.data(), static_cast<size_t>(view.dim()));
  const at::Device device = torch_device(view.device);
  const auto options = at::TensorOptions(torch_dtype(view.dtype)).device(device);
  if (view.numel == 0) return at::empty_strided(sizes, strides, options);
  void* data = tensor.data_ptr();
  if (!device.is_cpu()) hand_to_torch(tensor.impl().storage->data(), view.device);
  IntrusivePtr<Storage> storage = tensor.impl().storage;
  return at::for_blob(data, sizes)
      .strides(strides)
      .context(storage.release(), release_storage)
      .options(options)
      .target_device(device)
      .make_tensor();
}

Tensor from_torch(const at::Tensor& tensor) {
  check_plain(tensor);
  if (tensor.numel() == 0) return empty_like_theirs(tensor);
  if (tensor.is_cuda()) take_from_torch(tensor);
  return wrapped(tensor, Owner(tensor.getIntrusivePtr()));
}

Tensor from_torch(const at::Tensor& tensor, Owner also) {
  check_plain(tensor);
  if (tensor.numel() == 0) return empty_like_theirs(tensor);
  if (tensor.is_cuda()) take_from_torch(tensor);
  return wrapped(tensor, Owner(std::make_unique<Kept>(tensor, std::move(also))));
}

}  // namespace tensora::torch
