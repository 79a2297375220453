#include "tensora/ops/creation/empty.h"

#include "tensora/autograd/grad_mode.h"
#include "tensora/core/thread_state.h"
#include "tensora/ops/copy/fill.h"

namespace tensora {
namespace {

Tensor finished(Tensor tensor, const TensorOptions& options) {
  if (thread_state.inference_mode) tensor.impl().inference = true;
  if (options.requires_grad) tensor.requires_grad_();
  return tensor;
}

Tensor filled(const Tensor& tensor, Scalar value, const TensorOptions& options) {
  {
    const no_grad silent;
    fill_(tensor, value);
  }
  return finished(tensor, options);
}

TensorOptions without_grad(TensorOptions options) {
  options.requires_grad = false;
  return options;
}

// Memory for a factory; the sizes are the user's.
Tensor allocated(std::string_view factory, const Shape& sizes, const Strides& strides,
                 const TensorOptions& options) {
  int64_t last = 0;  // of the elements, as the strides walk
  bool overflow = false;
  for (int d = 0; d < sizes.size(); ++d) {
    check(sizes[d] >= 0, factory, ": sizes must not be negative, got ", sizes);
    int64_t reach = 0;
    overflow |= __builtin_mul_overflow(sizes[d] - 1, strides[d], &reach) ||
                __builtin_add_overflow(last, reach, &last);
  }
  const DType dtype = options.dtype.value_or(default_dtype());
  overflow |= __builtin_mul_overflow(last, int64_t(element_size(dtype)), &last);
  check(!overflow || sizes.contains(0), factory, ": a tensor of shape ", sizes,
        " has too many elements");
  const Device device = options.device.value_or(Device());
  if (!device.is_cpu()) require_device(device);
  return finished(make_tensor(sizes, strides, dtype, device), options);
}

TensorOptions options_like(const Tensor& self, TensorOptions options) {
  if (!options.dtype) options.dtype = self.dtype();
  if (!options.device) options.device = self.device();
  return options;
}

}  // namespace

Tensor empty_strided(const Shape& sizes, const Strides& strides, const TensorOptions& options) {
  check(sizes.size() == strides.size(), "empty_strided: ", sizes.size(), " sizes but ",
        strides.size(), " strides");
  for (int64_t stride : strides)
    check(stride >= 0, "empty_strided: strides must not be negative, got ", strides);
  return allocated("empty_strided", sizes, strides, options);
}

Tensor empty(const Shape& sizes, const TensorOptions& options) {
  return empty_for("empty", sizes, options);
}

Tensor empty_for(std::string_view factory, const Shape& sizes, const TensorOptions& options) {
  return allocated(factory, sizes, contiguous_strides(sizes), options);
}

Tensor zeros(const Shape& sizes, const TensorOptions& options) {
  return filled(empty_for("zeros", sizes, without_grad(options)), 0, options);
}

Tensor ones(const Shape& sizes, const TensorOptions& options) {
  return filled(empty_for("ones", sizes, without_grad(options)), 1, options);
}

Tensor full(const Shape& sizes, Scalar value, const TensorOptions& options) {
  TensorOptions typed = options;
  if (!typed.dtype) {
    const Scalar::Kind kind = value.kind();
    typed.dtype = kind == Scalar::Kind::floating  ? default_dtype()
                  : kind == Scalar::Kind::integer ? DType::int64
                                                  : DType::boolean;
  }
  return filled(empty_for("full", sizes, without_grad(typed)), value, options);
}

Tensor empty_like(const Tensor& self, const TensorOptions& options) {
  const Strides strides =
      is_dense(self.sizes(), self.strides()) ? self.strides() : contiguous_strides(self.sizes());
  return empty_strided(self.sizes(), strides, options_like(self, options));
}

Tensor zeros_like(const Tensor& self, const TensorOptions& options) {
  return filled(empty_like(self, without_grad(options)), 0, options);
}

Tensor ones_like(const Tensor& self, const TensorOptions& options) {
  return filled(empty_like(self, without_grad(options)), 1, options);
}

Tensor full_like(const Tensor& self, Scalar value, const TensorOptions& options) {
  return filled(empty_like(self, without_grad(options)), value, options);
}

Tensor new_empty(const Tensor& self, const Shape& sizes, const TensorOptions& options) {
  return empty(sizes, options_like(self, options));
}

Tensor new_zeros(const Tensor& self, const Shape& sizes, const TensorOptions& options) {
  return zeros(sizes, options_like(self, options));
}

Tensor new_ones(const Tensor& self, const Shape& sizes, const TensorOptions& options) {
  return ones(sizes, options_like(self, options));
}

Tensor new_full(const Tensor& self, const Shape& sizes, Scalar value,
                const TensorOptions& options) {
  return full(sizes, value, options_like(self, options));
}

namespace {

// How many bytes the elements reach over.
size_t blob_bytes(const Shape& sizes, const Strides& strides, DType dtype) {
  check(sizes.size() == strides.size(), "from_blob: ", sizes.size(), " sizes but ", strides.size(),
        " strides");
  int64_t last = 0;
  bool overflow = false;
  for (int d = 0; d < sizes.size(); ++d) {
    check(sizes[d] >= 0, "from_blob: sizes must not be negative, got ", sizes);
    check(strides[d] >= 0, "from_blob: strides must not be negative, got ", strides);
    int64_t reach = 0;
    overflow |= __builtin_mul_overflow(sizes[d] - 1, strides[d], &reach) ||
                __builtin_add_overflow(last, reach, &last);
  }
  if (sizes.contains(0)) return 0;
  int64_t bytes = 0;
  overflow |= __builtin_mul_overflow(last + 1, int64_t(element_size(dtype)), &bytes);
  check(!overflow, "from_blob: a tensor of shape ", sizes, " has too many elements");
  return static_cast<size_t>(bytes);
}

template <class Void>
Tensor wrapped(Void* data, const Shape& sizes, const Strides& strides, const TensorOptions& options,
               std::shared_ptr<void> owner) {
  const DType dtype = options.dtype.value_or(default_dtype());
  const size_t bytes = blob_bytes(sizes, strides, dtype);
  check(data != nullptr || bytes == 0, "from_blob: the address is null");
  const auto storage =
      Storage::wrap(data, bytes, options.device.value_or(Device()), std::move(owner));
  return finished(make_view(storage, sizes, strides, 0, dtype), options);
}

}  // namespace

Tensor from_blob(void* data, const Shape& sizes, const TensorOptions& options,
                 std::shared_ptr<void> owner) {
  return wrapped(data, sizes, contiguous_strides(sizes), options, std::move(owner));
}

Tensor from_blob(const void* data, const Shape& sizes, const TensorOptions& options,
                 std::shared_ptr<void> owner) {
  return wrapped(data, sizes, contiguous_strides(sizes), options, std::move(owner));
}

Tensor from_blob(void* data, const Shape& sizes, const Strides& strides,
                 const TensorOptions& options, std::shared_ptr<void> owner) {
  return wrapped(data, sizes, strides, options, std::move(owner));
}

Tensor from_blob(const void* data, const Shape& sizes, const Strides& strides,
                 const TensorOptions& options, std::shared_ptr<void> owner) {
  return wrapped(data, sizes, strides, options, std::move(owner));
}

Tensor from_blob(void* data, const Shape& sizes, std::function<void(void*)> deleter,
                 const TensorOptions& options) {
  return from_blob(data, sizes, contiguous_strides(sizes), std::move(deleter), options);
}

Tensor from_blob(void* data, const Shape& sizes, const Strides& strides,
                 std::function<void(void*)> deleter, const TensorOptions& options) {
  return wrapped(data, sizes, strides, options, std::shared_ptr<void>(data, std::move(deleter)));
}

}  // namespace tensora
