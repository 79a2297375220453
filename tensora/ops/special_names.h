#pragma once

// PyTorch's torch.special: mostly second names of functions that are there under another one.

#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/pointwise/number_functions.h"
#include "tensora/ops/pointwise/variants.h"
#include "tensora/ops/reduce/logsumexp.h"

namespace tensora::special {

using tensora::digamma, tensora::erf, tensora::erfc, tensora::erfinv, tensora::exp2, tensora::expm1,
    tensora::log1p, tensora::logit, tensora::logsumexp, tensora::polygamma, tensora::round,
    tensora::sinc, tensora::xlogy;

inline Tensor expit(const Tensor& input) { return sigmoid(input); }
inline Tensor gammaln(const Tensor& input) { return lgamma(input); }
inline Tensor multigammaln(const Tensor& input, int64_t p) { return mvlgamma(input, p); }
inline Tensor psi(const Tensor& input) { return digamma(input); }
/// The share of the standard normal distribution below `input`.
inline Tensor ndtr(const Tensor& input) { return mul(erfc(mul(input, -0.70710678118654752)), 0.5); }

}  // namespace tensora::special
