#include "tensora/ops/random/random.h"

#include <cmath>
#include <numbers>

#include "tensora/autograd/grad_mode.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/creation/tensor.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/random/random_mt19937.h"

namespace tensora {

constexpr auto describe(std::type_identity<RandomInteger>) {
  return fields(field("seed", &RandomInteger::seed), field("offset", &RandomInteger::offset),
                field("low", &RandomInteger::low), field("range", &RandomInteger::range));
}
constexpr auto describe(std::type_identity<Bernoulli>) {
  return fields(field("seed", &Bernoulli::seed), field("offset", &Bernoulli::offset),
                field("p", &Bernoulli::p));
}
constexpr auto describe(std::type_identity<Exponential>) {
  return fields(field("seed", &Exponential::seed), field("offset", &Exponential::offset),
                field("lambd", &Exponential::lambd));
}
constexpr auto describe(std::type_identity<Normal>) {
  return fields(field("seed", &Normal::seed), field("offset", &Normal::offset),
                field("mean", &Normal::mean), field("std", &Normal::std));
}
constexpr auto describe(std::type_identity<Uniform>) {
  return fields(field("seed", &Uniform::seed), field("offset", &Uniform::offset),
                field("from", &Uniform::from), field("to", &Uniform::to),
                field("bits", &Uniform::bits));
}

namespace {

template <class Distribution>
consteval OpDef<Distribution> define_random(std::string_view name) {
  return define(Op<Distribution>{
      .name = name,
      .inputs = {"self"},
      .primitive = true,
      .internal = true,
      .infer = [](Infer& infer,
                  const Distribution&) { infer.output(infer[0].sizes(), infer[0].dtype()); },
      .vjp = [](Vjp&, const Distribution&) {},  // nothing of the old contents remains
  });
}

// Takes as many counters out of the stream as `self` will use, and fills it.
template <class Distribution>
const Tensor& fill_random(const OpDef<Distribution>& op, const Tensor& self, int per_counter,
                          Distribution attrs) {
  if (has_pytorch_numbers(self)) return copy_(self, pytorch_numbers(self, attrs));
  const PhiloxState state = current_generator().reserve(philox_counters(self.numel(), per_counter));
  attrs.seed = state.seed;
  attrs.offset = state.offset;
  return apply_inplace(op, {self}, attrs);
}

int values_per_counter(DType dtype) { return dtype == kFloat64 ? 2 : 4; }

void check_floating(std::string_view op, const Tensor& self) {
  check(self.is_floating_point(), op, ": expected a floating-point tensor, got ", self.dtype());
}

// For factories, whose errors would otherwise name the op that fills.
void check_floating(std::string_view op, const TensorOptions& options) {
  const DType dtype = options.dtype();
  check(is_differentiable(dtype), op, ": expected a floating-point dtype, got ", dtype);
}

void check_floating_or_complex(std::string_view op, const Tensor& self) {
  check(is_differentiable(self.dtype()), op, ": expected a floating-point tensor, got ",
        self.dtype());
}

// Fills a complex tensor by its parts.
template <class Fill>
const Tensor& of_parts(const Tensor& self, const Fill& fill) {
  fill(view_as_real(self));
  return self;
}

void check_probability(double p) {
  check(p >= 0 && p <= 1, "bernoulli_: expected p between 0 and 1, got ", p);
}

// The range [-bound, bound] in which a dtype represents every integer.
double exact_integers(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return 0x1p11;
    case DType::bfloat16:
      return 0x1p8;
    case DType::float32:
      return 0x1p24;
    default:
      return 0x1p53;
  }
}

void check_integer_bounds(DType dtype, int64_t low, int64_t high) {
  check(low < high, "randint: expected low < high, got low ", low, " and high ", high);
  const int64_t last = high - 1;
  bool fits = true;
  if (is_floating_point(dtype)) {
    const double bound = exact_integers(dtype);
    fits = static_cast<double>(low) >= -bound && static_cast<double>(last) <= bound;
  } else if (dtype == kBool) {
    fits = low >= 0 && last <= 1;
  } else if (is_integral(dtype) && dtype != kInt64) {  // what is left the op itself refuses
    const int bits = 8 * static_cast<int>(element_size(dtype));
    const int64_t least = dtype == kUInt8 ? 0 : -(int64_t{1} << (bits - 1));
    const int64_t most = dtype == kUInt8 ? 255 : (int64_t{1} << (bits - 1)) - 1;
    fits = low >= least && last <= most;
  }
  check(fits, "randint: [", low, ", ", high, ") is out of the range of ", dtype);
}

// Fills a fresh tensor outside of any graph, then makes it a leaf if that was asked for.
template <class Fill>
Tensor filled(const Tensor& result, const TensorOptions& options, const Fill& fill) {
  {
    const no_grad silent;
    fill(result);
  }
  if (options.requires_grad) result.requires_grad_();
  return result;
}

TensorOptions without_grad(TensorOptions options) {
  options.requires_grad = false;
  return options;
}

TensorOptions integers_by_default(TensorOptions options) {
  if (!options.dtype) options.dtype = kInt64;
  return without_grad(options);
}

}  // namespace

