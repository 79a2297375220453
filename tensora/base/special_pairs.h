#pragma once

// Internal header
// Special functions of two arguments, in double: the Hurwitz zeta function, the incomplete gamma
// functions and orthogonal polynomials.

#include "tensora/base/special_list.h"
#include "tensora/base/special_series.h"

namespace tensora::math {

/// As PyTorch's: infinite at s = 1 and at the poles of q, NaN for s < 1.
TENSORA_HD inline double zeta(double s, double q) {
  if (s == 1) return infinity();
  if (!(s > 1)) return not_a_number();
  if (q > 0) return hurwitz_zeta(s, q);
  const double whole = floor(q);
  if (q == whole) return infinity();
  if (s != floor(s) || isnan(q)) return not_a_number();
  // The terms up to the last negative one are, mirrored, a difference of two series.
  const double part = q - whole, rest = (whole + 1) - q;
  const double mirrored = hurwitz_zeta(s, rest) - hurwitz_zeta(s, 1 - q);
  return hurwitz_zeta(s, part) + (fmod(s, 2.0) == 0 ? mirrored : -mirrored);
}

// ---- incomplete gamma functions
// -------------------------------------------------------------------

/// log(1 + x) - x without cancellation, for |x| < 0.7.
TENSORA_HD inline double log1p_minus(double x) {
  const double r = x / (2 + x), square = r * r;
  double sum = 0;
  for (int k = 30; k > 0; --k) sum = sum * square + 1.0 / (2 * k + 1);
  return r * (2 * square * sum - x);
}

/// gamma(a) exp(a) a^(1/2 - a) / sqrt(2 pi) for a >= 20: Stirling's series.
TENSORA_HD inline double scaled_gamma(double a) {
  constexpr double c[] = {-691.0 / 360360, 1.0 / 1188, -1.0 / 1680,
                          1.0 / 1260,      -1.0 / 360, 1.0 / 12};
  const double inverse = 1 / a;
  return exp(polynomial(c, inverse * inverse) * inverse);
}

/// x^a exp(-x) / gamma(a).
TENSORA_HD inline double gamma_density(double a, double x) {
  constexpr double inverse_root = 0.39894228040143267794;  // 1 / sqrt(2 pi)
  if (a < 20) return x > 800 ? 0 : pow(x, a) * exp(-x) / ::tgamma(a);
  const double mu = (x - a) / a;
  const double exponent = abs(mu) < 0.5 ? a * log1p_minus(mu) : a * log(x / a) + (a - x);
  return exp(exponent) * sqrt(a) * inverse_root / scaled_gamma(a);
}

/// The lower function by its series, for x not far above a.
TENSORA_HD inline double lower_gamma_series(double a, double x) {
  double sum = 1, term = 1, next = a;
  for (int k = 0; k < 2000; ++k) {
    next += 1;
    term *= x / next;
    sum += term;
    if (term <= 1e-17 * sum) break;
  }
  return sum * gamma_density(a, x) / a;
}

/// The upper function for small x, where 1 - lower would cancel.
TENSORA_HD inline double upper_gamma_series(double a, double x) {
  double factor = 1, sum = 0;
  for (int n = 1; n < 2000; ++n) {
    factor *= -x / n;
    const double term = factor / (a + n);
    sum += term;
    if (abs(term) <= 1e-17 * abs(sum)) break;
  }
  const double logarithm = a * log(x);
  return -expm1(logarithm - lgamma(1 + a)) - exp(logarithm - lgamma(a)) * sum;
}

/// The upper function by its continued fraction, for x above a.
TENSORA_HD inline double upper_gamma_fraction(double a, double x) {
  constexpr double large = 4503599627370496.0;
  double y = 1 - a, z = x + y + 1;
  double over_before = 1, under_before = x, over = x + 1, under = z * x, value = over / under;
  for (int k = 1; k < 2000; ++k) {
    y += 1;
    z += 2;
    const double next_over = over * z - over_before * y * k;
    const double next_under = under * z - under_before * y * k;
    over_before = over;
    under_before = under;
    over = next_over;
    under = next_under;
    if (abs(over) > large) {  // only the quotient matters
      over_before /= large;
      under_before /= large;
      over /= large;
      under /= large;
    }
    if (under == 0) continue;
    const double better = over / under, change = abs(value - better);
    value = better;
    if (change <= 1e-16 * abs(value)) break;
  }
  return value * gamma_density(a, x);
}

/// Temme's uniform expansion for a > 200 and x near a: sign -1 gives the lower function, 1 the
/// upper. With eta²/2 = mu - log(1 + mu), mu = x/a - 1, it is erfc(sign eta sqrt(a/2)) / 2 plus
/// sign exp(-a eta²/2) / sqrt(2 pi a) times the sum of c_k(eta) / a^k.
TENSORA_HD inline double gamma_by_normal(double a, double mu, double sign) {
  const double exponent = a * log1p_minus(mu);  // -a eta²/2
  const double eta = copysign(sqrt(-2 * exponent / a), mu);
  constexpr double c0[] = {-5.830772132550426e-11,  -2.5514193994946248e-11, 9.14769958223679e-10,
                           -4.382036018453353e-09,  1.0261809784240309e-08,  6.707853543401498e-09,
                           -1.7665952736826078e-07, 8.296711340953087e-07,   -1.85406221071516e-06,
                           -2.185448510679992e-06,  3.919263178522438e-05,   -0.0001787551440329218,
                           0.0003527336860670194,   0.0011574074074074073,   -0.014814814814814815,
                           0.08333333333333333,     -0.3333333333333333};
  constexpr double c1[] = {1.1951628599778148e-08,  -5.752545603517705e-08,  1.378633446915721e-07,
                           4.647127802807434e-09,   -1.6120900894563446e-06, 7.64916091608111e-06,
                           -1.8098550334489977e-05, -4.018775720164609e-07,  0.00020576131687242798,
                           -0.0009902263374485596,  0.0026455026455026454,   -0.003472222222222222,
                           -0.001851851851851852};
  constexpr double c2[] = {1.4280614206064242e-07, -6.298992138380055e-07,  1.3721957309062934e-06,
                           3.423578734096138e-08,  -1.2760635188618728e-05, 5.2923448829120125e-05,
                           -0.0001073665322636516, 2.0093878600823047e-06,  0.0007716049382716049,
                           -0.0026813271604938273, 0.004133597883597883};
  constexpr double c3[] = {1.4230900732435883e-06, -5.6749528269915965e-06, 1.1082654115347302e-05,
                           -2.396505113867297e-07, -7.561801671883977e-05,  0.00026772063206283885,
                           -0.0004691894943952557, 0.00022947209362139917,  0.0006494341563786008};
  constexpr double c4[] = {1.1375726970678419e-05,  -3.968365047179435e-05, 6.641498215465122e-05,
                           -1.4638452578843418e-06, -0.0002990724803031902, 0.0007840392217200666,
                           -0.0008618882909167117};
  constexpr double c5[] = {6.797780477937208e-05, -0.00019932570516188847, 0.0002772753244959392,
                           -6.972813758365857e-05, -0.00033679855336635813};
  constexpr double c6[] = {-0.0005921664373536939, 0.0005313079364639922};
  double sum = polynomial(c6, eta);
  sum = sum / a + polynomial(c5, eta);
  sum = sum / a + polynomial(c4, eta);
  sum = sum / a + polynomial(c3, eta);
  sum = sum / a + polynomial(c2, eta);
  sum = sum / a + polynomial(c1, eta);
  sum = sum / a + polynomial(c0, eta);
  return 0.5 * erfc(sign * copysign(sqrt(-exponent), mu)) +
         sign * exp(exponent) * sum * 0.39894228040143267794 / sqrt(a);
}

TENSORA_HD inline bool is_near_normal(double a, double x) {
  return a > 200 && abs(x - a) < 0.3 * a;
}

/// Arguments whose result needs no series: NaN, zeros and infinities.
TENSORA_HD inline bool is_gamma_limit(double a, double x) {
  return !(a > 0 && x > 0) || is_infinite(a) || is_infinite(x);
}
/// The lower function there.
TENSORA_HD inline double gamma_limit(double a, double x) {
  if (!(a >= 0 && x >= 0) || (a == 0 && x == 0) || (is_infinite(a) && is_infinite(x)))
    return not_a_number();
  return a == 0 || is_infinite(x) ? 1 : 0;
}

/// The regularised upper incomplete gamma function.
TENSORA_HD inline double igammac(double a, double x) {
  if (is_gamma_limit(a, x)) return 1 - gamma_limit(a, x);
  if (is_near_normal(a, x)) return gamma_by_normal(a, (x - a) / a, 1);
  if (x > 1.1) return x < a ? 1 - lower_gamma_series(a, x) : upper_gamma_fraction(a, x);
  const bool lower = x <= 0.5 ? -0.4 / log(x) < a : x * 1.1 < a;
  return lower ? 1 - lower_gamma_series(a, x) : upper_gamma_series(a, x);
}

/// The regularised lower incomplete gamma function.
TENSORA_HD inline double igamma(double a, double x) {
  if (is_gamma_limit(a, x)) return gamma_limit(a, x);
  if (is_near_normal(a, x)) return gamma_by_normal(a, (x - a) / a, -1);
  return x > 1 && x > a ? 1 - igammac(a, x) : lower_gamma_series(a, x);
}

// ---- orthogonal polynomials
// ------------------------------------------------------------------------

/// Chebyshev polynomials of the kinds T, U, V, W (0 to 3): cos or sin of multiples of acos(x).
TENSORA_HD inline double chebyshev_polynomial(int kind, double x, double n) {
  if (isnan(n)) return n;
  n = trunc(n);
  if (n < 0) return 0;
  const bool odd = fmod(n, 2.0) != 0;
  if (abs(x) == 1) {
    // The values at 1 by kind; at -1 those of V and W change places.
    const int at = x > 0 || kind < 2 ? kind : 5 - kind;
    const double size = at == 1 ? n + 1 : at == 3 ? 2 * n + 1 : 1;
    return x < 0 && odd ? -size : size;
  }
  if (n > 8 && abs(x) < 1) {
    const double angle = acos(x);
    if (kind == 0) return cos(n * angle);
    if (kind == 1) return sin((n + 1) * angle) / sin(angle);
    return kind == 2 ? cos((n + 0.5) * angle) / cos(angle / 2)
                     : sin((n + 0.5) * angle) / sin(angle / 2);
  }
  double before = 1, value = kind == 0 ? x : 2 * x + (kind == 2 ? -1 : kind == 3 ? 1 : 0);
  if (n == 0) return before;
  for (double k = 2; k <= n && !isnan(value); ++k) {
    const double next = 2 * x * value - before;
    before = value;
    value = next;
  }
  return value;
}

/// Hermite polynomials, the physicists' (2) and the probabilists' (1): steps of that factor.
TENSORA_HD inline double hermite_polynomial(double factor, double x, double n) {
  n = trunc(n);
  if (n < 0) return 0;
  if (!(n <= 512)) return not_a_number();  // overflows, as in PyTorch
  double before = 1, value = factor * x;
  if (n == 0) return before;
  for (double k = 1; k < n; ++k) {
    const double next = factor * (x * value - k * before);
    before = value;
    value = next;
  }
  return value;
}

TENSORA_HD inline double laguerre_polynomial(double x, double n) {
  if (isnan(n)) return n;
  n = trunc(n);
  if (n < 0) return 0;
  if (x == 0 || n == 0) return 1;
  double before = 1, value = 1 - x;
  for (double k = 1; k < n && !isnan(value); ++k) {
    const double next = ((2 * k + 1 - x) * value - k * before) / (k + 1);
    before = value;
    value = next;
  }
  return value;
}

TENSORA_HD inline double legendre_polynomial(double x, double n) {
  if (isnan(n)) return n;
  n = trunc(n);
  if (n < 0) return 0;
  if (abs(x) == 1) return x < 0 && fmod(n, 2.0) != 0 ? -1 : 1;
  if (n == 0) return 1;
  double before = 1, value = x;
  for (double k = 1; k < n && !isnan(value); ++k) {
    const double next = ((2 * k + 1) * x * value - k * before) / (k + 1);
    before = value;
    value = next;
  }
  return value;
}

// ---- by number
// -------------------------------------------------------------------------------------

TENSORA_HD inline double value_of_function(int function, double x) {
  switch (function) {
    case kBesselI0:
      return bessel_i0(x);
    case kBesselI0e:
      return bessel_i0e(x);
    case kBesselI1:
      return bessel_i1(x);
    case kBesselI1e:
      return bessel_i1e(x);
    case kBesselJ0:
      return ::j0(x);
    case kBesselJ1:
      return ::j1(x);
    case kBesselY0:
      return ::y0(x);
    case kBesselY1:
      return ::y1(x);
    case kBesselK0:
      return bessel_k0(x);
    case kBesselK1:
      return bessel_k1(x);
    case kErfcx:
      return erfcx(x);
    case kNdtri:
      return ndtri(x);
    case kLogNdtr:
      return log_ndtr(x);
    case kEntr:
      return entropy_term(x);
    case kBesselK0e:
      return bessel_k0e(x);
    case kBesselK1e:
      return bessel_k1e(x);
    case kSphericalBesselJ0:
      return spherical_bessel_j0(x);
    case kAiryAi:
      return airy_ai(x);
    default:
      return not_a_number();
  }
}

TENSORA_HD inline double value_of_pair(int function, double a, double b) {
  if (function >= kChebyshevT && function <= kChebyshevW)
    return chebyshev_polynomial(function - kChebyshevT, a, b);
  if (function >= kShiftedChebyshevT && function <= kShiftedChebyshevW)
    return chebyshev_polynomial(function - kShiftedChebyshevT, 2 * a - 1, b);
  switch (function) {
    case kZeta:
      return zeta(a, b);
    case kIgamma:
      return igamma(a, b);
    case kIgammac:
      return igammac(a, b);
    case kHermiteH:
      return hermite_polynomial(2, a, b);
    case kHermiteHe:
      return hermite_polynomial(1, a, b);
    case kLaguerreL:
      return laguerre_polynomial(a, b);
    case kLegendreP:
      return legendre_polynomial(a, b);
    default:
      return not_a_number();
  }
}

}  // namespace tensora::math
