// Complex ops, seen as ops on pairs of real numbers: the last dim of the inputs holds the parts. So
// the suite's finite differences check gradients of the first and the second order in both parts.
#include <cmath>
#include <complex>

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

using Z = std::complex<double>;
using Op = std::function<Tensor(const std::vector<Tensor>&)>;
using Formula = std::function<Z(const std::vector<Z>&)>;

// A copy, because pairs must begin at even places and the samples lie anywhere.
Tensor as_complex(const Tensor& parts) { return view_as_complex(clone(contiguous(parts))); }
Tensor as_parts(const Tensor& x) { return x.is_complex() ? view_as_real(x) : x; }

Z at(const Array& parts, int64_t i) { return {parts[2 * i], parts[2 * i + 1]}; }

struct Domain {
  double low = -2, high = 2;
  const char* how = "complex";
};

/// `op` on complex tensors of one shape, element by element `formula`; `real` where the result is.
void elementwise(Cases& cases, std::string op, size_t count, Op run, Formula formula,
                 Domain domain = {}, bool real = false) {
  for (const Shape& sizes : {Shape{3, 4, 2}, Shape{0, 2}, Shape{700, 2}}) {
    cases.add({.op = op,
               .name = concat(domain.how, ", of ", count, " ", sizes),
               .inputs = std::vector<Input>(count, {sizes, domain.low, domain.high}),
               .run =
                   [run](In x) {
                     std::vector<Tensor> operands;
                     for (const Tensor& parts : x) operands.push_back(as_complex(parts));
                     return one(as_parts(run(operands)));
                   },
               .reference =
                   [formula, real](Arrays x) {
                     Array out = x[0];
                     if (real) {
                       out.sizes.resize(out.sizes.size() - 1);
                       out.values.resize(out.values.size() / 2);
                     }
                     for (int64_t i = 0; i < x[0].numel() / 2; ++i) {
                       std::vector<Z> operands;
                       for (const Array& parts : x) operands.push_back(at(parts, i));
                       const Z result = formula(operands);
                       if (real) {
                         out[i] = result.real();
                       } else {
                         out[2 * i] = result.real();
                         out[2 * i + 1] = result.imag();
                       }
                     }
                     return one(out);
                   },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 10});
  }
}

void unary(Cases& cases, std::string op, Tensor (*run)(const Tensor&), Z (*formula)(const Z&),
           Domain domain = {}) {
  elementwise(
      cases, std::move(op), 1, [run](const auto& x) { return run(x[0]); },
      [formula](const auto& x) { return formula(x[0]); }, domain);
}

void arithmetic(Cases& cases) {
  elementwise(
      cases, "add", 2, [](const auto& x) { return add(x[0], x[1], Complex<double>(0.5, 2)); },
      [](const auto& x) { return x[0] + Z(0.5, 2) * x[1]; });
  elementwise(
      cases, "sub", 2, [](const auto& x) { return x[0] - x[1]; },
      [](const auto& x) { return x[0] - x[1]; });
  elementwise(
      cases, "mul", 2, [](const auto& x) { return x[0] * x[1]; },
      [](const auto& x) { return x[0] * x[1]; });
  elementwise(
      cases, "mul", 1, [](const auto& x) { return x[0] * Complex<double>(1, -2) * 3; },
      [](const auto& x) { return x[0] * Z(3, -6); });
  elementwise(
      cases, "div", 2, [](const auto& x) { return x[0] / x[1]; },
      [](const auto& x) { return x[0] / x[1]; }, {0.5, 2});
  elementwise(
      cases, "pow", 2, [](const auto& x) { return pow(x[0], x[1]); },
      [](const auto& x) { return std::pow(x[0], x[1]); }, {0.5, 2});
  elementwise(
      cases, "pow", 1, [](const auto& x) { return pow(x[0], 3); },
      [](const auto& x) { return x[0] * x[0] * x[0]; }, {0.5, 2});
  elementwise(
      cases, "addcmul", 3, [](const auto& x) { return addcmul(x[0], x[1], x[2], 2); },
      [](const auto& x) { return x[0] + 2. * x[1] * x[2]; });
  elementwise(
      cases, "where", 2, [](const auto& x) { return where(gt(real(x[0]), 0), x[0], x[1]); },
      [](const auto& x) { return x[0].real() > 0 ? x[0] : x[1]; });
  unary(cases, "neg", neg, [](const Z& z) { return -z; });
  unary(cases, "square", square, [](const Z& z) { return z * z; });
  unary(cases, "reciprocal", reciprocal, [](const Z& z) { return 1. / z; }, {0.5, 2});
}

