#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "tensora/base/check.h"
#include "tensora/base/complex.h"
#include "tensora/base/float8.h"
#include "tensora/base/half.h"

namespace tensora {

/// Element types. Their order has no meaning; `dtype_info` has the properties of each.
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
  float64,
  complex64,
  complex128,
  float8_e4m3fn,
  float8_e5m2,
  uint16,
  uint32,
  uint64,
  // GGUF's blocks of 32 or 256 numbers with common scales; tensora/ops/quant has a header for each.
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
  mxfp4,
  nf4,  // blocks of 64 numbers: a float16 scale and indices of the 4-bit NormalFloat table
  // LibTorch's names: ScalarType::Float.
  Bool = boolean,
  Byte = uint8,
  Char = int8,
  Short = int16,
  Int = int32,
  Long = int64,
  Half = float16,
  BFloat16 = bfloat16,
  Float = float32,
  Double = float64,
  ComplexFloat = complex64,
  ComplexDouble = complex128,
};
inline constexpr int kDTypeCount = 31;

inline constexpr DType kBool = DType::boolean, kUInt8 = DType::uint8, kInt8 = DType::int8,
                       kInt16 = DType::int16, kInt32 = DType::int32, kInt64 = DType::int64,
                       kFloat16 = DType::float16, kBFloat16 = DType::bfloat16,
                       kFloat32 = DType::float32, kFloat64 = DType::float64,
                       kComplex64 = DType::complex64, kComplex128 = DType::complex128,
                       kFloat8E4M3 = DType::float8_e4m3fn, kFloat8E5M2 = DType::float8_e5m2,
                       kUInt16 = DType::uint16, kUInt32 = DType::uint32, kUInt64 = DType::uint64,
                       kQ4_0 = DType::q4_0, kQ4_1 = DType::q4_1, kQ5_0 = DType::q5_0,
                       kQ5_1 = DType::q5_1, kQ8_0 = DType::q8_0, kQ2_K = DType::q2_k,
                       kQ3_K = DType::q3_k, kQ4_K = DType::q4_k, kQ5_K = DType::q5_k,
                       kQ6_K = DType::q6_k, kIQ4_NL = DType::iq4_nl, kIQ4_XS = DType::iq4_xs,
                       kMXFP4 = DType::mxfp4, kNF4 = DType::nf4;

/// In PyTorch's order of promotion: of two categories the later one wins.
enum class Category : uint8_t { boolean, integer, floating, complex, quantized };

/// All that the library knows about a dtype; a new one is a new row of the table below.
struct DTypeInfo {
  DType dtype;
  std::string_view name;
  Category category;
  uint8_t bits;            // of one number; of each part of a complex one
  uint16_t block_numbers;  // in one element of the storage: 1, but for quantized dtypes
  uint16_t block_bytes;
  bool computes;      // arithmetic is defined; the others store, convert and move values only
  DType accumulates;  // the dtype of its sums
  DType tie;          // the result with a dtype of the same category and width
};

inline constexpr DTypeInfo dtype_info_table[kDTypeCount] = {
    {kBool, "bool", Category::boolean, 8, 1, 1, true, kInt64, kBool},
    {kUInt8, "uint8", Category::integer, 8, 1, 1, true, kInt64, kInt16},
    {kInt8, "int8", Category::integer, 8, 1, 1, true, kInt64, kInt16},
    {kInt16, "int16", Category::integer, 16, 1, 2, true, kInt64, kInt16},
    {kInt32, "int32", Category::integer, 32, 1, 4, true, kInt64, kInt32},
    {kInt64, "int64", Category::integer, 64, 1, 8, true, kInt64, kInt64},
    {kFloat16, "float16", Category::floating, 16, 1, 2, true, kFloat32, kFloat32},
    {kBFloat16, "bfloat16", Category::floating, 16, 1, 2, true, kFloat32, kFloat32},
    {kFloat32, "float32", Category::floating, 32, 1, 4, true, kFloat32, kFloat32},
    {kFloat64, "float64", Category::floating, 64, 1, 8, true, kFloat64, kFloat64},
    {kComplex64, "complex64", Category::complex, 32, 1, 8, true, kComplex64, kComplex64},
    {kComplex128, "complex128", Category::complex, 64, 1, 16, true, kComplex128, kComplex128},
    {kFloat8E4M3, "float8_e4m3fn", Category::floating, 8, 1, 1, false, kFloat32, kFloat8E4M3},
    {kFloat8E5M2, "float8_e5m2", Category::floating, 8, 1, 1, false, kFloat32, kFloat8E5M2},
    {kUInt16, "uint16", Category::integer, 16, 1, 2, false, kInt64, kUInt16},
    {kUInt32, "uint32", Category::integer, 32, 1, 4, false, kInt64, kUInt32},
    {kUInt64, "uint64", Category::integer, 64, 1, 8, false, kInt64, kUInt64},
    {kQ4_0, "q4_0", Category::quantized, 4, 32, 18, false, kFloat32, kQ4_0},
    {kQ4_1, "q4_1", Category::quantized, 4, 32, 20, false, kFloat32, kQ4_1},
    {kQ5_0, "q5_0", Category::quantized, 5, 32, 22, false, kFloat32, kQ5_0},
    {kQ5_1, "q5_1", Category::quantized, 5, 32, 24, false, kFloat32, kQ5_1},
    {kQ8_0, "q8_0", Category::quantized, 8, 32, 34, false, kFloat32, kQ8_0},
    {kQ2_K, "q2_k", Category::quantized, 2, 256, 84, false, kFloat32, kQ2_K},
    {kQ3_K, "q3_k", Category::quantized, 3, 256, 110, false, kFloat32, kQ3_K},
    {kQ4_K, "q4_k", Category::quantized, 4, 256, 144, false, kFloat32, kQ4_K},
    {kQ5_K, "q5_k", Category::quantized, 5, 256, 176, false, kFloat32, kQ5_K},
    {kQ6_K, "q6_k", Category::quantized, 6, 256, 210, false, kFloat32, kQ6_K},
    {kIQ4_NL, "iq4_nl", Category::quantized, 4, 32, 18, false, kFloat32, kIQ4_NL},
    {kIQ4_XS, "iq4_xs", Category::quantized, 4, 256, 136, false, kFloat32, kIQ4_XS},
    {kMXFP4, "mxfp4", Category::quantized, 4, 32, 17, false, kFloat32, kMXFP4},
    {kNF4, "nf4", Category::quantized, 4, 64, 34, false, kFloat32, kNF4},
};
consteval bool rows_follow_the_enum() {
  for (int i = 0; i < kDTypeCount; ++i)
    if (dtype_info_table[i].dtype != static_cast<DType>(i)) return false;
  return true;
}
static_assert(rows_follow_the_enum());

