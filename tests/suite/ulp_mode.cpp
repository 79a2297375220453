// The `ulp` mode: how far the results of the pointwise functors are from the exact ones, in units
// in the last place. Each functor states its bound; see core/functor.h.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensora/dispatch/op.h"
#include "tensora/ops/pointwise/all.h"
#include "tests/suite/samples.h"
#include "tests/suite/tables.h"
#include "tests/suite/wide.h"

namespace tensora::suite {
namespace {

/// What a floating dtype can hold.
struct Format {
  int digits;        // of the significand, in bits
  int min_exponent;  // of the smallest normal number
  int max_exponent;  // of the largest
};
Format format_of(DType dtype) {
  switch (dtype) {
    case DType::float64:
      return {53, -1022, 1023};
    case DType::float32:
      return {24, -126, 127};
    case DType::bfloat16:
      return {8, -126, 127};
    default:
      return {11, -14, 15};
  }
}

/// The distance between numbers of a format about `x`.
long double unit_at(const Format& format, long double x) {
  int exponent = 0;
  if (x == 0 || !std::isfinite(x))
    exponent = format.min_exponent;
  else
    exponent = std::clamp(std::ilogb(x), format.min_exponent, format.max_exponent);
  return std::ldexp(1.0L, exponent - (format.digits - 1));
}

/// What a functor promises.
struct Bound {
  double units;
  double scale;      // results below it are measured in its units
  bool of_operands;  // and so are those below the largest operand
  double step;       // what a jump may add
};

/// The error in units; an infinity is the number that follows the largest.
double error_in_units(const Format& format, long double got, long double exact,
                      const Bound& bound) {
  if (std::isnan(got) || std::isnan(exact))
    return std::isnan(got) == std::isnan(exact) ? 0 : HUGE_VAL;
  const long double infinity = std::ldexp(2.0L, format.max_exponent);
  exact = std::clamp(exact, -infinity, infinity);
  got = std::clamp(got, -infinity, infinity);
  const long double scale = std::max<long double>(std::fabs(exact), bound.scale);
  const long double error = std::max(std::fabs(got - exact) - bound.step, 0.0L);
  return static_cast<double>(error / unit_at(format, scale));
}

/// Whether a step on the way to the result may have overflowed, where there is one.
bool overflows_early(const Format& format, double largest_operand, double got, const Bound& bound) {
  return bound.units > 0.5 && !std::isfinite(got) &&
         largest_operand >= std::ldexp(1.0, format.max_exponent - 4);
}

/// Numbers as they may come: of a functor's range, of every magnitude, about what is special.
class Operands {
 public:
  Operands(DType dtype, double low, double high, uint64_t seed)
      : dtype_(dtype), low_(low), high_(high), numbers_(seed) {}

  Array draw(int64_t count, int64_t operand) {
    const std::vector<double> special = special_values();
    const auto specials = static_cast<int64_t>(special.size());
    Array result(Shape{count});
    // Every pair of special values meets.
    int64_t period = 1;
    for (int64_t i = 0; i < operand; ++i) period *= specials;
    for (int64_t i = 0; i < count; ++i)
      result[i] = i < specials * specials ? special[static_cast<size_t>(i / period % specials)]
                                          : one_of_the_rest();
    return result;
  }

 private:
  std::vector<double> special_values() const {
    const Format format = format_of(dtype_);
    const double least = std::ldexp(1.0, format.min_exponent);
    const double step = std::ldexp(1.0, 1 - format.digits);
    std::vector<double> result{std::nan("")};
    for (double x : {0.0, HUGE_VAL, least, least * step, least * (1 - step), 1.0, 1 + step,
                     1 - step / 2, 0.5, 2.0, 3.0, std::ldexp(2 - step, format.max_exponent)})
      for (double sign : {1.0, -1.0}) result.push_back(sign * x);
    return result;
  }

  double one_of_the_rest() {
    const double kind = numbers_.next(), part = numbers_.next();
    const double sign = numbers_.next() < 0.5 ? -1 : 1;
    const Format format = format_of(dtype_);
    const double fraction = 1 + numbers_.next();
    double value = 0;
    if (kind < 0.35)
      value = low_ + part * (high_ - low_);
    else if (kind < 0.6)  // the magnitudes that programs have
      value = sign * std::ldexp(fraction, static_cast<int>(part * 24) - 14);
    else if (kind < 0.8)  // and all others, subnormal ones included
      value =
          sign * std::ldexp(fraction,
                            format.min_exponent - format.digits +
                                static_cast<int>(part * (format.max_exponent - format.min_exponent +
                                                         format.digits + 1)));
    else  // poles, zeros and kinks lie at multiples of these
      value = near(sign * std::floor(part * 40) *
                   (kind < 0.87   ? 0.5
                    : kind < 0.93 ? 1.5707963267948966
                                  : 1.0 / 3));
    return rounded(value, dtype_);
  }

