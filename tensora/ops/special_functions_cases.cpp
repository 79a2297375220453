#include "tensora/ops/special_functions.h"

#include "tests/suite/pointwise.h"

namespace tensora::suite {
namespace {

constexpr double kRootHalf = 0.70710678118654752;

double normal_cdf_of(double x) { return std::erfc(-x * kRootHalf) / 2; }

// By bisection: slow, and independent of the method used.
double ndtri_of(double p) {
  double low = -40, high = 40;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (normal_cdf_of(middle) < p ? low : high) = middle;
  }
  return low;
}

double airy_of(double x) {
  const double z = 2.0 / 3 * x * std::sqrt(x);
  return std::sqrt(x / 3) / 3.14159265358979324 * std::cyl_bessel_k(1.0 / 3, z);
}

double i_of(double order, double x) {
  const double value = std::cyl_bessel_i(order, std::abs(x));
  return x < 0 && order == 1 ? -value : value;
}
double j_of(double order, double x) {
  const double value = std::cyl_bessel_j(order, std::abs(x));
  return x < 0 && order == 1 ? -value : value;
}

// The sum of the first terms, and the integral over the others.
double zeta_of(double s, double q) {
  double sum = 0;
  for (int k = 0; k < 20000; ++k) sum += std::pow(q + k, -s);
  const double end = q + 20000;
  return sum + std::pow(end, 1 - s) / (s - 1) + std::pow(end, -s) / 2;
}

// By Simpson's rule; with t = u², the integrand has no pole at 0 for a >= 1/2.
double lower_gamma_of(double a, double x) {
  constexpr int kSteps = 4000;
  const double end = std::sqrt(x), step = end / kSteps;
  double sum = 0;
  for (int i = 0; i <= kSteps; ++i) {
    const double u = i * step, weight = i == 0 || i == kSteps ? 1 : i % 2 ? 4 : 2;
    sum += weight * 2 * std::pow(u, 2 * a - 1) * std::exp(-u * u);
  }
  return sum * step / 3 / std::tgamma(a);
}

struct FunctionRow {
  const char* name;
  Tensor (*run)(const Tensor&);
  double (*formula)(double);
  double low = -3, high = 3;
  bool has_gradient = true;
};
const FunctionRow kFunctions[] = {
    {"i0", special::i0, [](double x) { return i_of(0, x); }},
    {"i0e", special::i0e, [](double x) { return i_of(0, x) * std::exp(-std::abs(x)); }, 0.2, 20},
    {"i1", special::i1, [](double x) { return i_of(1, x); }},
    {"i1e", special::i1e, [](double x) { return i_of(1, x) * std::exp(-std::abs(x)); }, -20, -0.2},
    {"modified_bessel_i0", special::modified_bessel_i0, [](double x) { return i_of(0, x); }},
    {"modified_bessel_i1", special::modified_bessel_i1, [](double x) { return i_of(1, x); }},
    {"modified_bessel_k0", special::modified_bessel_k0,
     [](double x) { return std::cyl_bessel_k(0, x); }, 0.4, 5},
    {"modified_bessel_k1", special::modified_bessel_k1,
     [](double x) { return std::cyl_bessel_k(1, x); }, 0.4, 5},
    {"scaled_modified_bessel_k0", special::scaled_modified_bessel_k0,
     [](double x) { return std::exp(x) * std::cyl_bessel_k(0, x); }, 0.4, 5, false},
    {"scaled_modified_bessel_k1", special::scaled_modified_bessel_k1,
     [](double x) { return std::exp(x) * std::cyl_bessel_k(1, x); }, 0.4, 5, false},
    {"bessel_j0", special::bessel_j0, [](double x) { return j_of(0, x); }, -20, 20},
    {"bessel_j1", special::bessel_j1, [](double x) { return j_of(1, x); }, -20, 20},
    {"bessel_y0", special::bessel_y0, [](double x) { return std::cyl_neumann(0, x); }, 0.4, 20},
    {"bessel_y1", special::bessel_y1, [](double x) { return std::cyl_neumann(1, x); }, 0.4, 20},
    {"spherical_bessel_j0", special::spherical_bessel_j0,
     [](double x) { return x == 0 ? 1 : std::sin(x) / x; }, -9, 9, false},
    {"airy_ai", special::airy_ai, airy_of, 0.3, 6, false},
    {"erfcx", special::erfcx, [](double x) { return std::exp(x * x) * std::erfc(x); }, -2, 4},
    {"ndtri", special::ndtri, ndtri_of, 0.02, 0.98},
    {"log_ndtr", special::log_ndtr, [](double x) { return std::log(normal_cdf_of(x)); }, -6, 2},
    {"entr", special::entr, [](double x) { return -x * std::log(x); }, 0.2, 4},
};

void add_functions(Cases& cases) {
  for (const FunctionRow& row : kFunctions) {
    Case sample{.op = "special_function",
                .run = [run = row.run](In x) { return one(run(x[0])); },
                .reference =
                    [formula = row.formula](Arrays x) {
                      return map_elements(x, [&](const double* v) { return formula(*v); });
                    },
                .tolerance = 4};
    if (!row.has_gradient) sample.opt_out = {{Mode::grad, "PyTorch has no gradient of it"}};
    for (const Shape& sizes : {Shape{3, 4}, Shape{}, Shape{0, 3}, Shape{1037, 2}}) {
      sample.name = concat(row.name, " ", sizes);
      sample.inputs = {{sizes, row.low, row.high}};
      cases.add(sample);
    }
  }
  cases.add(
      {.op = "special_function",
       .name = "i0 in place",
       .inputs = {{{3, 4}}},
       .run = [](In x) { return one(i0(x[0])); },
       .reference =
           [](Arrays x) { return map_elements(x, [](const double* v) { return i_of(0, *v); }); },
       .inplace = [](In x) { i0_(x[0]); },
       .tolerance = 4});
}

struct PairRow {
  const char* name;
  Tensor (*run)(const Tensor&, const Tensor&);
  double (*formula)(double, double);
  double low, high, other_low, other_high;
};
const PairRow kDifferentiable[] = {
    {"zeta", special::zeta, zeta_of, 1.5, 4, 0.4, 5},
    {"igamma", igamma, lower_gamma_of, 1, 6, 0.3, 8},
    {"igammac", igammac, [](double a, double x) { return 1 - lower_gamma_of(a, x); }, 1, 6, 0.3, 8},
};

unsigned degree(double n) { return static_cast<unsigned>(n); }
double chebyshev_t_of(double x, double n) { return std::cos(std::trunc(n) * std::acos(x)); }
double chebyshev_u_of(double x, double n) {
  return std::sin((std::trunc(n) + 1) * std::acos(x)) / std::sin(std::acos(x));
}
double chebyshev_v_of(double x, double n) {
  return std::cos((std::trunc(n) + 0.5) * std::acos(x)) / std::cos(std::acos(x) / 2);
}
double chebyshev_w_of(double x, double n) {
  return std::sin((std::trunc(n) + 0.5) * std::acos(x)) / std::sin(std::acos(x) / 2);
}
const PairRow kPolynomials[] = {
    {"chebyshev_t", special::chebyshev_polynomial_t, chebyshev_t_of, -0.9, 0.9, 0, 14},
    {"chebyshev_u", special::chebyshev_polynomial_u, chebyshev_u_of, -0.9, 0.9, 0, 14},
    {"chebyshev_v", special::chebyshev_polynomial_v, chebyshev_v_of, -0.9, 0.9, 0, 14},
    {"chebyshev_w", special::chebyshev_polynomial_w, chebyshev_w_of, -0.9, 0.9, 0, 14},
    {"shifted_chebyshev_t", special::shifted_chebyshev_polynomial_t,
     [](double x, double n) { return chebyshev_t_of(2 * x - 1, n); }, 0.1, 0.9, 0, 14},
    {"shifted_chebyshev_u", special::shifted_chebyshev_polynomial_u,
     [](double x, double n) { return chebyshev_u_of(2 * x - 1, n); }, 0.1, 0.9, 0, 14},
    {"shifted_chebyshev_v", special::shifted_chebyshev_polynomial_v,
     [](double x, double n) { return chebyshev_v_of(2 * x - 1, n); }, 0.1, 0.9, 0, 14},
    {"shifted_chebyshev_w", special::shifted_chebyshev_polynomial_w,
     [](double x, double n) { return chebyshev_w_of(2 * x - 1, n); }, 0.1, 0.9, 0, 14},
    {"hermite_h", special::hermite_polynomial_h,
     [](double x, double n) { return std::hermite(degree(n), x); }, -2, 2, 0, 5},
    {"hermite_he", special::hermite_polynomial_he,
     [](double x, double n) {
       return std::pow(2, -std::trunc(n) / 2) * std::hermite(degree(n), x * kRootHalf);
     },
     -2, 2, 0, 5},
    {"laguerre_l", special::laguerre_polynomial_l,
     [](double x, double n) { return std::laguerre(degree(n), x); }, 0.1, 4, 0, 6},
    {"legendre_p", special::legendre_polynomial_p,
     [](double x, double n) { return std::legendre(degree(n), x); }, -0.9, 0.9, 0, 6},
};

void add_pairs(Cases& cases, const PairRow& row, bool differentiable) {
  Case sample{.op = "special_pair",
              .run = [run = row.run](In x) { return one(run(x[0].detach(), x[1])); },
              .reference =
                  [formula = row.formula](Arrays x) {
                    return map_elements(x, [&](const double* v) { return formula(v[0], v[1]); });
                  },
              .tolerance = 8,
              .grad_inputs = std::vector<int>{1}};
  if (!differentiable) sample.opt_out = {{Mode::grad, "PyTorch has no gradient of it"}};
  const auto add = [&](const char* name, const Shape& a, const Shape& b) {
    sample.name = concat(row.name, ", ", name);
    sample.inputs = {{a, row.low, row.high}, {b, row.other_low, row.other_high}};
    cases.add(sample);
  };
  add("matrices", {3, 4}, {3, 4});
  add("column and row", {3, 1}, {1, 4});
  add("0-dim", {}, {2, 3});
  add("empty", {0, 3}, {1, 3});
}

}  // namespace

void special_functions_cases(Cases& cases) {
  add_functions(cases);
  for (const PairRow& row : kDifferentiable) add_pairs(cases, row, true);
  for (const PairRow& row : kPolynomials) add_pairs(cases, row, false);
  cases.error("special_pair", "a derivative that nobody has",
              "the derivative for 'igamma: input' is not implemented", [] {
                const Tensor a = ones({2}).requires_grad_();
                igamma(a, ones({2})).sum().backward();
              });
}

}  // namespace tensora::suite
