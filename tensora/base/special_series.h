#pragma once

// Internal header
// Special functions of one argument, in double. The Chebyshev coefficients were fitted with 40
// digits to the functions named; each series is cut off below 1e-18 of its smallest value.

#if !defined(__CUDACC__)
#include <cmath>
#endif

#include "tensora/base/special.h"

namespace tensora::math {

/// The sum of c[k] T_k(t), by Clenshaw's recurrence.
template <int N>
TENSORA_HD inline double chebyshev_sum(const double (&c)[N], double t) {
  double next = 0, after = 0;
  for (int k = N - 1; k > 0; --k) {
    const double sum = 2 * t * next - after + c[k];
    after = next;
    next = sum;
  }
  return t * next - after + c[0];
}

/// c[0] x^(N - 1) + ... + c[N - 1].
template <int N>
TENSORA_HD inline double polynomial(const double (&c)[N], double x) {
  double sum = c[0];
  for (int k = 1; k < N; ++k) sum = sum * x + c[k];
  return sum;
}

TENSORA_HD inline double infinity() { return __builtin_huge_val(); }
TENSORA_HD inline double not_a_number() { return __builtin_nan(""); }
TENSORA_HD inline bool is_infinite(double x) { return abs(x) == infinity(); }

// ---- modified Bessel functions -----------------------------------------------------------------

/// exp(-|x|) I0(x); fitted on [0, 8], and times sqrt(x) as a function of 8/x.
TENSORA_HD inline double bessel_i0e(double x) {
  constexpr double near[] = {
      0.33839763720473803,    -0.3046826723431984,     0.17162090152220877,
      -0.09490109704804764,   0.04930528423967071,     -0.02373741480589947,
      0.010546460394594998,   -0.004324309995050576,   0.0016394756169413357,
      -0.0005763755745385824, 0.00018850288509584165,  -5.754195010082104e-05,
      1.6448448070728896e-05, -4.4167383584587505e-06, 1.1173875391201037e-06,
      -2.670793853940612e-07, 6.046995022541919e-08,   -1.300025009986248e-08,
      2.6598237246823866e-09, -5.189795601635263e-10,  9.675809035373237e-11,
      -1.726826291441556e-11, 2.95505266312964e-12,    -4.856446783111929e-13,
      7.676185498604936e-14,  -1.1685332877993451e-14, 1.715391285555133e-15,
      -2.431279846547955e-16, 3.3307945188222384e-17,  -4.4153416464793395e-18,
      5.669178006921496e-19};
  constexpr double far[] = {
      0.4022452055070544,      0.0033691164782556943,   6.889758346916825e-05,
      2.8913705208347567e-06,  2.0489185894690638e-07,  2.266668990498178e-08,
      3.3962320257083865e-09,  4.94060238822497e-10,    1.1889147107846439e-11,
      -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12,
      7.180124451383666e-13,   3.8527783827421426e-13,  1.54008621752141e-14,
      -4.150569347287222e-14,  -9.554846698828307e-15,  3.8116806693526224e-15,
      1.7725601330565263e-15,  -3.425485619677219e-16,  -2.8276239805165836e-16,
      3.461222867697461e-17,   4.46562142029676e-17,    -4.830504485944182e-18,
      -7.233180487874754e-18,  9.921475412173699e-19,   1.193650890845982e-18};
  const double z = abs(x);
  return z <= 8 ? chebyshev_sum(near, z / 4 - 1) : chebyshev_sum(far, 16 / z - 1) / sqrt(z);
}

/// exp(-|x|) I1(x); fitted as I1(x) / x on [0, 8], and times sqrt(x) as a function of 8/x.
TENSORA_HD inline double bessel_i1e(double x) {
  constexpr double near[] = {
      0.12629359322181682,     -0.17641651835783406,    0.1026436586898471,
      -0.05294598120809499,    0.024726449030626516,    -0.010564084894626197,
      0.004156422944312888,    -0.0015135724506312532,  0.0005122859561685758,
      -0.00016176081582589674, 4.781565107550054e-05,   -1.3273163656039436e-05,
      3.4702513081376785e-06,  -8.568720264695455e-07,  2.0032947535521353e-07,
      -4.445059128796328e-08,  9.381537386495773e-09,   -1.8872497517228294e-09,
      3.625590281552117e-10,   -6.663489723502027e-11,  1.1736186298890901e-11,
      -1.9839743977649436e-12, 3.223793365945575e-13,   -5.042185504727912e-14,
      7.600684294735408e-15,   -1.1055969477353862e-15, 1.5536319577362005e-16,
      -2.111421214358166e-17,  2.7779141127610464e-18,  -3.541581772542136e-19,
      4.379302756655071e-20};
  constexpr double far[] = {
      0.38928811750914005,     -0.009761097491361469,   -0.00011058893876262371,
      -3.882564808877691e-06,  -2.512236237870209e-07,  -2.6314688468895196e-08,
      -3.835380385964237e-09,  -5.589743462196584e-10,  -1.8974958123505413e-11,
      3.2526035830154884e-11,  1.4125807436613782e-11,  2.0356285441470896e-12,
      -7.198551776245908e-13,  -4.0835511110921974e-13, -2.1015418427726643e-14,
      4.272440016711951e-14,   1.0420276984128802e-14,  -3.8144030724370075e-15,
      -1.8803547755107825e-15, 3.3082023109209285e-16,  2.96262899764595e-16,
      -3.209525921993424e-17,  -4.6503053684893586e-17, 4.414348323071708e-18,
      7.517296310842105e-18,   -9.314178867326884e-19,  -1.242193275194891e-18};
  const double z = abs(x);
  if (z <= 8) return chebyshev_sum(near, z / 4 - 1) * x;
  return copysign(chebyshev_sum(far, 16 / z - 1) / sqrt(z), x);
}

/// exp(|x|) times a scaled function; in two steps, because exp(|x|) overflows first.
TENSORA_HD inline double unscaled(double scaled, double x) {
  const double z = abs(x);
  if (z < 700) return exp(z) * scaled;
  if (is_infinite(z)) return copysign(z, scaled);
  const double root = exp(z / 2);
  return root * scaled * root;
}
TENSORA_HD inline double bessel_i0(double x) { return unscaled(bessel_i0e(x), x); }
TENSORA_HD inline double bessel_i1(double x) {
  return is_infinite(x) ? x : unscaled(bessel_i1e(x), x);
}

/// K0(x) + log(x/2) I0(x) as a function of x² on [0, 4].
TENSORA_HD inline double bessel_k0_near(double x) {
  constexpr double c[] = {-0.2676636966169514,    0.3442898999246285,     0.0359799365153615,
                          0.001264615411446926,   2.286212103119452e-05,  2.5347910790261494e-07,
                          1.904516377220209e-09,  1.0349695257633625e-11, 4.2598161427910826e-14,
                          1.3744654358807508e-16, 3.5708965285083736e-19};
  return chebyshev_sum(c, x * x / 2 - 1) - log(x / 2) * bessel_i0(x);
}
/// x (K1(x) - log(x/2) I1(x)) as a function of x² on [0, 4].
TENSORA_HD inline double bessel_k1_near(double x) {
  constexpr double c[] = {0.7626501136694739,     -0.3531559607765449,     -0.12261118082265715,
                          -0.006975723859639864,  -0.0001730288957513052,  -2.4334061415659684e-06,
                          -2.213387630734726e-08, -1.4114883926335278e-10, -6.666901694199329e-13,
                          -2.427449850519366e-15, -7.023863479386288e-18};
  return chebyshev_sum(c, x * x / 2 - 1) / x + log(x / 2) * bessel_i1(x);
}
/// exp(x) K0(x) and exp(x) K1(x) for x > 2; fitted times sqrt(x) as functions of 2/x.
TENSORA_HD inline double bessel_k0e_far(double x) {
  constexpr double c[] = {1.2201515410329777,      -0.0314481013119645,    0.0015698838857300533,
                          -0.00012849549581627802, 1.39498137188765e-05,   -1.8317555227191195e-06,
                          2.766813639445015e-07,   -4.660489897687948e-08, 8.574034017414225e-09,
                          -1.6975345093890614e-09, 3.5773972814003283e-10, -7.957489244477396e-11,
                          1.8559491149549264e-11,  -4.514597883374519e-12, 1.1403405882073441e-12,
                          -2.9800969231481784e-13, 8.032890775068375e-14,  -2.2275133267462965e-14,
                          6.340076476276646e-15,   -1.848593377920907e-15, 5.5120559994043335e-16,
                          -1.6782311257549006e-16, 5.2103917776435543e-17, -1.6475805939842632e-17,
                          5.3004337711773354e-18,  -1.7331712005821001e-18};
  return chebyshev_sum(c, 4 / x - 1) / sqrt(x);
}
TENSORA_HD inline double bessel_k1e_far(double x) {
  constexpr double c[] = {1.3603130952422213,      0.10392373657681724,     -0.002857816859622779,
                          0.00019521551847135162,  -1.936197974166083e-05,  2.406484947837217e-06,
                          -3.5019606030878126e-07, 5.7410841254500495e-08,  -1.0345762465678097e-08,
                          2.0150497551970347e-09,  -4.1903547593419254e-10, 9.218315187605315e-11,
                          -2.129967838427791e-11,  5.139639673482343e-12,   -1.2891739609498229e-12,
                          3.348419666052243e-13,   -8.976705182010146e-14,  2.4771544242195988e-14,
                          -7.0198370892147685e-15, 2.038703166239861e-15,   -6.057047270643018e-16,
                          1.8380935752430455e-16,  -5.689462849193648e-17,  1.7940510478863572e-17,
                          -5.7567444820733025e-18, 1.8778651901623268e-18};
  return chebyshev_sum(c, 4 / x - 1) / sqrt(x);
}
TENSORA_HD inline double bessel_k0(double x) {
  if (!(x > 0)) return x == 0 ? infinity() : not_a_number();
  return x <= 2 ? bessel_k0_near(x) : bessel_k0e_far(x) * exp(-x);
}
TENSORA_HD inline double bessel_k1(double x) {
  if (!(x > 0)) return x == 0 ? infinity() : not_a_number();
  return x <= 2 ? bessel_k1_near(x) : bessel_k1e_far(x) * exp(-x);
}
TENSORA_HD inline double bessel_k0e(double x) {
  if (!(x > 0)) return x == 0 ? infinity() : not_a_number();
  return x <= 2 ? bessel_k0_near(x) * exp(x) : bessel_k0e_far(x);
}
TENSORA_HD inline double bessel_k1e(double x) {
  if (!(x > 0)) return x == 0 ? infinity() : not_a_number();
  return x <= 2 ? bessel_k1_near(x) * exp(x) : bessel_k1e_far(x);
}

TENSORA_HD inline double spherical_bessel_j0(double x) {
  if (is_infinite(x)) return 0;
  return x == 0 ? 1 : sin(x) / x;
}

// ---- the Airy function --------------------------------------------------------------------------

/// Ai(x) for |x| <= 2, by its power series: two solutions with the values at 0.
TENSORA_HD inline double airy_series(double x) {
  const double cube = x * x * x;
  double even = 1, odd = x, even_sum = 1, odd_sum = x;
  for (int k = 1; k < 25; ++k) {
    even *= cube / ((3 * k - 1) * (3 * k));
    odd *= cube / ((3 * k) * (3 * k + 1));
    even_sum += even;
    odd_sum += odd;
  }
  return 0.35502805388781723926 * even_sum - 0.25881940379280679841 * odd_sum;
}

/// Ai(x): with z = 2/3 |x|^1.5 and u proportional to 1/z, for x > 1 exp(-z) F(u) / (2 sqrt(pi)
/// x^(1/4)); for x < -2 (cos(z - pi/4) P(u) + sin(z - pi/4) u Q(u)) / (sqrt(pi) |x|^(1/4)).
TENSORA_HD inline double airy_ai(double x) {
  constexpr double decaying[] = {
      0.9637683609849689,      -0.03241600019448593,    0.0031941239613695834,
      -0.0004942254050330157,  9.706517942546595e-05,   -2.224444511200298e-05,
      5.694838987920343e-06,   -1.5868397039029868e-06, 4.7311609911660025e-07,
      -1.4914679268537125e-07, 4.928201239454347e-08,   -1.6955948660827914e-08,
      6.043322459186302e-09,   -2.2220862485979766e-09, 8.400808330101413e-10,
      -3.256498049790017e-10,  1.2913338128187496e-10,  -5.227872191419496e-11,
      2.1571120180559685e-11,  -9.058221909804504e-12,  3.8661427181794894e-12,
      -1.6752774093903056e-12, 7.362663634133786e-13,   -3.278955307898836e-13,
      1.4785693873897687e-13,  -6.7459272277099e-14,    3.112098467985573e-14,
      -1.4508441986007412e-14, 6.831416567315612e-15,   -3.247207556858449e-15,
      1.557481834155047e-15,   -7.53476283451668e-16,   3.675223402283836e-16,
      -1.8068071063373415e-16, 8.94975618550186e-17,    -4.46528818390057e-17,
      2.2433819359991275e-17,  -1.1346375254410153e-17, 5.775684648491708e-18,
      -2.9582930657326856e-18, 1.524317677272058e-18};
  constexpr double p[] = {0.9967891298446905,      -0.004130128828703613,   -0.0008239390724262582,
                          9.509829158181971e-05,   -2.33653044311871e-06,   -1.6116779859977746e-06,
                          4.4871807267181985e-07,  -6.185570986179107e-08,  -1.5012061118205146e-09,
                          3.875169006522936e-09,   -1.3699662181035864e-09, 2.892451570668314e-10,
                          -2.1339590327825322e-11, -1.4017215305078637e-11, 8.591549662340324e-12,
                          -2.9687360440169015e-12, 6.812795307398657e-13,   -5.2722008366857896e-14,
                          -4.633120472933449e-14,  3.2610956148832043e-14,  -1.3546464150143053e-14,
                          4.054293518787307e-15,   -7.314298253380015e-16,  -8.655096500438612e-17,
                          1.575891539600782e-16,   -9.084968957824239e-17,  3.734251366734175e-17,
                          -1.1561423122439975e-17, 2.1636502502596958e-18};
  constexpr double q[] = {0.0353257918705878,     -0.0018807527699202754,  -0.00030556177235277693,
                          6.851670251129937e-05,  -5.540619118108889e-06,  -9.4731314532628e-07,
                          4.93531477649229e-07,   -1.086911066162315e-07,  9.502086219515367e-09,
                          3.507902214256194e-09,  -2.1388737962167055e-09, 6.57381916656192e-10,
                          -1.192169313402161e-10, -3.1558377517315644e-12, 1.3400681024500651e-11,
                          -6.732842894226816e-12, 2.19585237733768e-12,    -4.58034980074374e-13,
                          2.5450787075373333e-16, 5.748350357636968e-14,   -3.513420423752644e-14,
                          1.4177285837083908e-14, -4.140240881866766e-15,  6.536495290699754e-16,
                          1.8019860465851634e-16, -2.2131779051447693e-16, 1.2383141956386072e-16,
                          -5.094613121165117e-17, 1.5779842751674715e-17,  -2.797085765604862e-18,
                          -6.640852342202253e-19, 9.781239676819704e-19,   -6.1204382958682195e-19,
                          2.850068662856318e-19,  -1.0479335757529793e-19};
  constexpr double inverse_root_pi = 0.56418958354775628695;
  if (isnan(x)) return x;
  if (x <= 1 && x >= -2) return airy_series(x);
  const double size = abs(x), root = sqrt(size), z = 2.0 / 3 * size * root;
  const double amplitude = inverse_root_pi / sqrt(root);
  if (x > 0) return 0.5 * amplitude * exp(-z) * chebyshev_sum(decaying, 4.0 / 3 / z - 1);
  const double u = 1.8856180831641267317 / z, half_root = 0.70710678118654752440;
  const double c = (cos(z) + sin(z)) * half_root, s = (sin(z) - cos(z)) * half_root;
  return amplitude * (c * chebyshev_sum(p, 2 * u - 1) + s * u * chebyshev_sum(q, 2 * u - 1));
}

// ---- the normal distribution
// ---------------------------------------------------------------------

/// exp(x²) erfc(x); (1 + 2x) times it is fitted in (x - 3.75) / (x + 3.75).
TENSORA_HD inline double erfcx(double x) {
  constexpr double c[] = {1.1775789345674017,     -0.004590054580646478,   -0.08424913336651792,
                          0.05920993999819189,    -0.026658668435305753,   0.009074997670705265,
                          -0.002413163540417608,  0.0004907758365258086,   -6.916973302501207e-05,
                          4.13902798607301e-06,   7.74038306619849e-07,    -2.1886401049234397e-07,
                          1.076499946567091e-08,  4.521959811218287e-09,   -7.754400208831351e-10,
                          -6.318088340886684e-11, 2.86879501093067e-11,    1.9455868545777347e-13,
                          -9.65469674843344e-13,  3.25254814814874e-14,    3.3478119482868056e-14,
                          -1.864562880419313e-15, -1.2507950530688648e-15, 7.418235256624044e-17,
                          5.068148904796111e-17,  -2.237056659436e-18,     -2.187342944303018e-18};
  if (x < 0) {
    if (x < -27) return infinity();
    const double square = x * x, rest = ::fma(x, x, -square);  // what the square is rounded by
    const double power = exp(square);
    return 2 * (power + power * rest) - erfcx(-x);
  }
  if (x > 1e9) return 0.56418958354775628695 / x;
  return chebyshev_sum(c, (x - 3.75) / (x + 3.75)) / (1 + 2 * x);
}

/// The inverse of the normal distribution function: Wichura's algorithm AS 241.
TENSORA_HD inline double ndtri(double p) {
  constexpr double central_over[] = {2.5090809287301226727e+3, 3.3430575583588128105e+4,
                                     6.7265770927008700853e+4, 4.5921953931549871457e+4,
                                     1.3731693765509461125e+4, 1.9715909503065514427e+3,
                                     1.3314166789178437745e+2, 3.3871328727963666080e+0};
  constexpr double central_under[] = {5.2264952788528545610e+3, 2.8729085735721942674e+4,
                                      3.9307895800092710610e+4, 2.1213794301586595867e+4,
                                      5.3941960214247511077e+3, 6.8718700749205790830e+2,
                                      4.2313330701600911252e+1, 1.0};
  constexpr double middle_over[] = {7.74545014278341407640e-4, 2.27238449892691845833e-2,
                                    2.41780725177450611770e-1, 1.27045825245236838258e+0,
                                    3.64784832476320460504e+0, 5.76949722146069140550e+0,
                                    4.63033784615654529590e+0, 1.42343711074968357734e+0};
  constexpr double middle_under[] = {1.05075007164441684324e-9, 5.47593808499534494600e-4,
                                     1.51986665636164571966e-2, 1.48103976427480074590e-1,
                                     6.89767334985100004550e-1, 1.67638483018380384940e+0,
                                     2.05319162663775882187e+0, 1.0};
  constexpr double far_over[] = {2.01033439929228813265e-7, 2.71155556874348757815e-5,
                                 1.24266094738807843860e-3, 2.65321895265761230930e-2,
                                 2.96560571828504891230e-1, 1.78482653991729133580e+0,
                                 5.46378491116411436990e+0, 6.65790464350110377720e+0};
  constexpr double far_under[] = {2.04426310338993978564e-15, 1.42151175831644588870e-7,
                                  1.84631831751005468180e-5,  7.86869131145613259100e-4,
                                  1.48753612908506148525e-2,  1.36929880922735805310e-1,
                                  5.99832206555887937690e-1,  1.0};
  if (!(p > 0 && p < 1)) return p == 0 ? -infinity() : p == 1 ? infinity() : not_a_number();
  const double q = p - 0.5;
  if (abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(central_over, r) / polynomial(central_under, r);
  }
  const double r = sqrt(-log(q < 0 ? p : 1 - p));
  const double size = r <= 5 ? polynomial(middle_over, r - 1.6) / polynomial(middle_under, r - 1.6)
                             : polynomial(far_over, r - 5) / polynomial(far_under, r - 5);
  return copysign(size, q);
}

/// The logarithm of the normal distribution function.
TENSORA_HD inline double log_ndtr(double x) {
  const double t = x * 0.70710678118654752440;
  return x < -1 ? log(erfcx(-t) / 2) - t * t : log1p(-erfc(t) / 2);
}

TENSORA_HD inline double entropy_term(double x) {
  if (isnan(x)) return x;
  return x > 0 ? -x * log(x) : x == 0 ? 0 : -infinity();
}

}  // namespace tensora::math
