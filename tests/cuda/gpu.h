#pragma once

#include <gtest/gtest.h>
#include <cmath>

#include "tensora/tensora.h"

namespace tensora::test {

/// Skips a test where there is no GPU, and says why.
class Gpu : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = unavailable_reason(DeviceType::cuda);
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
};

/// What an Error that `body` throws says.
template <class Body>
std::string message_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

inline const Device kCuda = Device(DeviceType::cuda);

/// The same values in shape, dtype and, within the tolerance, in number; NaN equals NaN.
inline void expect_close(const Tensor& actual, const Tensor& expected, double tolerance = 1e-5) {
  ASSERT_EQ(to_string(actual.sizes()), to_string(expected.sizes()));
  ASSERT_EQ(name(actual.dtype()), name(expected.dtype()));
  const Tensor a = actual.detach().cpu().to(kFloat64).contiguous();
  const Tensor b = expected.detach().cpu().to(kFloat64).contiguous();
  const double *x = a.data_ptr<double>(), *y = b.data_ptr<double>();
  for (int64_t i = 0; i < a.numel(); ++i) {
    if ((std::isnan(x[i]) && std::isnan(y[i])) || x[i] == y[i]) continue;
    ASSERT_LE(std::abs(x[i] - y[i]), tolerance * (1 + std::abs(y[i])))
        << "element " << i << ": " << x[i] << " instead of " << y[i];
  }
}

/// Differs by at most `share` of the largest expected number.
inline void expect_near(const Tensor& actual, const Tensor& expected, double share) {
  ASSERT_EQ(to_string(actual.sizes()), to_string(expected.sizes()));
  const Tensor a = actual.cpu().to(kFloat64).contiguous();
  const Tensor b = expected.cpu().to(kFloat64).contiguous();
  const double *x = a.data_ptr<double>(), *y = b.data_ptr<double>();
  double largest = 0;
  for (int64_t i = 0; i < b.numel(); ++i) largest = std::max(largest, std::abs(y[i]));
  for (int64_t i = 0; i < a.numel(); ++i)
    ASSERT_LE(std::abs(x[i] - y[i]), share * largest)  // false for NaN
        << "element " << i << " of " << a.numel() << ": " << x[i] << " instead of " << y[i]
        << ", the largest is " << largest;
}

/// Deterministic values in [low, high) that differ from element to element.
inline Tensor sample(const Shape& sizes, DType dtype = kFloat32, double low = -2, double high = 2) {
  Tensor values = empty(sizes, {.dtype = kFloat64});
  double* data = values.data_ptr<double>();
  for (int64_t i = 0; i < values.numel(); ++i) {
    const auto mixed = static_cast<uint64_t>(i + 1) * 0x9E3779B97F4A7C15ull;
    data[i] = low + (high - low) * static_cast<double>(mixed >> 40) / double(1 << 24);
  }
  return values.to(dtype);
}

}  // namespace tensora::test
