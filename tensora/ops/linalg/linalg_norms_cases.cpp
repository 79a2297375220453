#include "tensora/ops/linalg/linalg_norms.h"

#include <cmath>
#include <limits>

#include "tensora/ops/linalg/linalg_cases.h"

namespace tensora::suite {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> singular_values(const Array& a) {
  const bool wide = rows_of(a) < columns_of(a);
  std::vector<double> values =
      eigen(wide ? product(a, transposed(a)) : product(transposed(a), a)).values.values;
  for (double& value : values) value = std::sqrt(value);
  return values;
}

double norm_of(const Array& a, double p) {
  if (std::abs(p) == 2) return p > 0 ? singular_values(a).back() : singular_values(a).front();
  const Array x = std::abs(p) == 1 ? transposed(a) : a;  // sums of rows
  double result = p > 0 ? 0 : kInfinity;
  for (int64_t i = 0; i < rows_of(x); ++i) {
    double sum = 0;
    for (int64_t j = 0; j < columns_of(x); ++j) sum += std::abs(x[i * columns_of(x) + j]);
    result = p > 0 ? std::max(result, sum) : std::min(result, sum);
  }
  return result;
}

double norm_of(const Array& a, const std::string& p) {
  double sum = 0;
  if (p == "nuc")
    for (const double value : singular_values(a)) sum += value;
  else
    for (const double value : a.values) sum += value * value;
  return p == "nuc" ? sum : std::sqrt(sum);
}

Array number(double value) { return Array(Shape{}, value); }

template <class Order>
void matrix_norms(Cases& cases, Order p) {
  for (const Shape& sizes : {Shape{3, 2}, Shape{3, 4}})
    cases.add({.op = "linalg_matrix_norm",
               .name = concat(p, " of ", sizes),
               .inputs = {{.sizes = sizes, .low = -1, .high = 1}},
               .run = [=](In x) { return one(linalg::matrix_norm(x[0], p)); },
               .reference = [=](Arrays x) { return one(number(norm_of(x[0], p))); },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 40});
  cases.add({.op = "linalg_matrix_norm",
             .name = concat(p, " of two dims, kept"),
             .inputs = {{.sizes = {3, 2, 1}, .low = -1, .high = 1}},
             .run =
                 [=](In x) {
                   return one(linalg::norm(x[0], p, {2, 0}, true));
                 },
             .reference =
                 [=](Arrays x) {
                   Array out({1, 2, 1}), part({1, 3});
                   for (int64_t k = 0; k < 2; ++k) {
                     for (int64_t i = 0; i < 3; ++i) part[i] = x[0][i * 2 + k];
                     out[k] = norm_of(part, p);
                   }
                   return one(out);
                 },
             .dtypes = {kFloat64},
             .tolerance = 40});
  cases.add(
      {.op = "linalg_cond",
       .name = concat(p),
       .inputs = {{.sizes = {3, 3}, .values = {4, 1, -1.3, 0.5, 3, 1, 2.2, -0.9, 6}}},
       .run = [=](In x) { return one(linalg::cond(x[0], p)); },
       .reference =
           [=](Arrays x) { return one(number(norm_of(x[0], p) * norm_of(inverted(x[0]), p))); },
       .dtypes = {kFloat32, kFloat64},
       .tolerance = 40});
}

}  // namespace

void linalg_norms_cases(Cases& cases) {
  for (const double p : {1.0, -1.0, 2.0, -2.0, kInfinity, -kInfinity}) matrix_norms(cases, p);
  for (const char* p : {"fro", "nuc"}) matrix_norms(cases, p);
  cases.add({.op = "linalg_vector_norm",
             .name = "over one dim, kept",
             .inputs = {{{2, 3}}},
             .run =
                 [](In x) {
                   return Out{linalg::vector_norm(x[0], 3, {1}, true),
                              linalg::norm(x[0], 3, {1}, true), linalg::norm(x[0])};
                 },
             .reference =
                 [](Arrays x) {
                   Array out({2, 1});
                   double all = 0;
                   for (int64_t at = 0; at < 6; ++at) {
                     out[at / 3] += std::pow(std::abs(x[0][at]), 3);
                     all += x[0][at] * x[0][at];
                   }
                   for (double& value : out.values) value = std::cbrt(value);
                   return ArrayList{out, out, number(std::sqrt(all))};
                 },
             .tolerance = 4});
  cases.error("linalg_matrix_norm", "order", "Order 3 not supported", [] {
    linalg::matrix_norm(ones({2, 2}), 3);
  });
  cases.error("linalg_matrix_norm", "name", "Order max not supported", [] {
    linalg::matrix_norm(ones({2, 2}), "max");
  });
  cases.error("linalg_matrix_norm", "a vector", "must have at least 2 dimensions",
              [] { linalg::matrix_norm(ones({2})); });
  cases.error("linalg_matrix_norm", "one dim twice", "dims must be different", [] {
    linalg::matrix_norm(ones({2, 2}), "fro", {1, -1});
  });
  cases.error("linalg_norm", "three dims", "the input must be 1D or 2D. Got 3D.", [] {
    linalg::norm(ones({2, 2, 2}), 2);
  });
  cases.error("linalg_cond", "not square", "linalg.cond", [] { linalg::cond(ones({2, 3}), 1); });
}

}  // namespace tensora::suite
