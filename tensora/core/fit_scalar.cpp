#include "tensora/core/fit_scalar.h"

namespace tensora {
namespace {

[[noreturn, gnu::cold]] void fail_overflow(Scalar value, DType dtype, std::string_view op) {
  const std::string number = value.is_floating() || value.is_complex()
                                 ? concat(value.to<double>())
                                 : concat(value.to<int64_t>());
  fail(op, ": value ", number, " cannot be converted to ", dtype, " without overflow");
}

template <class T>
T integer(Scalar value, DType dtype, std::string_view op) {
  if (!value.fits<T>()) [[unlikely]]
    fail_overflow(value, dtype, op);
  return value.to<T>();
}

// Every floating type represents infinities and NaN.
Scalar floating(Scalar value, double largest, DType dtype, std::string_view op) {
  const double number = value.to<double>();
  const bool finite = number - number == 0;
  if (finite && (number > largest || number < -largest)) [[unlikely]]
    fail_overflow(value, dtype, op);
  return value;
}

}  // namespace

Scalar fit_scalar(Scalar value, DType dtype, std::string_view op) {
  if (value.is_complex() && !is_complex(dtype)) {
    const auto number = value.to<Complex<double>>();
    if (dtype == kBool) return number.re != 0 || number.im != 0;
    check(number.im == 0, op, ": a complex number cannot be stored as ", dtype);
    value = number.re;
  }
  switch (dtype) {
    case DType::boolean:
      return value.to<bool>();
    case DType::uint8:
      return int{integer<uint8_t>(value, dtype, op)};
    case DType::int8:
      return int{integer<int8_t>(value, dtype, op)};
    case DType::int16:
      return int{integer<int16_t>(value, dtype, op)};
    case DType::int32:
      return integer<int32_t>(value, dtype, op);
    case DType::int64:
      return integer<int64_t>(value, dtype, op);
    case DType::uint16:
      return int{integer<uint16_t>(value, dtype, op)};
    case DType::uint32:
      return integer<uint32_t>(value, dtype, op);
    case DType::uint64:
      return integer<uint64_t>(value, dtype, op);
    case DType::float16:
      return floating(value, 65504, dtype, op);
    case DType::bfloat16:
      return floating(value, 0x1.fep127, dtype, op);
    case DType::float32:
      return floating(value, 0x1.fffffep127, dtype, op);
    default:
      return value;
  }
}

}  // namespace tensora
