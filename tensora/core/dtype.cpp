#include "tensora/core/dtype.h"

#include <algorithm>
#include <atomic>

namespace tensora {
namespace {

struct Synonym {
  std::string_view text;
  DType dtype;
};
constexpr Synonym kSynonyms[] = {
    {"half", kFloat16}, {"float", kFloat32}, {"double", kFloat64},   {"short", kInt16},
    {"int", kInt32},    {"long", kInt64},    {"cfloat", kComplex64}, {"cdouble", kComplex128}};

// The table must agree with the C++ types.
template <class... T>
consteval bool agree() {
  return ((sizeof(T) == element_size(dtype_of<T>) && sizeof(T) <= kMaxElementSize &&
           dtype_of<accumulate_t<T>> == dtype_info(dtype_of<T>).accumulates) &&
          ...);
}
static_assert(
    agree<bool, uint8_t, int8_t, int16_t, int32_t, int64_t, Half, BFloat16, float, double,
          Complex<float>, Complex<double>, Float8E4M3, Float8E5M2, uint16_t, uint32_t, uint64_t>());

std::atomic<DType> default_dtype_value{DType::float32};

}  // namespace

DType parse_dtype(std::string_view text) {
  for (const DTypeInfo& info : dtype_info_table)
    if (info.name == text) return info.dtype;
  for (const Synonym& synonym : kSynonyms)
    if (synonym.text == text) return synonym.dtype;
  std::string known;
  for (const DTypeInfo& info : dtype_info_table) known += concat(" ", info.name);
  fail("dtype: unknown name '", text, "'; known are", known);
}

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  const DTypeInfo *low = &dtype_info(a), *high = &dtype_info(b);
  // The wide unsigned types have no common type with integers, as in PyTorch.
  if (is_wide_unsigned(a) && is_differentiable(b) && high->computes) return b;
  if (is_wide_unsigned(b) && is_differentiable(a) && low->computes) return a;
  check(low->computes && high->computes, "promote_types: there is no common dtype of ", a, " and ",
        b, "; cast one of them");
  if (low->category > high->category) std::swap(low, high);
  // The parts of a complex result are as wide as the other dtype.
  if (high->category == Category::complex)
    return low->bits == 64 && is_differentiable(low->dtype) ? kComplex128 : high->dtype;
  if (low->category != high->category) return high->dtype;
  // Of equal width, neither dtype can represent the other.
  if (low->bits == high->bits) return low->tie;
  return low->bits > high->bits ? low->dtype : high->dtype;
}

DType default_dtype() { return default_dtype_value.load(std::memory_order_relaxed); }

void set_default_dtype(DType dtype) {
  check(is_floating_point(dtype) && dtype_info(dtype).computes,
        "set_default_dtype: expected a floating-point dtype that computes, got ", dtype);
  default_dtype_value.store(dtype, std::memory_order_relaxed);
}

}  // namespace tensora