void functions(Cases& cases) {
  unary(cases, "sqrt", sqrt, [](const Z& z) { return std::sqrt(z); }, {0.3, 2});
  unary(cases, "rsqrt", rsqrt, [](const Z& z) { return 1. / std::sqrt(z); }, {0.3, 2});
  unary(cases, "exp", exp, [](const Z& z) { return std::exp(z); });
  unary(cases, "log", log, [](const Z& z) { return std::log(z); }, {0.3, 2});
  unary(cases, "sin", sin, [](const Z& z) { return std::sin(z); });
  unary(cases, "cos", cos, [](const Z& z) { return std::cos(z); });
  unary(cases, "tanh", tanh, [](const Z& z) { return std::tanh(z); }, {0.1, 1.2});
  unary(cases, "conj", conj, [](const Z& z) { return std::conj(z); });
  unary(cases, "sgn", sgn, [](const Z& z) { return z / std::abs(z); }, {0.3, 2});
  const auto real_of = [&](std::string op, Tensor (*run)(const Tensor&),
                           double (*formula)(const Z&)) {
    elementwise(
        cases, std::move(op), 1, [run](const auto& x) { return run(x[0]); },
        [formula](const auto& x) { return Z(formula(x[0])); }, {0.3, 2}, true);
  };
  real_of("abs", abs, [](const Z& z) { return std::abs(z); });
  real_of("angle", angle, [](const Z& z) { return std::arg(z); });
  real_of("real", real, [](const Z& z) { return z.real(); });
  real_of("imag", imag, [](const Z& z) { return z.imag(); });
}

// What is composed of other ops: see complex_forms.h. Away from the branch cuts.
void composed(Cases& cases) {
  unary(cases, "tan", tan, [](const Z& z) { return std::tan(z); }, {0.1, 1.2});
  unary(cases, "sinh", sinh, [](const Z& z) { return std::sinh(z); });
  unary(cases, "cosh", cosh, [](const Z& z) { return std::cosh(z); });
  unary(cases, "asin", asin, [](const Z& z) { return std::asin(z); }, {0.2, 2});
  unary(cases, "acos", acos, [](const Z& z) { return std::acos(z); }, {0.2, 2});
  unary(cases, "atan", atan, [](const Z& z) { return std::atan(z); }, {0.2, 2});
  unary(cases, "asinh", asinh, [](const Z& z) { return std::asinh(z); }, {0.2, 2});
  unary(cases, "acosh", acosh, [](const Z& z) { return std::acosh(z); }, {0.2, 2});
  unary(cases, "atanh", atanh, [](const Z& z) { return std::atanh(z); }, {0.2, 2});
  unary(cases, "exp2", exp2, [](const Z& z) { return std::pow(Z(2), z); });
  unary(cases, "expm1", expm1, [](const Z& z) { return std::exp(z) - 1.; }, {0.3, 2});
  unary(cases, "log2", log2, [](const Z& z) { return std::log(z) / std::log(2.); }, {0.3, 2});
  unary(cases, "log10", log10, [](const Z& z) { return std::log10(z); }, {0.3, 2});
  unary(cases, "log1p", log1p, [](const Z& z) { return std::log(z + 1.); }, {0.1, 2});
  unary(cases, "sigmoid", sigmoid, [](const Z& z) { return 1. / (1. + std::exp(-z)); }, {0.1, 2});
  unary(cases, "silu", silu, [](const Z& z) { return z / (1. + std::exp(-z)); }, {0.1, 2});
  unary(cases, "tanhshrink", tanhshrink, [](const Z& z) { return z - std::tanh(z); }, {0.3, 1.2});
  unary(cases, "softsign", softsign, [](const Z& z) { return z / (1 + std::abs(z)); }, {0.3, 2});
  unary(cases, "sinc", sinc, [](const Z& z) { return std::sin(M_PI * z) / (M_PI * z); }, {0.2, 1});
  elementwise(
      cases, "logaddexp", 2, [](const auto& x) { return logaddexp(x[0], x[1]); },
      [](const auto& x) { return std::log(std::exp(x[0]) + std::exp(x[1])); }, {0.1, 1});
  elementwise(
      cases, "lerp", 3, [](const auto& x) { return lerp(x[0], x[1], x[2]); },
      [](const auto& x) { return x[0] + x[2] * (x[1] - x[0]); });
  elementwise(
      cases, "addcdiv", 3, [](const auto& x) { return addcdiv(x[0], x[1], x[2], 2); },
      [](const auto& x) { return x[0] + 2. * x[1] / x[2]; }, {0.5, 2});
}

