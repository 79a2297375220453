#include "tests/suite/cases.h"

#include <utility>

#include "tests/suite/harness.h"

namespace tensora::suite {
namespace {

Device device_under_test;
DType dtype_under_test = kFloat32;

}  // namespace

Device device() { return device_under_test; }
DType dtype() { return dtype_under_test; }

UnderTest::UnderTest(Device device, DType dtype)
    : saved_device_(std::exchange(device_under_test, device)),
      saved_dtype_(std::exchange(dtype_under_test, dtype)) {}
UnderTest::~UnderTest() {
  device_under_test = saved_device_;
  dtype_under_test = saved_dtype_;
}

int64_t Array::offset(const Shape& index) const {
  int64_t position = 0;
  for (int i = 0; i < sizes.size(); ++i) position = position * sizes[i] + index[i];
  return position;
}

void Array::each(const Shape& sizes, const std::function<void(const Shape& index)>& body) {
  const int64_t count = sizes.numel();
  Shape index = Shape::filled(sizes.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    body(index);
    for (int d = sizes.size() - 1; d >= 0 && ++index[d] == sizes[d]; --d) index[d] = 0;
  }
}

Array Array::broadcast_to(const Shape& target) const {
  ensure(can_broadcast_to(sizes, target), "Array: ", sizes, " cannot be broadcast to ", target);
  Array result(target);
  const Strides steps = broadcast_strides(sizes, contiguous_strides(sizes), target);
  int64_t position = 0;
  each(target, [&](const Shape& index) {
    int64_t from = 0;
    for (int d = 0; d < target.size(); ++d) from += index[d] * steps[d];
    result[position++] = (*this)[from];
  });
  return result;
}

std::vector<DType> floating_dtypes() { return {kFloat16, kBFloat16, kFloat32, kFloat64}; }
std::vector<DType> integer_dtypes() { return {kUInt8, kInt8, kInt16, kInt32, kInt64}; }

std::vector<DType> integral_dtypes() {
  std::vector<DType> result = integer_dtypes();
  result.push_back(kBool);
  return result;
}

std::vector<DType> number_dtypes() {
  std::vector<DType> result = floating_dtypes();
  for (DType integer : integer_dtypes()) result.push_back(integer);
  return result;
}

std::vector<DType> all_dtypes() {
  std::vector<DType> result = number_dtypes();
  result.push_back(kBool);
  return result;
}

std::vector<DType> element_dtypes() {
  std::vector<DType> result = all_dtypes();
  for (DType dtype : {kFloat8E4M3, kFloat8E5M2, kComplex64, kComplex128}) result.push_back(dtype);
  return result;
}

}  // namespace tensora::suite