constexpr const DTypeInfo& dtype_info(DType dtype) {
  return dtype_info_table[static_cast<int>(dtype)];
}

/// Bytes of an element; of a quantized dtype, of a block. `bytes_of` serves both.
constexpr size_t element_size(DType dtype) { return dtype_info(dtype).block_bytes; }
/// Bytes of that many contiguous numbers; of a quantized dtype, a whole number of blocks.
constexpr int64_t bytes_of(DType dtype, int64_t numbers) {
  const DTypeInfo& info = dtype_info(dtype);
  return (info.block_numbers == 1 ? numbers : numbers / info.block_numbers) * info.block_bytes;
}
inline constexpr size_t kMaxElementSize = 16;  // of dtypes without blocks

constexpr bool is_floating_point(DType dtype) {
  return dtype_info(dtype).category == Category::floating;
}
/// Integers without bool, as in PyTorch.
constexpr bool is_integral(DType dtype) { return dtype_info(dtype).category == Category::integer; }
constexpr bool is_complex(DType dtype) { return dtype_info(dtype).category == Category::complex; }
constexpr bool is_quantized(DType dtype) {
  return dtype_info(dtype).category == Category::quantized;
}
/// PyTorch's "barebones" unsigned types: they convert and compare, but few ops compute with them.
constexpr bool is_wide_unsigned(DType dtype) {
  return dtype == kUInt16 || dtype == kUInt32 || dtype == kUInt64;
}
/// The signed type of a wide unsigned type's size, for what only moves bits; any other dtype
/// itself.
constexpr DType signed_dtype(DType dtype) {
  return dtype == kUInt16 ? kInt16 : dtype == kUInt32 ? kInt32 : dtype == kUInt64 ? kInt64 : dtype;
}
/// Whether gradients of such numbers exist.
constexpr bool is_differentiable(DType dtype) {
  return is_floating_point(dtype) || is_complex(dtype);
}
/// The dtype of a complex dtype's parts; any other dtype itself.
constexpr DType real_dtype(DType dtype) {
  return dtype == kComplex64 ? kFloat32 : dtype == kComplex128 ? kFloat64 : dtype;
}
/// The complex dtype with parts of a floating dtype; complex64 for the narrow ones.
constexpr DType complex_dtype(DType dtype) {
  return dtype_info(dtype).bits == 64 && is_differentiable(dtype) ? kComplex128 : kComplex64;
}

/// A set of dtypes, one bit each: what an op accepts.
using DTypeSet = uint32_t;
constexpr DTypeSet set_of(DType dtype) { return DTypeSet{1} << static_cast<int>(dtype); }
template <class Predicate>
consteval DTypeSet dtypes_where(Predicate predicate) {
  DTypeSet result = 0;
  for (const DTypeInfo& info : dtype_info_table)
    if (predicate(info)) result |= set_of(info.dtype);
  return result;
}
constexpr bool contains(DTypeSet set, DType dtype) { return (set & set_of(dtype)) != 0; }
/// bool, integers and the floating types that compute.
inline constexpr DTypeSet kRealDTypes = dtypes_where(
    [](const DTypeInfo& info) { return info.computes && info.category <= Category::floating; });
