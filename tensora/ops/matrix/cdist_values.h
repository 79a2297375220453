#pragma once

// Internal header: what one coordinate contributes to a distance and to its gradient, on any
// device.

#include "tensora/base/host_device.h"
#include "tensora/base/math.h"

namespace tensora::distances {

enum class Kind { zero, one, two, largest, general };

constexpr Kind kind_of(double p) {
  return p == 0      ? Kind::zero
         : p == 1    ? Kind::one
         : p == 2    ? Kind::two
         : p > 1e300 ? Kind::largest
                     : Kind::general;
}

/// A norm, with its kind known when it is compiled.
template <Kind kKind, class T>
struct Norm {
  T p;

  TENSORA_HD T add(T acc, T difference) const {
    const T size = difference < 0 ? -difference : difference;
    if constexpr (kKind == Kind::zero) return acc + (difference != 0 ? T(1) : T(0));
    if constexpr (kKind == Kind::one) return acc + size;
    if constexpr (kKind == Kind::two) return acc + difference * difference;
    if constexpr (kKind == Kind::largest) return size > acc || size != size ? size : acc;
    return acc + math::pow(size, p);
  }
  TENSORA_HD T combine(T a, T b) const {
    if constexpr (kKind == Kind::largest) return b > a || b != b ? b : a;
    return a + b;
  }
  TENSORA_HD T finish(T acc) const {
    if constexpr (kKind == Kind::two) return math::sqrt(acc);
    if constexpr (kKind == Kind::general) return math::pow(acc, T(1) / p);
    return acc;
  }
  /// The derivative of the distance by the first point's coordinate.
  TENSORA_HD T slope(T difference, T distance) const {
    if constexpr (kKind == Kind::zero) return 0;
    if (difference == 0 || distance == 0) return 0;
    const T size = difference < 0 ? -difference : difference;
    const T sign = difference < 0 ? T(-1) : T(1);
    if constexpr (kKind == Kind::one) return sign;
    if constexpr (kKind == Kind::two) return difference / distance;
    if constexpr (kKind == Kind::largest) return size == distance ? sign : T(0);
    return sign * math::pow(size / distance, p - 1);
  }
};

/// Calls body(Norm) for p.
template <class T, class Body>
void visit_norm(double p, Body&& body) {
  const T power = static_cast<T>(p);
  switch (kind_of(static_cast<double>(power))) {  // in float32, 1e300 is infinite and 1e-300 is 0
    case Kind::zero:
      return body(Norm<Kind::zero, T>{power});
    case Kind::one:
      return body(Norm<Kind::one, T>{power});
    case Kind::two:
      return body(Norm<Kind::two, T>{power});
    case Kind::largest:
      return body(Norm<Kind::largest, T>{power});
    case Kind::general:
      return body(Norm<Kind::general, T>{power});
  }
}

}  // namespace tensora::distances
