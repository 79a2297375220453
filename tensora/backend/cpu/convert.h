#pragma once

// Loading elements of any dtype and stride into a contiguous tile of a compute type, and storing
// them back.

#include <cstdint>

#include "tensora/core/dtype.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace tensora::cpu::TENSORA_ISA {

// Types that convert from and to float alone.
template <class T>
inline constexpr bool is_small_float =
    std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> || std::is_same_v<T, Float8E4M3> ||
    std::is_same_v<T, Float8E5M2>;

template <class C, class T>
inline C convert_element(T value) {
  if constexpr (is_complex_type<C> && !is_complex_type<T>)
    return C(convert_element<decltype(C::re)>(value));
  else if constexpr (is_small_float<T>)
    return static_cast<C>(static_cast<float>(value));
  else
    return static_cast<C>(value);
}

template <class T, class C>
inline T store_element(C value) {
  if constexpr (std::is_same_v<T, bool>)
    return value != C(0);
  else if constexpr (is_complex_type<C> && !is_complex_type<T>)
    return store_element<T>(value.re);
  else if constexpr (is_small_float<T>)
    return T(static_cast<float>(value));
  else if constexpr (std::is_floating_point_v<C> && std::is_integral_v<T> && sizeof(T) < 4)
    return static_cast<T>(static_cast<int32_t>(value));  // wraps like PyTorch's casts
  else if constexpr (std::is_floating_point_v<C> && std::is_same_v<T, uint32_t>)
    return static_cast<T>(static_cast<int64_t>(value));
  else if constexpr (std::is_floating_point_v<C> && std::is_same_v<T, uint64_t>)
    return value < C(0x1p63) ? static_cast<T>(static_cast<int64_t>(value)) : static_cast<T>(value);
  else
    return static_cast<T>(value);
}

template <class T, class C>
void load_tile(const void* from, int64_t stride, int64_t n, void* to) {
  const T* source = static_cast<const T*>(from);
  C* target = static_cast<C*>(to);
  if (stride == 0) {
    const C value = convert_element<C>(*source);
    for (int64_t i = 0; i < n; ++i) target[i] = value;
    return;
  }
  if (stride != 1) {
    for (int64_t i = 0; i < n; ++i) target[i] = convert_element<C>(source[i * stride]);
    return;
  }
  int64_t i = 0;
#if defined(__F16C__)
  if constexpr (std::is_same_v<T, Half> && std::is_same_v<C, float>)
    for (; i + 8 <= n; i += 8)
      _mm256_storeu_ps(
          target + i,
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i))));
#endif
#pragma omp simd
  for (int64_t j = i; j < n; ++j) target[j] = convert_element<C>(source[j]);
}

template <class T, class C>
void store_tile(const void* from, void* to, int64_t stride, int64_t n) {
  const C* source = static_cast<const C*>(from);
  T* target = static_cast<T*>(to);
  if (stride != 1) {
    for (int64_t i = 0; i < n; ++i) target[i * stride] = store_element<T>(source[i]);
    return;
  }
  int64_t i = 0;
#if defined(__F16C__)
  if constexpr (std::is_same_v<T, Half> && std::is_same_v<C, float>)
    for (; i + 8 <= n; i += 8)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(target + i),
                       _mm256_cvtps_ph(_mm256_loadu_ps(source + i), _MM_FROUND_TO_NEAREST_INT));
#endif
#pragma omp simd
  for (int64_t j = i; j < n; ++j) target[j] = store_element<T>(source[j]);
}

/// Elements at `from`, `stride` apart (in elements), into n contiguous values of the compute type.
using LoadFn = void (*)(const void* from, int64_t stride, int64_t n, void* to);
/// The reverse.
using StoreFn = void (*)(const void* from, void* to, int64_t stride, int64_t n);

template <class Function, class Make>
Function wide_unsigned_fn(DType dtype, Make make) {
  if (dtype == DType::uint16) return make.template operator()<uint16_t>();
  if (dtype == DType::uint32) return make.template operator()<uint32_t>();
  return make.template operator()<uint64_t>();
}

// Which conversions exist: complex compute types convert from and to all dtypes; 8-bit floats are
// loaded as float and stored from any compute type; uint16, uint32 and uint64 are loaded as any
// compute type but int32, and stored from any.
template <class C>
LoadFn load_fn(DType dtype) {
  constexpr auto load = []<class T>() -> LoadFn { return load_tile<T, C>; };
  if constexpr (is_complex_type<C>) return visit_element(dtype, load);
  if constexpr (std::is_same_v<C, float>) {
    if (dtype == DType::float8_e4m3fn) return load_tile<Float8E4M3, float>;
    if (dtype == DType::float8_e5m2) return load_tile<Float8E5M2, float>;
  }
  if constexpr (!std::is_same_v<C, int32_t>)
    if (is_wide_unsigned(dtype)) return wide_unsigned_fn<LoadFn>(dtype, load);
  return visit_dtype(dtype, load);
}
template <class C>
StoreFn store_fn(DType dtype) {
  constexpr auto store = []<class T>() -> StoreFn { return store_tile<T, C>; };
  if constexpr (is_complex_type<C>) return visit_element(dtype, store);
  if (dtype == DType::float8_e4m3fn) return store_tile<Float8E4M3, C>;
  if (dtype == DType::float8_e5m2) return store_tile<Float8E5M2, C>;
  if (is_wide_unsigned(dtype)) return wide_unsigned_fn<StoreFn>(dtype, store);
  return visit_dtype(dtype, store);
}

}  // namespace tensora::cpu::TENSORA_ISA