inline constexpr DTypeSet kComplexDTypes =
    dtypes_where([](const DTypeInfo& info) { return info.category == Category::complex; });
inline constexpr DTypeSet kComputingDTypes = kRealDTypes | kComplexDTypes;
/// Every dtype with individual elements: all but the quantized ones.
inline constexpr DTypeSet kElementDTypes =
    dtypes_where([](const DTypeInfo& info) { return info.block_numbers == 1; });
inline constexpr DTypeSet kAllDTypes = dtypes_where([](const DTypeInfo&) { return true; });

/// "float32", "int64", "bool", …
constexpr std::string_view name(DType dtype) { return dtype_info(dtype).name; }
/// Accepts the names of `name()` and PyTorch's synonyms ("float", "long", "half", …).
DType parse_dtype(std::string_view text);
inline void append(std::string& out, DType dtype) { out += name(dtype); }

/// PyTorch's `promote_types`; throws where one of two different dtypes does not compute.
DType promote_types(DType a, DType b);

/// What float factories and integer-to-float promotion give: float32 unless changed.
DType default_dtype();
void set_default_dtype(DType dtype);

/// The dtype whose elements are the C++ type `T`, and the type in which they are accumulated.
template <class T>
struct DTypeOf;
template <DType dtype, class Sum>
struct ElementOf {
  static constexpr DType value = dtype;
  using accumulate = Sum;
};
template <>
struct DTypeOf<bool> : ElementOf<kBool, int64_t> {};
template <>
struct DTypeOf<uint8_t> : ElementOf<kUInt8, int64_t> {};
template <>
struct DTypeOf<int8_t> : ElementOf<kInt8, int64_t> {};
template <>
struct DTypeOf<int16_t> : ElementOf<kInt16, int64_t> {};
template <>
struct DTypeOf<int32_t> : ElementOf<kInt32, int64_t> {};
template <>
struct DTypeOf<int64_t> : ElementOf<kInt64, int64_t> {};
template <>
struct DTypeOf<uint16_t> : ElementOf<kUInt16, int64_t> {};
template <>
struct DTypeOf<uint32_t> : ElementOf<kUInt32, int64_t> {};
template <>
struct DTypeOf<uint64_t> : ElementOf<kUInt64, int64_t> {};
template <>
struct DTypeOf<Half> : ElementOf<kFloat16, float> {};
template <>
struct DTypeOf<BFloat16> : ElementOf<kBFloat16, float> {};
template <>
struct DTypeOf<float> : ElementOf<kFloat32, float> {};
template <>
struct DTypeOf<double> : ElementOf<kFloat64, double> {};
template <>
struct DTypeOf<Complex<float>> : ElementOf<kComplex64, Complex<float>> {};
template <>
struct DTypeOf<Complex<double>> : ElementOf<kComplex128, Complex<double>> {};
template <>
struct DTypeOf<Float8E4M3> : ElementOf<kFloat8E4M3, float> {};
template <>
struct DTypeOf<Float8E5M2> : ElementOf<kFloat8E5M2, float> {};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;
/// Half types accumulate in float, integers in int64.
template <class T>
using accumulate_t = typename DTypeOf<T>::accumulate;

/// Calls `body.template operator()<T>()` with the C++ type of a real dtype that computes: what the
/// kernels of ops are written for, unless their description says more.
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
    default:
      fail("there is no kernel for ", dtype);
  }
}

/// The same for complex dtypes too.
template <class Body>
decltype(auto) visit_computing(DType dtype, Body&& body) {
  if (dtype == DType::complex64) return body.template operator()<Complex<float>>();
  if (dtype == DType::complex128) return body.template operator()<Complex<double>>();
  return visit_dtype(dtype, body);
}

/// The same for every dtype that is not quantized.
template <class Body>
decltype(auto) visit_element(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::float8_e4m3fn:
      return body.template operator()<Float8E4M3>();
    case DType::float8_e5m2:
      return body.template operator()<Float8E5M2>();
    case DType::uint16:
      return body.template operator()<uint16_t>();
    case DType::uint32:
      return body.template operator()<uint32_t>();
    case DType::uint64:
      return body.template operator()<uint64_t>();
    default:
      return visit_computing(dtype, body);
  }
}

/// The same for the four floating types that compute; anything else throws, naming `op`.
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

/// Sixteen bytes that are moved as one unit.
struct alignas(16) Bytes16 {
  uint64_t words[2];
};
/// Calls `body.template operator()<T>()` with a type of an element's size: moving elements does not
/// depend on what they mean.
template <class Body>
decltype(auto) visit_element_size(DType dtype, Body&& body) {
  switch (element_size(dtype)) {
    case 1:
      return body.template operator()<uint8_t>();
    case 2:
      return body.template operator()<uint16_t>();
    case 4:
      return body.template operator()<uint32_t>();
    case 8:
      return body.template operator()<uint64_t>();
    case 16:
      return body.template operator()<Bytes16>();
    default:
      fail_internal("visit_element_size: called for ", dtype);
  }
}

}  // namespace tensora
