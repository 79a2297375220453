// Registers nothing: factories, which run no op or those of other rooms.
#include "tensora/ops/creation/tensor.h"

#include "tensora/autograd/grad_mode.h"
#include "tensora/core/fit_scalar.h"
#include "tensora/core/thread_state.h"
#include "tensora/ops/copy/copy.h"

namespace tensora {
namespace {

DType inferred(Scalar::Kind kind) {
  return kind == Scalar::Kind::complex    ? complex_dtype(default_dtype())
         : kind == Scalar::Kind::floating ? default_dtype()
         : kind == Scalar::Kind::integer  ? kInt64
                                          : kBool;
}

// Converts a newly filled host tensor to the dtype and device of the options.
Tensor finished(const Tensor& host, DType dtype, const TensorOptions& options) {
  const no_grad silent;
  Tensor result = to(host, dtype);
  // An interceptor may keep the numbers; each run of the function has a tensor of its own.
  if (thread_state.interceptor && result.is_same(host)) [[unlikely]]
    result = clone(result);
  if (options.device) result = to(result, *options.device);
  if (thread_state.inference_mode) result.impl().inference = true;
  if (options.requires_grad) result.requires_grad_();
  return result;
}

template <class T>
void store(const Tensor& host, const std::vector<Scalar>& values) {
  T* target = host.data_ptr<T>();
  for (const Scalar& value : values) *target++ = value.to<T>();
}

}  // namespace

void NestedList::add(const NestedList& item) {
  const int64_t index = count_ < 0 ? 0 : count_;
  count_ = index + 1;
  if (index == 0) {
    sizes_ = item.sizes_;
    category_ = item.category_;
    own_dtype_ = item.own_dtype_;
  } else {
    category_ = std::max(category_, item.category_);
    if (own_dtype_ != item.own_dtype_) own_dtype_.reset();
  }
  values_.insert(values_.end(), item.values_.begin(), item.values_.end());
  if (ragged_dim_ >= 0) return;
  if (item.ragged_dim_ >= 0) {
    ragged_dim_ = item.ragged_dim_ + 1;
    ragged_expected_ = item.ragged_expected_;
    ragged_got_ = item.ragged_got_;
    return;
  }
  const int depth = std::min(sizes_.size(), item.sizes_.size());
  for (int d = 0; d < depth; ++d) {
    if (item.sizes_[d] == sizes_[d]) continue;
    ragged_dim_ = d + 1;
    ragged_expected_ = sizes_[d];
    ragged_got_ = item.sizes_[d];
    return;
  }
  if (sizes_.size() == item.sizes_.size()) return;
  // A number among lists, or the other way round: -1 stands for the number.
  ragged_dim_ = depth + 1;
  ragged_expected_ = sizes_.size() > depth ? sizes_[depth] : -1;
  ragged_got_ = item.sizes_.size() > depth ? item.sizes_[depth] : -1;
}

void NestedList::finish() {
  if (count_ < 0) count_ = 0;
  sizes_.insert(0, count_);
}

const Shape& NestedList::sizes() const {
  if (ragged_dim_ < 0) return sizes_;
  const auto what = [](int64_t count) {
    return count < 0 ? std::string("a number") : concat("a list of length ", count);
  };
  fail("tensor: the lists are ragged: expected ", what(ragged_expected_), " at dim ", ragged_dim_,
       ", got ", what(ragged_got_));
}

Tensor tensor(const NestedList& data, const TensorOptions& options) {
  const Shape& sizes = data.sizes();
  // Numbers pass through a type that holds them exactly, so that int64 keeps all its digits.
  const Scalar::Kind kind = data.category();
  const DType dtype = options.dtype.value_or(data.own_dtype().value_or(inferred(kind)));
  const bool is_complex = kind == Scalar::Kind::complex, floating = kind == Scalar::Kind::floating;
  const DType exact = is_complex ? kComplex128 : floating ? kFloat64 : kInt64;
  const Tensor host = make_tensor(sizes, exact, Device());
  if (is_complex)
    store<Complex<double>>(host, data.values());
  else if (floating)
    store<double>(host, data.values());
  else
    store<int64_t>(host, data.values());
  if (is_complex || !is_floating_point(dtype))
    for (const Scalar& value : data.values()) fit_scalar(value, dtype, "tensor");
  return finished(host, dtype, options);
}

Tensor detail::tensor_from(const void* data, int64_t count, DType dtype,
                           const TensorOptions& options) {
  const Tensor host = make_tensor({count}, dtype, Device());
  if (count != 0) __builtin_memcpy(host.data_ptr(), data, host.nbytes());
  const bool usual_float = dtype == kFloat32 || dtype == kFloat64;
  const DType wanted = is_complex(dtype) ? complex_dtype(default_dtype())
                       : usual_float     ? default_dtype()
                       : dtype == kInt32 ? kInt64
                                         : dtype;
  return finished(host, options.dtype.value_or(wanted), options);
}

template <class T>
std::vector<T> to_vector(const Tensor& tensor) {
  check(!tensor.is_meta(), "to_vector: a meta tensor has no data");
  const no_grad silent;
  const Tensor host = contiguous(to(tensor.cpu(), dtype_of<T>));
  const T* data = host.data_ptr<T>();
  return std::vector<T>(data, data + host.numel());
}
template std::vector<bool> to_vector(const Tensor&);
template std::vector<uint8_t> to_vector(const Tensor&);
template std::vector<int8_t> to_vector(const Tensor&);
template std::vector<int16_t> to_vector(const Tensor&);
template std::vector<int32_t> to_vector(const Tensor&);
template std::vector<int64_t> to_vector(const Tensor&);
template std::vector<uint16_t> to_vector(const Tensor&);
template std::vector<uint32_t> to_vector(const Tensor&);
template std::vector<uint64_t> to_vector(const Tensor&);
template std::vector<Half> to_vector(const Tensor&);
template std::vector<BFloat16> to_vector(const Tensor&);
template std::vector<float> to_vector(const Tensor&);
template std::vector<double> to_vector(const Tensor&);
template std::vector<Complex<float>> to_vector(const Tensor&);
template std::vector<Complex<double>> to_vector(const Tensor&);
template std::vector<Float8E4M3> to_vector(const Tensor&);
template std::vector<Float8E5M2> to_vector(const Tensor&);

Scalar at(const Tensor& self, const Shape& index) {
  const int64_t offset = self.storage_offset() + self.element_offset(index);
  return make_view(self.impl().storage, {}, {}, offset, self.dtype()).item();
}

}  // namespace tensora
