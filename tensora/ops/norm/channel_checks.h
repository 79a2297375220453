#pragma once

// Internal header: what the rules and definitions of batch_norm and group_norm share.

#include "tensora/dispatch/op.h"

namespace tensora {

/// In which a norm's mean and variance are computed and kept.
inline DType statistics_dtype(DType dtype) { return dtype == kFloat64 ? kFloat64 : kFloat32; }

inline Tensor optional_input(Args in, size_t i) { return i < in.size() ? *in[i] : Tensor(); }

/// Input `i`, if given, has one floating-point number per channel of input 0.
inline void check_channels(const Infer& infer, size_t i, std::string_view name) {
  if (!infer.has(i)) return;
  infer.check(infer[i].sizes() == Shape{infer[0].sizes()[1]}, name, " must have shape [",
              infer[0].sizes()[1], "], one element per channel, got ", infer[i].sizes());
  infer.check(infer[i].is_floating_point(), name, " must be floating-point, got ",
              infer[i].dtype());
}

}  // namespace tensora
