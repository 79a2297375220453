#include "tensora/core/tensor.h"

#include "tensora/core/thread_state.h"

namespace tensora {
namespace {

// A quantized tensor consists of whole blocks along its last dim, and so does every view of it.
void check_blocks(const Shape& sizes, const Strides& strides, int64_t offset, DType dtype) {
  const int64_t block = dtype_info(dtype).block_numbers;
  if (block == 1) [[likely]]
    return;
  const int last = sizes.size() - 1;
  bool whole = last >= 0 && sizes[last] % block == 0 && offset % block == 0;
  for (int d = 0; whole && d <= last; ++d)
    whole = sizes[d] <= 1 || (d == last ? strides[d] == 1 : strides[d] % block == 0);
  check(whole, "a ", dtype, " tensor consists of blocks of ", block,
        " numbers along its last dim; sizes ", sizes, ", strides ", strides, " and offset ", offset,
        " would divide them");
}

// Rejects shapes whose byte count overflows before anything is allocated.
size_t storage_bytes(const Shape& sizes, const Strides& strides, DType dtype) {
  for (int64_t size : sizes) check(size >= 0, "empty: sizes must not be negative, got ", sizes);
  const int64_t elements = storage_extent(sizes, strides, 0, "empty");
  int64_t bytes = 0;
  const bool overflow = __builtin_mul_overflow(elements, int64_t(element_size(dtype)), &bytes);
  check(!overflow, "empty: a tensor of shape ", sizes, " has too many elements");
  return static_cast<size_t>(bytes_of(dtype, elements));
}

Tensor finish(IntrusivePtr<TensorImpl>&& impl, IntrusivePtr<Storage>&& storage, int64_t offset,
              DType dtype) {
  View& view = impl->view;
  check_blocks(view.sizes, view.strides, offset, dtype);
  view.dtype = dtype;
  view.device = storage->device();
  if (storage->data()) view.data = static_cast<char*>(storage->data()) + bytes_of(dtype, offset);
  impl->offset = offset;
  impl->storage = std::move(storage);
  return Tensor(std::move(impl));
}

}  // namespace

Tensor make_view(IntrusivePtr<Storage> storage, const Shape& sizes, const Strides& strides,
                 int64_t offset, DType dtype) {
  auto impl = IntrusivePtr<TensorImpl>::adopt(new TensorImpl);
  impl->view.sizes = sizes;
  impl->view.strides = strides;
  impl->view.update();
  return finish(std::move(impl), std::move(storage), offset, dtype);
}

Tensor make_tensor(const Shape& sizes, const Strides& strides, DType dtype, Device device) {
  return make_view(Storage::allocate(storage_bytes(sizes, strides, dtype), device), sizes, strides,
                   0, dtype);
}

Tensor make_tensor(const Shape& sizes, DType dtype, Device device) {
  // The common case of every op: strides, count and the overflow check in one loop. Shapes are
  // copied from a local one, which the compiler knows to be apart from the tensor's: vector moves.
  // Their resize() would be a `rep stos`, which takes longer than all the rest.
  const Shape copied = sizes;
  auto result = IntrusivePtr<TensorImpl>::adopt(new TensorImpl);
  View& view = result->view;
  view.sizes = copied;
  view.strides = copied;
  const DTypeInfo& info = dtype_info(dtype);
  int64_t step = 1;
  bool overflow = false, empty = false, negative = false;
  for (int i = copied.size() - 1; i >= 0; --i) {
    const int64_t size = copied.data()[i];
    negative |= size < 0;
    empty |= size == 0;
    view.strides.data()[i] = step;
    overflow |= __builtin_mul_overflow(step, size == 0 ? 1 : size, &step);
  }
  check(!negative, "empty: sizes must not be negative, got ", sizes);
  int64_t bytes = 0;
  overflow |= __builtin_mul_overflow(step, int64_t{info.block_bytes}, &bytes);
  check(!overflow, "empty: a tensor of shape ", sizes, " has too many elements");
  view.numel = empty ? 0 : step;
  if (empty) bytes = 0;
  if (info.block_numbers != 1) [[unlikely]] {
    check_blocks(view.sizes, view.strides, 0, dtype);
    bytes = bytes_of(dtype, view.numel);
  }
  result->storage = Storage::allocate(static_cast<size_t>(bytes), device);
  view.data = result->storage->data();
  view.dtype = dtype;
  view.device = device;
  return Tensor(std::move(result));
}

Tensor wrap_number(Scalar number) {
  const DType dtype = number.kind() == Scalar::Kind::boolean   ? DType::boolean
                      : number.kind() == Scalar::Kind::integer ? DType::int64
                      : number.is_complex()                    ? DType::complex128
                                                               : DType::float64;
  Tensor result = make_tensor({}, dtype, DeviceType::cpu);
  if (dtype == DType::boolean) *result.impl().view.as<bool>() = number.to<bool>();
  if (dtype == DType::int64) *result.impl().view.as<int64_t>() = number.to<int64_t>();
  if (dtype == DType::float64) *result.impl().view.as<double>() = number.to<double>();
  if (dtype == DType::complex128)
    *result.impl().view.as<Complex<double>>() = number.to<Complex<double>>();
  result.impl().wrapped_number = true;
  return result;
}

int64_t Tensor::element_offset(const Shape& index) const {
  check(index.size() == dim(), "at: expected ", dim(), " indices for shape ", sizes(), ", got ",
        index);
  int64_t offset = 0;
  for (int d = 0; d < index.size(); ++d) {
    const int64_t size = sizes()[d];
    check(index[d] >= -size && index[d] < size, "at: index ", index[d], " is out of range for dim ",
          d, " of size ", size);
    offset += (index[d] < 0 ? index[d] + size : index[d]) * strides()[d];
  }
  return offset;
}

TensorIterator Tensor::begin() const {
  check(dim() > 0, "begin: a tensor without dims cannot be iterated over");
  return {*this, 0};
}

TensorIterator Tensor::end() const { return {*this, size(0)}; }

Scalar Tensor::item() const {
  check(numel() == 1, "item: expected a tensor with one element, got shape ", sizes());
  check(!is_meta(), "item: a meta tensor has no data");
  check(!is_quantized(), "item: a ", dtype(), " tensor has no elements of its own; dequantize it");
  if (thread_state.interceptor) [[unlikely]]
    detail::announce_read(*this);
  alignas(kMaxElementSize) char bytes[kMaxElementSize];
  const size_t count = tensora::element_size(dtype());
  if (is_cpu())
    __builtin_memcpy(bytes, data_ptr(), count);
  else
    tensora::backend(device().type).copy_bytes(bytes, DeviceType::cpu, data_ptr(), device(), count);
  return visit_element(dtype(), [&]<class T>() -> Scalar {
    T value;
    __builtin_memcpy(&value, bytes, sizeof value);
    if constexpr (std::is_same_v<T, bool>)
      return Scalar(value);
    else if constexpr (std::is_same_v<T, uint64_t>) {
      check(value >> 63 == 0, "item: ", value, " exceeds the largest int64, which a Scalar holds; ",
            "use to_vector<uint64_t>");
      return Scalar(static_cast<int64_t>(value));
    } else if constexpr (std::is_integral_v<T>)
      return Scalar(int64_t{value});
    else if constexpr (is_complex_type<T>)
      return Scalar(value);
    else
      return Scalar(double{value});
  });
}

}  // namespace tensora
