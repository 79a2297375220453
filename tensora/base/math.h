#pragma once

// The elementary functions that functors call, for every arithmetic value type. On the host the
// declarations below let the compiler use the C library's vector versions (libmvec) inside loops;
// in CUDA the same names are the device functions.

#include "tensora/base/host_device.h"

#if !defined(__CUDACC__)
// See Note [Vector maths]: glibc ships SIMD versions of these; the pragma tells the compiler so
// without asking for -ffast-math, which would give up NaN and infinity.
extern "C" {
#define TENSORA_VECTOR_MATH(fn)                                  \
  _Pragma("omp declare simd notinbranch") double fn(double) noexcept;\
  _Pragma("omp declare simd notinbranch") float fn##f(float) noexcept;
TENSORA_VECTOR_MATH(exp)
TENSORA_VECTOR_MATH(exp2)
TENSORA_VECTOR_MATH(expm1)
TENSORA_VECTOR_MATH(log)
TENSORA_VECTOR_MATH(log2)
TENSORA_VECTOR_MATH(log10)
TENSORA_VECTOR_MATH(log1p)
TENSORA_VECTOR_MATH(sin)
TENSORA_VECTOR_MATH(cos)
TENSORA_VECTOR_MATH(tan)
TENSORA_VECTOR_MATH(asin)
TENSORA_VECTOR_MATH(acos)
TENSORA_VECTOR_MATH(atan)
TENSORA_VECTOR_MATH(sinh)
TENSORA_VECTOR_MATH(cosh)
TENSORA_VECTOR_MATH(tanh)
TENSORA_VECTOR_MATH(asinh)
TENSORA_VECTOR_MATH(acosh)
TENSORA_VECTOR_MATH(atanh)
TENSORA_VECTOR_MATH(erf)
TENSORA_VECTOR_MATH(erfc)
#undef TENSORA_VECTOR_MATH
}
#endif

namespace tensora::math {

#define TENSORA_MATH_FUNCTION(fn)                           \
  TENSORA_HD inline float fn(float x) { return ::fn##f(x); }  \
  TENSORA_HD inline double fn(double x) { return ::fn(x); }
TENSORA_MATH_FUNCTION(exp)
TENSORA_MATH_FUNCTION(exp2)
TENSORA_MATH_FUNCTION(expm1)
TENSORA_MATH_FUNCTION(log)
TENSORA_MATH_FUNCTION(log2)
TENSORA_MATH_FUNCTION(log10)
TENSORA_MATH_FUNCTION(log1p)
TENSORA_MATH_FUNCTION(sin)
TENSORA_MATH_FUNCTION(cos)
TENSORA_MATH_FUNCTION(tan)
TENSORA_MATH_FUNCTION(asin)
TENSORA_MATH_FUNCTION(acos)
TENSORA_MATH_FUNCTION(atan)
TENSORA_MATH_FUNCTION(sinh)
TENSORA_MATH_FUNCTION(cosh)
TENSORA_MATH_FUNCTION(tanh)
TENSORA_MATH_FUNCTION(asinh)
TENSORA_MATH_FUNCTION(acosh)
TENSORA_MATH_FUNCTION(atanh)
TENSORA_MATH_FUNCTION(erf)
TENSORA_MATH_FUNCTION(erfc)
#undef TENSORA_MATH_FUNCTION

/// `condition ? yes : no`, spelt as a function so that tensors can have it too.
template <class T>
TENSORA_HD constexpr T select(bool condition, T yes, T no) {
  return condition ? yes : no;
}
/// `x * factor`; for tensors it is `x` itself when the factor is 1.
template <class T, class Factor>
TENSORA_HD constexpr T scaled(T x, Factor factor) {
  return x * factor.template to<T>();
}

}  // namespace tensora::math

namespace tensora::functors {
using namespace tensora::math;
}
