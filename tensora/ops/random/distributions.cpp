#include "tensora/ops/random/distributions.h"

#include <cmath>
#include <numbers>

#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/random/random.h"
#include "tensora/ops/random/random_mt19937.h"

namespace tensora {

constexpr auto describe(std::type_identity<Geometric>) {
  return fields(field("seed", &Geometric::seed), field("offset", &Geometric::offset),
                field("p", &Geometric::p), field("log_failure", &Geometric::log_failure));
}
constexpr auto describe(std::type_identity<LogNormal>) {
  return fields(field("seed", &LogNormal::seed), field("offset", &LogNormal::offset),
                field("mean", &LogNormal::mean), field("std", &LogNormal::std));
}
constexpr auto describe(std::type_identity<Cauchy>) {
  return fields(field("seed", &Cauchy::seed), field("offset", &Cauchy::offset),
                field("median", &Cauchy::median), field("sigma", &Cauchy::sigma));
}

namespace {

// Integers are computed in double, whose whole numbers reach further.
bool computes_in_double(DType dtype) { return dtype == kFloat64 || is_integral(dtype); }

// The float tensor that a definition computes in.
Tensor wide_like(const Tensor& self) {
  const DType dtype = computes_in_double(self.dtype()) ? kFloat64 : kFloat32;
  return empty(self.sizes(), {.dtype = dtype, .device = self.device()});
}

// In (0, 1), from the same random words as the kernels'; in double, since near a pole of tan every
// digit counts.
template <class Distribution>
Tensor uniform_numbers(const Tensor& self, const Distribution& attrs) {
  const Tensor numbers = wide_like(self);
  apply_inplace(uniform_op, {numbers}, Uniform{.seed = attrs.seed, .offset = attrs.offset});
  return to(numbers, kFloat64) + (numbers.dtype() == kFloat64 ? 0x1p-54 : 0x1p-25);
}

Tensor definition(const Tensor& self, const Cauchy& attrs) {
  return tan((uniform_numbers(self, attrs) - 0.5) * std::numbers::pi) * attrs.sigma + attrs.median;
}
Tensor definition(const Tensor& self, const LogNormal& attrs) {
  const Tensor numbers = wide_like(self);
  apply_inplace(
      normal_op, {numbers},
      Normal{.seed = attrs.seed, .offset = attrs.offset, .mean = attrs.mean, .std = attrs.std});
  return exp(numbers);
}
Tensor definition(const Tensor& self, const Geometric& attrs) {
  return clamp_min(ceil(log(uniform_numbers(self, attrs)) / attrs.log_failure), 1);
}

template <class Distribution>
consteval OpDef<Distribution> define_distribution(std::string_view name) {
  return define(Op<Distribution>{
      .name = name,
      .inputs = {"self"},
      .internal = true,
      .infer = [](Infer& infer,
                  const Distribution&) { infer.output(infer[0].sizes(), infer[0].dtype()); },
      .reference =
          [](Args in, const Distribution& attrs) {
            Tensors result;
            result.push_back(to(definition(*in[0], attrs), in[0]->dtype()));
            return result;
          },
      .vjp = [](Vjp&, const Distribution&) {},  // nothing of the old contents remains
  });
}

template <class Distribution>
const Tensor& fill_random(const OpDef<Distribution>& op, const Tensor& self, Distribution attrs) {
  if (has_pytorch_numbers(self)) return copy_(self, pytorch_numbers(self, attrs));
  const int per_counter = computes_in_double(self.dtype()) ? 2 : 4;
  const PhiloxState state = current_generator().reserve(philox_counters(self.numel(), per_counter));
  attrs.seed = state.seed;
  attrs.offset = state.offset;
  return apply_inplace(op, {self}, attrs);
}

void check_floating(std::string_view op, const Tensor& self) {
  check(self.is_floating_point(), op, ": expected a floating-point tensor, got ", self.dtype());
}

}  // namespace

constinit OpDef<Cauchy> cauchy_op = define_distribution<Cauchy>("cauchy");
constinit OpDef<LogNormal> log_normal_op = define_distribution<LogNormal>("log_normal");
constinit OpDef<Geometric> geometric_op = define_distribution<Geometric>("geometric");

void register_distributions(OpRegistry& registry) {
  registry.add(cauchy_op);
  registry.add(log_normal_op);
  registry.add(geometric_op);
}

const Tensor& cauchy_(const Tensor& self, double median, double sigma) {
  check_floating("cauchy_", self);
  check(sigma > 0, "cauchy_: expected sigma > 0, got ", sigma);
  return fill_random(cauchy_op, self, Cauchy{.median = median, .sigma = sigma});
}

const Tensor& log_normal_(const Tensor& self, double mean, double std) {
  check_floating("log_normal_", self);
  check(std > 0, "log_normal_: expected std > 0, got ", std);
  return fill_random(log_normal_op, self, LogNormal{.mean = mean, .std = std});
}

const Tensor& geometric_(const Tensor& self, double p) {
  check(self.is_floating_point() || is_integral(self.dtype()),
        "geometric_: expected a tensor of numbers, got ", self.dtype());
  check(p > 0 && p < 1, "geometric_: expected p between 0 and 1, both excluded, got ", p);
  return fill_random(geometric_op, self, Geometric{.p = p, .log_failure = std::log1p(-p)});
}

}  // namespace tensora
