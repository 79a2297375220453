#pragma once

// Internal header: a gate's formulas, for the host and for kernels.

#include "tensora/base/math.h"

namespace tensora {

template <class C>
struct GluPair {
  TENSORA_HD static C forward(C a, C b) { return a * math::sigmoid(b); }
  TENSORA_HD static void backward(C g, C a, C b, C& da, C& db) {
    const C share = math::sigmoid(b);
    da = g * share;
    db = da * a * (C(1) - share);
  }
};

template <class C>
struct SwigluPair {
  // Not a * sigmoid(a): at minus infinity that would be NaN.
  TENSORA_HD static C forward(C a, C b) { return a / (math::exp(-a) + C(1)) * b; }
  TENSORA_HD static void backward(C g, C a, C b, C& da, C& db) {
    const C share = math::sigmoid(a);
    da = g * b * share * (a * (C(1) - share) + C(1));
    db = g * a * share;
  }
};

}  // namespace tensora
