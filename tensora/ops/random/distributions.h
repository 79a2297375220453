#pragma once

#include "tensora/dispatch/op_def.h"
#include "tensora/ops/random/distributions_values.h"

// Distributions that follow from the uniform and the normal one. As with those, the same seed gives
// the same numbers on every device; see Note [Same numbers everywhere] in random_values.h.

namespace tensora {

// These ops overwrite their input.
extern OpDef<Cauchy> cauchy_op;
extern OpDef<LogNormal> log_normal_op;
extern OpDef<Geometric> geometric_op;

/// Overwrite `self`; floating-point dtypes only.
const Tensor& cauchy_(const Tensor& self, double median = 0, double sigma = 1);
/// The logarithms of the numbers are normal with `mean` and `std`.
const Tensor& log_normal_(const Tensor& self, double mean = 1, double std = 2);
/// Overwrites `self` with 1, 2, 3, …: how many trials of probability `p` it took to succeed once.
const Tensor& geometric_(const Tensor& self, double p);

}  // namespace tensora
