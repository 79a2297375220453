#pragma once

#include "tensora/core/random.h"
#include "tensora/dispatch/op_def.h"
#include "tensora/ops/random/random_values.h"

// Random tensors. The state that an op's numbers come from is among its attributes, so an op stays
// a pure function: element i depends on (seed, offset, i) alone. See Note [One stream for all
// devices] in core/random.h and Note [Same numbers everywhere] in random_values.h.

namespace tensora {

// These ops overwrite their first input, whose shape, dtype and device they keep.
extern OpDef<Uniform> uniform_op;
extern OpDef<Normal> normal_op;
extern OpDef<Exponential> exponential_op;
extern OpDef<Bernoulli> bernoulli_op;
extern OpDef<RandomInteger> random_op;

/// Attributes of ops whose only attribute is where their random numbers begin.
struct RandomAttrs {
  uint64_t seed = 0, offset = 0;
};
constexpr auto describe(std::type_identity<RandomAttrs>) {
  return fields(field("seed", &RandomAttrs::seed), field("offset", &RandomAttrs::offset));
}
/// Inputs: the tensor to overwrite, and the probability of a 1 for each of its elements.
extern OpDef<RandomAttrs> bernoulli_tensor_op;

/// Uniform in [0, 1).
Tensor rand(const Shape& sizes, const TensorOptions& options = {});
Tensor rand_like(const Tensor& self, const TensorOptions& options = {});
/// Standard normal.
Tensor randn(const Shape& sizes, const TensorOptions& options = {});
Tensor randn_like(const Tensor& self, const TensorOptions& options = {});
/// Integers in [low, high), int64 unless the options say otherwise.
Tensor randint(int64_t high, const Shape& sizes, const TensorOptions& options = {});
Tensor randint(int64_t low, int64_t high, const Shape& sizes, const TensorOptions& options = {});
Tensor randint_like(const Tensor& self, int64_t high, const TensorOptions& options = {});
Tensor randint_like(const Tensor& self, int64_t low, int64_t high,
                    const TensorOptions& options = {});

/// Overwrite `self`; floating-point dtypes only.
const Tensor& uniform_(const Tensor& self, double from = 0, double to = 1);
const Tensor& normal_(const Tensor& self, double mean = 0, double std = 1);
const Tensor& exponential_(const Tensor& self, double lambd = 1);
/// Overwrite `self` with 1 (probability p) and 0; any dtype.
const Tensor& bernoulli_(const Tensor& self, double p = 0.5);
const Tensor& bernoulli_(const Tensor& self, const Tensor& p);
/// Overwrites `self` with integers in [low, high); any dtype that holds them.
const Tensor& random_(const Tensor& self, int64_t low, int64_t high);

/// 1 with the probability that `self` gives for each element, else 0.
Tensor bernoulli(const Tensor& self);
/// Like `self`, with 1 at probability p, else 0.
Tensor bernoulli(const Tensor& self, double p);
/// Normal values with means and standard deviations given per element, or for all.
Tensor normal(const Tensor& mean, const Tensor& std);
Tensor normal(const Tensor& mean, double std = 1);
Tensor normal(double mean, const Tensor& std);
Tensor normal(double mean, double std, const Shape& sizes, const TensorOptions& options = {});

}  // namespace tensora
