#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// The sums over all dims of `dim`, times `scale`; `forward` has e^(-2 pi i j k / n), otherwise the
/// exponent is positive.
struct FftAttrs {
  Dims dim;
  double scale = 1;
  bool forward = true;
};
/// Complex to complex.
extern OpDef<FftAttrs> fft_c2c_op;

struct RealFftAttrs {
  Dims dim;
  double scale = 1;
};
/// Real to complex, forward: of the last of the dims the first n / 2 + 1 elements, which determine
/// the others.
extern OpDef<RealFftAttrs> fft_r2c_op;

/// Real to complex along the only dim: all elements.
extern OpDef<FftAttrs> fft_real_op;

struct InverseRealFftAttrs {
  Dims dim;
  double scale = 1;
  int64_t last_dim_size = 1;
};
/// The reverse, not forward: the result's size in the last of the dims is `last_dim_size`. The
/// imaginary parts of elements that are their own conjugates are ignored.
extern OpDef<InverseRealFftAttrs> fft_c2r_op;

}  // namespace tensora