// What a form was made of is needed for its gradient after it is overwritten.
void in_place(Cases& cases) {
  const Domain domain = {0.3, 1.2, "complex, in place"};
  const auto changed = [&](std::string op, const Tensor& (*run)(const Tensor&),
                           Z (*formula)(const Z&)) {
    elementwise(
        cases, std::move(op), 1, [run](const auto& x) { return run(clone(x[0])); },
        [formula](const auto& x) { return formula(x[0]); }, domain);
  };
  changed("asin", asin_, [](const Z& z) { return std::asin(z); });
  changed("sigmoid", sigmoid_, [](const Z& z) { return 1. / (1. + std::exp(-z)); });
  changed("sgn", sgn_, [](const Z& z) { return z / std::abs(z); });
  elementwise(
      cases, "pow", 2, [](const auto& x) { return pow_(clone(x[0]), x[1]); },
      [](const auto& x) { return std::pow(x[0], x[1]); }, domain);
  elementwise(
      cases, "pow", 1, [](const auto& x) { return pow_(clone(x[0]), 2.5); },
      [](const auto& x) { return std::pow(x[0], 2.5); }, domain);
  elementwise(
      cases, "lerp", 3, [](const auto& x) { return lerp_(clone(x[0]), x[1], x[2]); },
      [](const auto& x) { return x[0] + x[2] * (x[1] - x[0]); }, domain);
}

// On both sides of the branch cuts, which the sign of a zero tells apart, and at 0.
void on_branch_cuts(Cases& cases) {
  const std::vector<double> cuts = {2, 0, 2, -0., -2, 0, -2, -0., 0, 2, -0., 2, 0, -2, -0., -2};
  const auto fixed = [&](const char* op, std::vector<double> parts, Tensor (*run)(const Tensor&),
                         Z (*formula)(const Z&)) {
    const auto count = static_cast<int64_t>(parts.size() / 2);
    cases.add({.op = op,
               .name = concat("complex, on branch cuts ", count),
               .inputs = {{.sizes = {count, 2}, .values = parts}},
               .run = [run](In x) { return one(as_parts(run(as_complex(x[0])))); },
               .reference =
                   [=](Arrays x) {
                     Array out = x[0];
                     for (int64_t i = 0; i < count; ++i) {
                       const Z result = formula(Z(parts[static_cast<size_t>(2 * i)],
                                                  parts[static_cast<size_t>(2 * i + 1)]));
                       out[2 * i] = result.real();
                       out[2 * i + 1] = result.imag();
                     }
                     return one(out);
                   },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 10,
               .opt_out = {{Mode::grad, "not continuous there"},
                           {Mode::view, "the reference belongs to the listed values"}}});
  };
  fixed("asin", cuts, asin, [](const Z& z) { return std::asin(z); });
  fixed("acos", cuts, acos, [](const Z& z) { return std::acos(z); });
  fixed("asinh", cuts, asinh, [](const Z& z) { return std::asinh(z); });
  fixed("acosh", cuts, acosh, [](const Z& z) { return std::acosh(z); });
  const auto power = [](const Tensor& z) { return pow(z, 3.5); };
  fixed("pow", {0, 0, -2, 0, 0, 3}, power, [](const Z& z) { return std::pow(z, 3.5); });
  const auto none = [](const Tensor& z) { return pow(z, 0); };
  fixed("pow", {0, 0, 1, 2}, none, [](const Z&) { return Z(1); });
  fixed("log2", {0, 0}, log2, [](const Z& z) { return std::log(z); });
  fixed("log10", {0, 0, -2, 0, -2, -0.}, log10, [](const Z& z) { return std::log10(z); });
}

// Real tensors meet complex ones: their gradient is the real part.
void mixed(Cases& cases) {
  cases.add({.op = "mul",
             .name = "real with complex",
             .inputs = {{{3, 1}}, {{3, 4, 2}}},
             .run = [](In x) { return one(as_parts(x[0] * as_complex(x[1]))); },
             .reference =
                 [](Arrays x) {
                   Array out = x[1];
                   for (int64_t i = 0; i < out.numel(); ++i) out[i] *= x[0][i / 8];
                   return one(out);
                 },
             .dtypes = {kFloat32, kFloat64}});
  cases.add({.op = "complex",
             .name = "of two real tensors",
             .inputs = {{{3, 4}}, {{4}}},
             .run = [](In x) { return one(as_parts(complex(x[0], x[1]))); },
             .reference =
                 [](Arrays x) {
                   Array out({3, 4, 2});
                   for (int64_t i = 0; i < 12; ++i) {
                     out[2 * i] = x[0][i];
                     out[2 * i + 1] = x[1][i % 4];
                   }
                   return one(out);
                 },
             .dtypes = {kFloat32, kFloat64}});
  cases.add({.op = "polar",
             .name = "of length and angle",
             .inputs = {{{5}}, {{5}}},
             .run = [](In x) { return one(as_parts(polar(x[0], x[1]))); },
             .reference =
                 [](Arrays x) {
                   Array out({5, 2});
                   for (int64_t i = 0; i < 5; ++i) {
                     out[2 * i] = x[0][i] * std::cos(x[1][i]);
                     out[2 * i + 1] = x[0][i] * std::sin(x[1][i]);
                   }
                   return one(out);
                 },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = 10});
}

