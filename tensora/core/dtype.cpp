#include "tensora/core/dtype.h"

#include <array>
#include <atomic>

namespace tensora {
namespace {

constexpr std::array<std::string_view, kDTypeCount> kNames = {
    "bool",  "uint8",   "int8",     "int16",   "int32",
    "int64", "float16", "bfloat16", "float32", "float64"};

struct Synonym {
  std::string_view text;
  DType dtype;
};
constexpr Synonym kSynonyms[] = {{"half", DType::float16},   {"float", DType::float32},
                                 {"double", DType::float64}, {"short", DType::int16},
                                 {"int", DType::int32},      {"long", DType::int64}};

std::atomic<DType> default_dtype_value{DType::float32};

}  // namespace

std::string_view name(DType dtype) { return kNames[static_cast<size_t>(dtype)]; }

DType parse_dtype(std::string_view text) {
  for (size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == text) return static_cast<DType>(i);
  for (const Synonym& synonym : kSynonyms)
    if (synonym.text == text) return synonym.dtype;
  fail("dtype: unknown name '", text,
       "'; known are bool uint8 int8 int16 int32 int64 float16 "
       "bfloat16 float32 float64");
}

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  if (a > b) std::swap(a, b);
  // Unlike neighbours whose union neither can hold go one step up: uint8 with a signed type needs
  // a wider signed one, the two 16-bit floats need float32.
  if (a == DType::uint8 && b == DType::int8) return DType::int16;
  if (a == DType::float16 && b == DType::bfloat16) return DType::float32;
  return b;
}

DType default_dtype() { return default_dtype_value.load(std::memory_order_relaxed); }

void set_default_dtype(DType dtype) {
  check(is_floating_point(dtype), "set_default_dtype: expected a floating-point dtype, got ",
        dtype);
  default_dtype_value.store(dtype, std::memory_order_relaxed);
}

}  // namespace tensora
