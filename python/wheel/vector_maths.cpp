// Vector functions for a wheel. See Note [Libraries of a wheel] in python/wheel/CMakeLists.txt.
//
// Loops over exp, tan, … call functions of libmvec such as _ZGVdN4v_tan (Note [Vector maths]). Most
// of them came with glibc 2.35. The functions of these names below take their place within
// libtensora.so: at its first call each looks for libmvec's own, and computes element by element
// where there is none.

#include <dlfcn.h>

#include <atomic>
#include <cmath>

#ifndef TENSORA_LIBMVEC  // a test names a library that does not exist
#define TENSORA_LIBMVEC "libmvec.so.1"
#endif

namespace {

/// libmvec's function of that name, or `fallback`.
template <class Function>
Function choose(std::atomic<Function>& chosen, const char* name, Function fallback) {
  static void* const library = dlopen(TENSORA_LIBMVEC, RTLD_LAZY);
  void* const found = library ? dlsym(library, name) : nullptr;
  const Function function = found ? reinterpret_cast<Function>(found) : fallback;
  chosen.store(function, std::memory_order_relaxed);
  return function;
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): the arguments are types and names.
// `prefix` is the part of the name that states instruction set, lanes and parameters.
#define TENSORA_ONE_ARGUMENT(isa, prefix, type, lanes, function)                                \
  namespace {                                                                                   \
  typedef type prefix##_##function##_vector __attribute__((vector_size(sizeof(type) * lanes))); \
  __attribute__((target(isa)))                                                                  \
  prefix##_##function##_vector prefix##_##function##_each(prefix##_##function##_vector x) {     \
    for (int i = 0; i < lanes; ++i) x[i] = ::function(x[i]);                                    \
    return x;                                                                                   \
  }                                                                                             \
  std::atomic<decltype(&prefix##_##function##_each)> prefix##_##function##_chosen;              \
  }                                                                                             \
  extern "C" __attribute__((visibility("hidden"), target(isa)))                                 \
  prefix##_##function##_vector prefix##_##function(prefix##_##function##_vector x) {            \
    auto f = prefix##_##function##_chosen.load(std::memory_order_relaxed);                      \
    if (!f)                                                                                     \
      f = choose(prefix##_##function##_chosen, #prefix "_" #function,                           \
                 &prefix##_##function##_each);                                                  \
    return f(x);                                                                                \
  }

#define TENSORA_TWO_ARGUMENTS(isa, prefix, type, lanes, function)                               \
  namespace {                                                                                   \
  typedef type prefix##_##function##_vector __attribute__((vector_size(sizeof(type) * lanes))); \
  __attribute__((target(isa)))                                                                  \
  prefix##_##function##_vector prefix##_##function##_each(prefix##_##function##_vector x,       \
                                                          prefix##_##function##_vector y) {     \
    for (int i = 0; i < lanes; ++i) x[i] = ::function(x[i], y[i]);                              \
    return x;                                                                                   \
  }                                                                                             \
  std::atomic<decltype(&prefix##_##function##_each)> prefix##_##function##_chosen;              \
  }                                                                                             \
  extern "C" __attribute__((visibility("hidden"), target(isa)))                                 \
  prefix##_##function##_vector prefix##_##function(prefix##_##function##_vector x,              \
                                                   prefix##_##function##_vector y) {            \
    auto f = prefix##_##function##_chosen.load(std::memory_order_relaxed);                      \
    if (!f)                                                                                     \
      f = choose(prefix##_##function##_chosen, #prefix "_" #function,                           \
                 &prefix##_##function##_each);                                                  \
    return f(x, y);                                                                             \
  }

// NOLINTEND(bugprone-macro-parentheses)
#define TENSORA_EACH_WIDTH(how, v, function)                                                      \
  how("sse2", _ZGVbN2##v, double, 2, function) how("sse2", _ZGVbN4##v, float, 4, function##f)     \
      how("avx2", _ZGVdN4##v, double, 4, function) how("avx2", _ZGVdN8##v, float, 8, function##f) \
          how("avx512f", _ZGVeN8##v, double, 8, function)                                         \
              how("avx512f", _ZGVeN16##v, float, 16, function##f)

TENSORA_EACH_WIDTH(TENSORA_ONE_ARGUMENT, v, acos)
TENSORA_EACH_WIDTH(TENSORA_ONE_ARGUMENT, v, acosh)
TENSORA_EACH_WIDTH(TENSORA_ONE_ARGUMENT, v, asin)
TENSORA_EACH_WIDTH(TENSORA_ONE_ARGUMENT, v, asinh)
TENSORA_EACH_WIDTH(TENSORA_ONE_ARGUMENT, v, atan)
TENSORA_EACH_WIDTH(TENSORA_ONE_ARGUMENT, v, atanh)
TENSORA_EACH_WIDTH(TENSORA_ONE_ARGUMENT, v, cosh)
TENSORA_EACH_WIDTH(TENSORA_ONE_ARGUMENT, v, erf)
TENSORA_EACH_WIDTH(TENSORA_ONE_ARGUMENT, v, erfc)
TENSORA_EACH_WIDTH(TENSORA_ONE_ARGUMENT, v, exp2)
TENSORA_EACH_WIDTH(TENSORA_ONE_ARGUMENT, v, expm1)
TENSORA_EACH_WIDTH(TENSORA_ONE_ARGUMENT, v, log10)
TENSORA_EACH_WIDTH(TENSORA_ONE_ARGUMENT, v, log1p)
TENSORA_EACH_WIDTH(TENSORA_ONE_ARGUMENT, v, log2)
TENSORA_EACH_WIDTH(TENSORA_ONE_ARGUMENT, v, sinh)
TENSORA_EACH_WIDTH(TENSORA_ONE_ARGUMENT, v, tan)
TENSORA_EACH_WIDTH(TENSORA_ONE_ARGUMENT, v, tanh)
TENSORA_EACH_WIDTH(TENSORA_TWO_ARGUMENTS, vv, atan2)
TENSORA_EACH_WIDTH(TENSORA_TWO_ARGUMENTS, vv, hypot)