  // Up to four numbers further on.
  double near(double value) {
    const double steps = std::floor(numbers_.next() * 9) - 4;
    return value + steps * static_cast<double>(unit_at(format_of(dtype_), rounded(value, dtype_)));
  }

  DType dtype_;
  double low_, high_;
  Numbers numbers_;
};

template <class F>
Wide exact_result(const Wide* x) {
  const F functor;
  if constexpr (F::arity == 1)
    return functor.template forward<Wide>(x[0]);
  else if constexpr (F::arity == 2)
    return functor.template forward<Wide>(x[0], x[1]);
  else
    return functor.template forward<Wide>(x[0], x[1], x[2]);
}

template <class F>
Array results(const ArrayList& operands, DType dtype, Device device) {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < operands.size(); ++i) {
    const DType type = F::condition_first && i == 0 ? kBool : dtype;
    const Placed placed(operands[i], type, contiguous_layout(operands[i].sizes), device);
    tensors.push_back(placed.tensor());
  }
  const std::vector<Arg> inputs(tensors.begin(), tensors.end());
  return read(apply(pointwise_op<F>(), Args(inputs), F{}));
}

template <class F>
Bound bound_of(DType dtype) {
  Bound bound{F::ulp, F::ulp_scale, F::ulp_of_operands, F::ulp_step};
  if (dtype == kFloat16 || dtype == kBFloat16)  // rounded twice
    bound.units = F::ulp > 0.5 ? 1 : 0.5 + std::ldexp(0.5, format_of(dtype).digits - 24);
  return bound;
}

template <class F>
std::string check_functor(DType dtype, const Setting& setting) {
  constexpr int64_t kCount = 20000;
  constexpr double kSlack = 1e-3;  // the exact values have few digits more than double
  const Format format = format_of(dtype);
  const Bound stated = bound_of<F>(dtype);
  Operands source(dtype, F::low, F::high, setting.seed + 1);
  ArrayList operands;
  for (int i = 0; i < F::arity; ++i) {
    operands.push_back(source.draw(kCount, i));
    if (F::condition_first && i == 0)
      for (double& value : operands[0].values) value = value > 0 ? 1 : 0;
  }
  const Array got = results<F>(operands, dtype, setting.device);
  double worst = 0;
  std::string where;
  for (int64_t k = 0; k < kCount; ++k) {
    Wide x[F::arity];
    double largest = 0;  // finite operand
    for (int i = 0; i < F::arity; ++i) {
      const double operand = operands[static_cast<size_t>(i)][k];
      x[i] = operand;
      if (std::isfinite(operand)) largest = std::max(largest, std::fabs(operand));
    }
    if (overflows_early(format, largest, got[k], stated)) continue;
    Bound bound = stated;
    if (bound.of_operands) bound.scale = std::max(bound.scale, largest);
    const long double exact = exact_result<F>(x).value;
    const double error = error_in_units(format, got[k], exact, bound);
    if (error <= worst) continue;
    worst = error;
    where = concat(F::name, "(");
    for (int i = 0; i < F::arity; ++i)
      where += concat(i == 0 ? "" : ", ", operands[static_cast<size_t>(i)][k]);
    where += concat(") is ", got[k], ", exactly ", static_cast<double>(exact));
  }
  require(worst <= stated.units + kSlack, worst, " ULP where ", stated.units,
          " are stated: ", where);
  return concat(worst, " ULP: ", where);
}

}  // namespace

void check_ulp(const Options& options, const Setting& setting, Report& report) {
  for_each_functor([&]<class F>() {
    if constexpr (functors::computes_floats(F::types) && F::types != functors::Types::predicate &&
                  !requires { F::no_ulp; }) {
      if (!selects(options, F::name, "ulp")) return;
      for (DType dtype : floating_dtypes()) {
        if (!options.dtypes.empty() &&
            std::find(options.dtypes.begin(), options.dtypes.end(), dtype) == options.dtypes.end())
          continue;
        report.run(
            {.op = F::name, .sample = "ulp", .dtype = std::string(name(dtype)), .mode = Mode::ulp},
            [&] { return check_functor<F>(dtype, setting); });
      }
    }
  });
}

}  // namespace tensora::suite
