#include "tensora/ops/creation/empty.h"

#include "tensora/autograd/grad_mode.h"
#include "tensora/core/thread_state.h"
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
  const Device device = options.device.value_or(Device());
  if (!device.is_cpu()) require_device(device);
  const DType dtype = options.dtype.value_or(default_dtype());
  // Memory without contents needs no op, unless somebody follows where tensors come from.
  if (thread_state.interceptor) [[unlikely]]
    return finished(apply(empty_strided_op, Args{}, {sizes, strides, dtype, device}), options);
  return finished(make_tensor(sizes, strides, dtype, device), options);
}

Tensor empty(const Shape& sizes, const TensorOptions& options) {
  for (int64_t size : sizes) check(size >= 0, "empty: sizes must not be negative, got ", sizes);
  return empty_strided(sizes, contiguous_strides(sizes), options);
}

Tensor zeros(const Shape& sizes, const TensorOptions& options) {
  return filled(empty(sizes, without_grad(options)), 0, options);
}

Tensor ones(const Shape& sizes, const TensorOptions& options) {
  return filled(empty(sizes, without_grad(options)), 1, options);
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
  return filled(empty(sizes, without_grad(typed)), value, options);
}

Tensor empty_like(const Tensor& self, const TensorOptions& options) {
  return empty_strided(self.sizes(), kept_strides(self.sizes(), self.strides()),
                       options_like(self, options));
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

Tensor from_blob(void* data, const Shape& sizes, const TensorOptions& options,
                 std::shared_ptr<void> owner) {
  for (int64_t size : sizes) check(size >= 0, "from_blob: sizes must not be negative, got ", sizes);
  check(data != nullptr || sizes.numel() == 0, "from_blob: the address is null");
  const DType dtype = options.dtype.value_or(default_dtype());
  multiply_sizes(sizes.numel(), static_cast<int64_t>(element_size(dtype)), "from_blob");
  const auto bytes = static_cast<size_t>(bytes_of(dtype, sizes.numel()));
  const auto storage =
      Storage::wrap(data, bytes, options.device.value_or(Device()), std::move(owner));
  return finished(make_view(storage, sizes, contiguous_strides(sizes), 0, dtype), options);
}

}  // namespace tensora
