#include "tensora/core/fit_scalar.h"

namespace tensora {
namespace {

template <class T>
T fitted(Scalar value, DType dtype, std::string_view op) {
  if (!value.fits<T>()) [[unlikely]] {
    const std::string number =
        value.is_floating() ? concat(value.to<double>()) : concat(value.to<int64_t>());
    fail(op, ": value ", number, " cannot be converted to ", dtype, " without overflow");
  }
  return value.to<T>();
}

}  // namespace

Scalar fit_scalar(Scalar value, DType dtype, std::string_view op) {
  check(!value.is_complex() || is_complex(dtype) || dtype == kBool, op,
        ": a complex number cannot be stored as ", dtype);
  switch (dtype) {
    case DType::boolean:
      return value.to<bool>();
    case DType::uint8:
      return int{fitted<uint8_t>(value, dtype, op)};
    case DType::int8:
      return int{fitted<int8_t>(value, dtype, op)};
    case DType::int16:
      return int{fitted<int16_t>(value, dtype, op)};
    case DType::int32:
      return fitted<int32_t>(value, dtype, op);
    case DType::int64:
      return fitted<int64_t>(value, dtype, op);
    case DType::float32:
      fitted<float>(value, dtype, op);
      return value;
    default:
      return value;
  }
}

}  // namespace tensora