constinit OpDef<Uniform> uniform_op = define_random<Uniform>("uniform");
constinit OpDef<Normal> normal_op = define_random<Normal>("normal");
constinit OpDef<Exponential> exponential_op = define_random<Exponential>("exponential");
constinit OpDef<Bernoulli> bernoulli_op = define_random<Bernoulli>("bernoulli");
constinit OpDef<RandomInteger> random_op = define_random<RandomInteger>("random");

constinit OpDef<RandomAttrs> bernoulli_tensor_op = define(Op<RandomAttrs>{
    .name = "bernoulli_tensor",
    .inputs = {"self", "p"},
    .primitive = true,
    .internal = true,
    .infer =
        [](Infer& infer, const RandomAttrs&) {
          infer.check(infer[1].is_floating_point(),
                      "expected a floating-point tensor of probabilities, got ", infer[1].dtype());
          infer.check(can_broadcast_to(infer[1].sizes(), infer[0].sizes()),
                      "probabilities of shape ", infer[1].sizes(), " cannot be broadcast to shape ",
                      infer[0].sizes());
          infer.output(infer[0].sizes(), infer[0].dtype());
        },
    .vjp = [](Vjp&, const RandomAttrs&) {},  // constant almost everywhere
    .cpu_scalars = true,
});

void register_random(OpRegistry& registry) {
  registry.add(uniform_op);
  registry.add(normal_op);
  registry.add(exponential_op);
  registry.add(bernoulli_op);
  registry.add(random_op);
  registry.add(bernoulli_tensor_op);
}

const Tensor& uniform_(const Tensor& self, double from, double to) {
  check_floating_or_complex("uniform_", self);
  check(from <= to, "uniform_: expected from <= to, got from ", from, " and to ", to);
  check(std::isfinite(to - from), "uniform_: the range from ", from, " to ", to, " is too large");
  const int bits = self.dtype() == kFloat16 ? 11 : self.dtype() == kBFloat16 ? 8 : 24;
  if (self.is_complex())
    return of_parts(self, [&](const Tensor& parts) { uniform_(parts, from, to); });
  return fill_random(uniform_op, self, values_per_counter(self.dtype()),
                     Uniform{.from = from, .to = to, .bits = bits});
}

const Tensor& normal_(const Tensor& self, double mean, double std) {
  check_floating_or_complex("normal_", self);
  check(std >= 0, "normal_: expected std >= 0, got ", std);
  if (self.is_complex())
    return of_parts(self, [&](const Tensor& parts) {
      normal_(parts, mean, std / std::numbers::sqrt2);  // the parts share the variance
    });
  return fill_random(normal_op, self, values_per_counter(self.dtype()),
                     Normal{.mean = mean, .std = std});
}

const Tensor& exponential_(const Tensor& self, double lambd) {
  check_floating("exponential_", self);
  check(lambd > 0, "exponential_: expected lambd > 0, got ", lambd);
  return fill_random(exponential_op, self, values_per_counter(self.dtype()),
                     Exponential{.lambd = lambd});
}