// Ops that move or add complex numbers: on the parts they are the same ops on a real tensor.
void movements(Cases& cases) {
  const auto same = [&](std::string op, std::function<Tensor(const Tensor&)> run,
                        std::string name = "complex") {
    cases.add({.op = op,
               .name = name,
               .inputs = {{{4, 3, 2}}},
               .run = [run](In x) { return one(as_parts(run(as_complex(x[0])))); },
               .reference =
                   [run](Arrays x) {
                     // Both parts alone, by the real op in float64.
                     Array out;
                     for (int part = 0; part < 2; ++part) {
                       const Tensor reals = empty({4, 3}, {.dtype = kFloat64});
                       for (int64_t i = 0; i < 12; ++i)
                         reals.data_ptr<double>()[i] = x[0][2 * i + part];
                       const Tensor result = run(reals).contiguous();
                       Shape sizes = result.sizes();
                       sizes.push_back(2);
                       if (part == 0) out = Array(sizes);
                       for (int64_t i = 0; i < result.numel(); ++i)
                         out[2 * i + part] = result.data_ptr<double>()[i];
                     }
                     return one(out);
                   },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 10});
  };
  const auto indices = [] { return tensor({2, 0, 2}, {.device = device()}); };
  same("clone", [](const Tensor& x) { return clone(transpose(x, 0, 1)); });
  same("contiguous", [](const Tensor& x) { return contiguous(transpose(x, 0, 1)); });
  same("slice", [](const Tensor& x) { return narrow(x, 0, 1, 2); });
  same("flip", [](const Tensor& x) { return flip(x, {0}); });
  same("tril", [](const Tensor& x) { return tril(x); });
  same("cat", [](const Tensor& x) { return cat({x, x}, 1); });
  same("stack", [](const Tensor& x) { return stack({x, x}, 1); });
  same("diag_embed", [](const Tensor& x) { return diag_embed(x); });
  same("index_select", [=](const Tensor& x) {
    return index_select(x, 0, x.is_cpu() ? indices().cpu() : indices());
  });
  same("gather", [=](const Tensor& x) {
    const Tensor rows = expand(unsqueeze(x.is_cpu() ? indices().cpu() : indices(), 0), {4, 3});
    return gather(x, 1, rows);
  });
  same("sum", [](const Tensor& x) { return sum(x, {0}); });
  same(
      "sum", [](const Tensor& x) { return sum(x); }, "complex, all");
  same("mean", [](const Tensor& x) { return mean(x, {-1}, true); });
  same("cumsum", [](const Tensor& x) { return cumsum(x, 0); });
  same("as_strided", [](const Tensor& x) { return as_strided(x, {3, 2}, {2, 1}); });
}

void products(Cases& cases) {
  cases.add({.op = "matmul",
             .name = "complex",
             .inputs = {{{2, 3, 4, 2}}, {{4, 5, 2}}},
             .run = [](In x) { return one(as_parts(matmul(as_complex(x[0]), as_complex(x[1])))); },
             .reference =
                 [](Arrays x) {
                   Array out({2, 3, 5, 2});
                   for (int64_t i = 0; i < 6; ++i)
                     for (int64_t j = 0; j < 5; ++j) {
                       Z sum = 0;
                       for (int64_t k = 0; k < 4; ++k)
                         sum += at(x[0], i * 4 + k) * at(x[1], k * 5 + j);
                       out[(i * 5 + j) * 2] = sum.real();
                       out[(i * 5 + j) * 2 + 1] = sum.imag();
                     }
                   return one(out);
                 },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = 10});
}

