#include "tensora/ops/creation/empty.h"

#include <memory>

#include "tensora/autograd/grad_mode.h"
#include "tensora/core/thread_state.h"
#include "tensora/dispatch/deferral.h"
#include "tensora/dispatch/divided.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/fill.h"

namespace tensora {

struct EmptyStridedAttrs {
  Shape size;
  Strides stride;
  DType dtype = DType::float32;
  Device device = {};
};
constexpr auto describe(std::type_identity<EmptyStridedAttrs>) {
  using A = EmptyStridedAttrs;
  return fields(field("size", &A::size), field("stride", &A::stride), field("dtype", &A::dtype),
                field("device", &A::device));
}

constinit OpDef<EmptyStridedAttrs> empty_strided_op = define(Op<EmptyStridedAttrs>{
    .name = "empty_strided",
    .inputs = InputNames::none(),
    .infer =
        [](Infer& infer, const EmptyStridedAttrs& attrs) {
          infer.check(attrs.size.size() == attrs.stride.size(), attrs.size.size(), " sizes but ",
                      attrs.stride.size(), " strides");
          for (int64_t stride : attrs.stride)
            infer.check(stride >= 0, "strides must not be negative, got ", attrs.stride);
          infer.device = attrs.device;
          infer.output(attrs.size, attrs.stride, attrs.dtype);
        },
    .reference =
        [](Args, const EmptyStridedAttrs& attrs) {
          if (!attrs.device.is_cpu()) require_device(attrs.device);
          Tensors result;
          result.push_back(make_tensor(attrs.size, attrs.stride, attrs.dtype, attrs.device));
          return result;
        },
    .gradient = Gradient::not_differentiable,
});

void register_empty(OpRegistry& registry) { registry.add(empty_strided_op); }

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

// Under the name of the factory that the user called.
void check_sizes(std::string_view factory, const Shape& sizes, DType dtype) {
  auto bytes = static_cast<int64_t>(element_size(dtype));
  bool overflow = false;
  for (int64_t size : sizes) {
    check(size >= 0, factory, ": sizes must not be negative, got ", sizes);
    overflow |= __builtin_mul_overflow(bytes, size, &bytes);
  }
  check(!overflow || sizes.contains(0), factory, ": a tensor of shape ", sizes,
        " has too many elements");
}

Tensor allocated(const Shape& sizes, const Strides& strides, const TensorOptions& options) {
  const DType dtype = options.dtype.value_or(default_dtype());
  const Device device = options.device.value_or(Device());
  if (!device.is_cpu()) require_device(device);
  // Uninitialised memory needs no op, unless an interceptor has to see where tensors come from.
  if (thread_state.interceptor) [[unlikely]]
    return finished(apply(empty_strided_op, Args{}, {sizes, strides, dtype, device}), options);
  if (thread_state.deferral) [[unlikely]] {
    const Tensor result = make_deferred(sizes, strides, dtype, device);
    thread_state.deferral->hold(result.impl().storage);
    return finished(result, options);
  }
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
  for (int64_t size : sizes)
    check(size >= 0, "empty_strided: sizes must not be negative, got ", sizes);
  return allocated(sizes, strides, options);
}

Tensor empty(const Shape& sizes, const TensorOptions& options) {
  return empty_for("empty", sizes, options);
}

Tensor empty_for(std::string_view factory, const Shape& sizes, const TensorOptions& options) {
  check_sizes(factory, sizes, options.dtype.value_or(default_dtype()));
  return allocated(sizes, contiguous_strides(sizes), options);
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
    typed.dtype = kind == Scalar::Kind::complex    ? complex_dtype(default_dtype())
                  : kind == Scalar::Kind::floating ? default_dtype()
                  : kind == Scalar::Kind::integer  ? DType::int64
                                                   : DType::boolean;
  }
  return filled(empty_for("full", sizes, without_grad(typed)), value, options);
}

Tensor empty_like(const Tensor& self, const TensorOptions& options) {
  const Strides strides = kept_strides(self.sizes(), self.strides());
  const TensorOptions wanted = options_like(self, options);
  if (!self.impl().view.data && wanted.device == self.device() && is_divided(self)) [[unlikely]] {
    const Tensor result = divided_tensors.load(std::memory_order_relaxed)
                              ->empty_like(self, strides, wanted.dtype.value_or(self.dtype()));
    if (wanted.requires_grad == true) result.requires_grad_();
    return result;
  }
  return empty_strided(self.sizes(), strides, wanted);
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
  return empty_for("new_empty", sizes, options_like(self, options));
}

Tensor new_zeros(const Tensor& self, const Shape& sizes, const TensorOptions& options) {
  return called_as("new_zeros", [&] { return zeros(sizes, options_like(self, options)); });
}

Tensor new_ones(const Tensor& self, const Shape& sizes, const TensorOptions& options) {
  return called_as("new_ones", [&] { return ones(sizes, options_like(self, options)); });
}

Tensor new_full(const Tensor& self, const Shape& sizes, Scalar value,
                const TensorOptions& options) {
  return called_as("new_full", [&] { return full(sizes, value, options_like(self, options)); });
}

namespace {

// The extent of the elements in bytes.
size_t blob_bytes(const Shape& sizes, const Strides& strides, DType dtype) {
  check(sizes.size() == strides.size(), "from_blob: ", sizes.size(), " sizes but ", strides.size(),
        " strides");
  for (int64_t size : sizes) check(size >= 0, "from_blob: sizes must not be negative, got ", sizes);
  for (int64_t stride : strides)
    check(stride >= 0, "from_blob: strides must not be negative, got ", strides);
  const int64_t extent = storage_extent(sizes, strides, 0, "from_blob");
  multiply_sizes(extent, static_cast<int64_t>(element_size(dtype)), "from_blob");
  return static_cast<size_t>(bytes_of(dtype, extent));
}

template <class Void>
Tensor wrapped(Void* data, const Shape& sizes, const Strides& strides, const TensorOptions& options,
               Owner owner) {
  const DType dtype = options.dtype.value_or(default_dtype());
  const size_t bytes = blob_bytes(sizes, strides, dtype);
  check(data != nullptr || bytes == 0, "from_blob: the address is null");
  const auto storage =
      Storage::wrap(data, bytes, options.device.value_or(Device()), std::move(owner));
  return finished(make_view(storage, sizes, strides, 0, dtype), options);
}

}  // namespace

Tensor from_blob(void* data, const Shape& sizes, const TensorOptions& options, Owner owner) {
  return wrapped(data, sizes, contiguous_strides(sizes), options, std::move(owner));
}

Tensor from_blob(const void* data, const Shape& sizes, const TensorOptions& options, Owner owner) {
  return wrapped(data, sizes, contiguous_strides(sizes), options, std::move(owner));
}

Tensor from_blob(void* data, const Shape& sizes, const Strides& strides,
                 const TensorOptions& options, Owner owner) {
  return wrapped(data, sizes, strides, options, std::move(owner));
}

Tensor from_blob(const void* data, const Shape& sizes, const Strides& strides,
                 const TensorOptions& options, Owner owner) {
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