const Tensor& bernoulli_(const Tensor& self, double p) {
  check_probability(p);
  return fill_random(bernoulli_op, self, 4, Bernoulli{.p = p});
}

const Tensor& bernoulli_(const Tensor& self, const Tensor& p) {
  if (has_pytorch_numbers(self)) return copy_(self, pytorch_bernoulli(self, p));
  const PhiloxState state =
      current_generator().reserve(philox_counters(self.numel(), values_per_counter(p.dtype())));
  return apply_inplace(bernoulli_tensor_op, {self, p}, {state.seed, state.offset});
}

const Tensor& random_(const Tensor& self, int64_t low, int64_t high) {
  check_integer_bounds(self.dtype(), low, high);
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  return fill_random(random_op, self, 2, RandomInteger{.low = low, .range = range});
}

const Tensor& Tensor::random_(int64_t high) const { return tensora::random_(*this, 0, high); }

Tensor rand(const Shape& sizes, const TensorOptions& options) {
  check_floating("rand", options);
  return filled(empty_for("rand", sizes, without_grad(options)), options,
                [](const Tensor& result) { uniform_(result); });
}

Tensor rand_like(const Tensor& self, const TensorOptions& options) {
  return filled(empty_like(self, without_grad(options)), options,
                [](const Tensor& result) { uniform_(result); });
}

Tensor randn(const Shape& sizes, const TensorOptions& options) {
  check_floating("randn", options);
  return filled(empty_for("randn", sizes, without_grad(options)), options,
                [](const Tensor& result) { normal_(result); });
}

Tensor randn_like(const Tensor& self, const TensorOptions& options) {
  return filled(empty_like(self, without_grad(options)), options,
                [](const Tensor& result) { normal_(result); });
}

Tensor randint(int64_t high, const Shape& sizes, const TensorOptions& options) {
  return randint(0, high, sizes, options);
}

Tensor randint(int64_t low, int64_t high, const Shape& sizes, const TensorOptions& options) {
  return filled(empty_for("randint", sizes, integers_by_default(options)), options,
                [&](const Tensor& result) { random_(result, low, high); });
}

Tensor randint_like(const Tensor& self, int64_t high, const TensorOptions& options) {
  return randint_like(self, 0, high, options);
}

Tensor randint_like(const Tensor& self, int64_t low, int64_t high, const TensorOptions& options) {
  return filled(empty_like(self, without_grad(options)), options,
                [&](const Tensor& result) { random_(result, low, high); });
}

Tensor bernoulli(const Tensor& self) {
  if (has_pytorch_numbers(self)) return to(pytorch_bernoulli(self, self.detach()), self.dtype());
  const PhiloxState state =
      current_generator().reserve(philox_counters(self.numel(), values_per_counter(self.dtype())));
  return apply(bernoulli_tensor_op, {self, self}, {state.seed, state.offset});
}

Tensor bernoulli(const Tensor& self, double p) {
  const no_grad silent;
  return called_as("bernoulli", [&] { return bernoulli_(empty_like(self), p); });
}

Tensor normal(const Tensor& mean, const Tensor& std) {
  check_floating("normal", mean);
  check_floating("normal", std);
  const no_grad silent;
  const Tensor scaled_noise =
      randn(broadcast_shapes(mean.sizes(), std.sizes(), "normal"),
            {.dtype = promote_types(mean.dtype(), std.dtype()), .device = std.device()}) *
      std;
  return add(scaled_noise, mean);
}

Tensor normal(const Tensor& mean, double std) {
  check_floating("normal", mean);
  const no_grad silent;
  return add(normal(0, std, mean.sizes(), {.dtype = mean.dtype(), .device = mean.device()}), mean);
}

Tensor normal(double mean, const Tensor& std) {
  check_floating("normal", std);
  const no_grad silent;
  return add(randn_like(std) * std, mean);
}

Tensor normal(double mean, double std, const Shape& sizes, const TensorOptions& options) {
  check(std >= 0, "normal: expected std >= 0, got ", std);
  return filled(empty_for("normal", sizes, without_grad(options)), options,
                [&](const Tensor& result) { normal_(result, mean, std); });
}

}  // namespace tensora