// Sizes that are no powers of two, so that products leave one over.
void reductions(Cases& cases) {
  const auto reduced = [&](std::string op, std::function<Tensor(const Tensor&)> run,
                           std::function<Z(const std::vector<Z>&)> formula, bool real) {
    cases.add({.op = op,
               .name = "complex, rows",
               .inputs = {{{3, 7, 2}, 0.3, 1.2}},
               .run = [run](In x) { return one(as_parts(run(as_complex(x[0])))); },
               .reference =
                   [formula, real](Arrays x) {
                     Array out(real ? Shape{3} : Shape{3, 2});
                     for (int64_t row = 0; row < 3; ++row) {
                       std::vector<Z> values;
                       for (int64_t i = 0; i < 7; ++i) values.push_back(at(x[0], row * 7 + i));
                       const Z result = formula(values);
                       out[real ? row : 2 * row] = result.real();
                       if (!real) out[2 * row + 1] = result.imag();
                     }
                     return one(out);
                   },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 20});
  };
  const auto product = [](const std::vector<Z>& x) {
    Z result = 1;
    for (const Z& z : x) result *= z;
    return result;
  };
  const auto variance = [](const std::vector<Z>& x) {
    Z mean = 0, total = 0;
    for (const Z& z : x) mean += z / static_cast<double>(x.size());
    for (const Z& z : x) total += std::norm(z - mean);
    return total / static_cast<double>(x.size() - 1);
  };
  reduced(
      "prod", [](const Tensor& x) { return prod(x, {1}); }, product, false);
  reduced(
      "cumprod", [](const Tensor& x) { return select(cumprod(x, 1), 1, -1); }, product, false);
  reduced(
      "logsumexp", [](const Tensor& x) { return logsumexp(x, {1}); },
      [](const std::vector<Z>& x) {
        Z total = 0;
        for (const Z& z : x) total += std::exp(z);
        return std::log(total);
      },
      false);
  reduced(
      "var", [](const Tensor& x) { return var(x, {1}); }, variance, true);
  reduced(
      "std", [](const Tensor& x) { return std(x, {1}); },
      [=](const std::vector<Z>& x) { return std::sqrt(variance(x)); }, true);
  reduced(
      "norm", [](const Tensor& x) { return norm(x, 3, {1}); },
      [](const std::vector<Z>& x) {
        double total = 0;
        for (const Z& z : x) total += std::pow(std::abs(z), 3);
        return Z(std::cbrt(total));
      },
      true);
}

void views(Cases& cases) {
  const auto pair_of = [](Arrays x) { return one(x[0]); };
  for (const char* op : {"view_as_real", "view_as_complex"})
    cases.add({.op = op,
               .name = "and back",
               .inputs = {{{3, 4, 2}}},
               .run = [](In x) { return one(view_as_real(as_complex(x[0]))); },
               .reference = pair_of,
               .dtypes = {kFloat32, kFloat64}});
}

}  // namespace

void complex_cases(Cases& cases) {
  arithmetic(cases);
  functions(cases);
  composed(cases);
  in_place(cases);
  on_branch_cuts(cases);
  mixed(cases);
  movements(cases);
  products(cases);
  reductions(cases);
  views(cases);
  const auto z = [] { return full({2, 2}, Complex<double>(1, 2), {.device = device()}); };
  cases.error("view_as_real", "a real tensor", "expected a complex tensor, got float32",
              [] { view_as_real(zeros({2}, {.device = device()})); });
  cases.error("view_as_complex", "no pairs", "the last dim must have size 2", [] {
    view_as_complex(zeros({2, 3}, {.device = device()}));
  });
  cases.error("view_as_complex", "parts apart", "must have stride 1", [] {
    view_as_complex(transpose(zeros({2, 3}, {.device = device()}), 0, 1));
  });
  cases.error("view_as_complex", "half", "expected a float32 or float64 tensor, got float16", [] {
    view_as_complex(zeros({2, 2}, {.dtype = kFloat16, .device = device()}));
  });
  cases.error("imag", "a real tensor", "imag: expected a complex tensor",
              [] { imag(zeros({2}, {.device = device()})); });
  cases.error("complex", "integers", "expected two float32 or two float64",
              [] { complex(arange(2), arange(2)); });
  cases.error("lt", "complex numbers", "lt: not supported for complex64", [=] { lt(z(), z()); });
  cases.error("maximum", "complex numbers", "maximum: not supported for complex64",
              [=] { maximum(z(), z()); });
  cases.error("floor", "complex numbers", "floor: not supported for complex64",
              [=] { floor(z()); });
  cases.error("add", "a complex result in a real tensor", "cannot be stored in place as float32",
              [=] {
                zeros({2, 2}, {.device = device()}).add_(z());
              });
  cases.error("fill", "a complex number in a real tensor", "a complex number cannot be stored",
              [] { full({2}, Complex<double>(1, 1), {.dtype = kFloat32, .device = device()}); });
}

}  // namespace tensora::suite
