#pragma once

// The values of the functions in special_list.h. On the host they are compiled once, in
// special_values.cpp: no loop over them vectorises, and functors are compiled for each instruction
// set.

#include "tensora/base/host_device.h"
#include "tensora/base/special_list.h"

#if defined(__CUDACC__)
#include "tensora/base/special_pairs.h"
#endif

namespace tensora::math {

#if defined(__CUDACC__)
__noinline__ TENSORA_HD inline double special_function(int function, double x) {
  return value_of_function(function, x);
}
__noinline__ TENSORA_HD inline double special_pair(int function, double a, double b) {
  return value_of_pair(function, a, b);
}
#else
double special_function(int function, double x);
double special_pair(int function, double a, double b);
#endif

/// Floats are computed in double and rounded once.
TENSORA_HD inline float special_function(int function, float x) {
  return static_cast<float>(special_function(function, static_cast<double>(x)));
}
TENSORA_HD inline float special_pair(int function, float a, float b) {
  return static_cast<float>(special_pair(function, static_cast<double>(a), static_cast<double>(b)));
}

}  // namespace tensora::math
