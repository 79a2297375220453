#pragma once

// Internal header: the ops behind bincount and histc.

#include "tensora/base/host_device.h"
#include "tensora/dispatch/op_def.h"

namespace tensora {

struct CountIntegersAttrs {
  int64_t bins = 0;
};
constexpr auto describe(std::type_identity<CountIntegersAttrs>) {
  return fields(field("bins", &CountIntegersAttrs::bins));
}
/// (self, weights?): how often each of the integers 0 … bins - 1 occurs, as int64, or the sum of
/// the weights in their dtype, float32 or float64. Other integers are not counted. Contiguous
/// inputs.
extern OpDef<CountIntegersAttrs> count_integers_op;

struct CountIntervalsAttrs {
  int64_t bins = 0;
  double low = 0, high = 1;
};
constexpr auto describe(std::type_identity<CountIntervalsAttrs>) {
  using A = CountIntervalsAttrs;
  return fields(field("bins", &A::bins), field("low", &A::low), field("high", &A::high));
}
/// How many elements fall into each of `bins` equal intervals from `low` to `high`, as int64. A
/// contiguous floating input.
extern OpDef<CountIntervalsAttrs> count_intervals_op;

/// The number of an element's interval; -1 for none.
template <class C>
struct EqualIntervals {
  C low, high;
  long long bins;

  TENSORA_HD long long operator()(C x) const {
    if (!(x >= low && x <= high)) return -1;  // NaN too
    const auto bin = static_cast<long long>((x - low) * static_cast<C>(bins) / (high - low));
    return bin < bins ? bin : bins - 1;
  }
};

}  // namespace tensora
