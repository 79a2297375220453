#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "tensora/base/check.h"
#include "tensora/base/half.h"

namespace tensora {

/// Element types, in PyTorch's order of promotion within each category.
enum class DType : uint8_t {
  boolean,
  uint8,
  int8,
  int16,
  int32,
  int64,
  float16,
  bfloat16,
  float32,
  float64
};
inline constexpr int kDTypeCount = 10;

inline constexpr DType kBool = DType::boolean, kUInt8 = DType::uint8, kInt8 = DType::int8,
                       kInt16 = DType::int16, kInt32 = DType::int32, kInt64 = DType::int64,
                       kFloat16 = DType::float16, kBFloat16 = DType::bfloat16,
                       kFloat32 = DType::float32, kFloat64 = DType::float64;

constexpr size_t element_size(DType dtype) {
  constexpr uint8_t sizes[kDTypeCount] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8};
  return sizes[static_cast<int>(dtype)];
}
constexpr bool is_floating_point(DType dtype) { return dtype >= DType::float16; }
/// Integers without bool, as in PyTorch.
constexpr bool is_integral(DType dtype) { return dtype >= DType::uint8 && dtype <= DType::int64; }

/// "float32", "int64", "bool", …
std::string_view name(DType dtype);
/// Accepts the names of `name()` and PyTorch's synonyms ("float", "long", "half", …).
DType parse_dtype(std::string_view text);
inline void append(std::string& out, DType dtype) { out += name(dtype); }

/// PyTorch's `promote_types`.
DType promote_types(DType a, DType b);

/// What float factories and integer-to-float promotion give: float32 unless changed.
DType default_dtype();
void set_default_dtype(DType dtype);

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::boolean;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::uint8;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::int8;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr DType value = DType::int16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::int32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::int64;
};
template <>
struct DTypeOf<Half> {
  static constexpr DType value = DType::float16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bfloat16;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::float32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::float64;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

/// Calls `body.template operator()<T>()` with the C++ type of `dtype`.
template <class Body>
decltype(auto) visit_dtype(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::boolean:
      return body.template operator()<bool>();
    case DType::uint8:
      return body.template operator()<uint8_t>();
    case DType::int8:
      return body.template operator()<int8_t>();
    case DType::int16:
      return body.template operator()<int16_t>();
    case DType::int32:
      return body.template operator()<int32_t>();
    case DType::int64:
      return body.template operator()<int64_t>();
    case DType::float16:
      return body.template operator()<Half>();
    case DType::bfloat16:
      return body.template operator()<BFloat16>();
    case DType::float32:
      return body.template operator()<float>();
    case DType::float64:
      return body.template operator()<double>();
  }
  fail_internal("visit_dtype: no such dtype ", static_cast<int>(dtype));
}

/// The same for the four floating types; anything else throws, naming `op`.
template <class Body>
decltype(auto) visit_floating(DType dtype, std::string_view op, Body&& body) {
  switch (dtype) {
    case DType::float16:
      return body.template operator()<Half>();
    case DType::bfloat16:
      return body.template operator()<BFloat16>();
    case DType::float32:
      return body.template operator()<float>();
    case DType::float64:
      return body.template operator()<double>();
    default:
      fail(op, ": expected a floating-point dtype, got ", dtype);
  }
}

/// The type in which sums of `T` are kept: half types in float, integers in int64.
template <class T>
struct Accumulate {
  using type = int64_t;
};
template <>
struct Accumulate<Half> {
  using type = float;
};
template <>
struct Accumulate<BFloat16> {
  using type = float;
};
template <>
struct Accumulate<float> {
  using type = float;
};
template <>
struct Accumulate<double> {
  using type = double;
};
template <class T>
using accumulate_t = typename Accumulate<T>::type;

}  // namespace tensora
