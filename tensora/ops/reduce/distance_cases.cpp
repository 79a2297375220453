#include "tensora/ops/reduce/distance.h"

#include <cmath>

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

void norm_cases(Cases& cases) {
  for (double p : {1., 2., 3.})
    cases.add({.op = "dist",
               .name = concat("p ", p),
               .inputs = {{{3, 4}}, {{4}}},
               .run = [p](In x) { return one(dist(x[0], x[1], p)); },
               .reference =
                   [p](Arrays x) {
                     Array out(Shape{});
                     for (int64_t i = 0; i < 12; ++i)
                       out[0] += std::pow(std::abs(x[0][i] - x[1][i % 4]), p);
                     out[0] = std::pow(out[0], 1 / p);
                     return one(out);
                   },
               .tolerance = 8});
  cases.add({.op = "renorm",
             .name = "columns",
             .inputs = {{.sizes = {3, 5}, .low = 0.3, .high = 2}},
             .run = [](In x) { return one(renorm(x[0], 2, 1, 2.5)); },
             .reference =
                 [](Arrays x) {
                   Array out = x[0];
                   for (int64_t k = 0; k < 5; ++k) {
                     double squares = 0;
                     for (int64_t i = 0; i < 3; ++i) squares += out.at({i, k}) * out.at({i, k});
                     const double length = std::sqrt(squares);
                     if (length <= 2.5) continue;
                     for (int64_t i = 0; i < 3; ++i) out.at({i, k}) *= 2.5 / (length + 1e-7);
                   }
                   return one(out);
                 },
             .inplace = [](In x) { renorm_(x[0], 2, 1, 2.5); },
             .tolerance = 8});
  cases.error("renorm", "p 0", "must be positive", [] { renorm(ones({2, 2}), 0, 0, 1); });
  cases.error("renorm", "a vector", "at least 2 dims", [] { renorm(ones({2}), 2, 0, 1); });
  cases.error("renorm", "negative maxnorm", "must not be negative", [] {
    renorm(ones({2, 2}), 2, 0, -1);
  });
}

void integral_cases(Cases& cases) {
  cases.add({.op = "trapezoid",
             .name = "equal steps",
             .inputs = {{{3, 5}}},
             .run = [](In x) { return one(trapezoid(x[0], 0.5)); },
             .reference =
                 [](Arrays x) {
                   Array out({3});
                   for (int64_t i = 0; i < 3; ++i)
                     for (int64_t k = 1; k < 5; ++k)
                       out[i] += (x[0].at({i, k}) + x[0].at({i, k - 1})) * 0.25;
                   return one(out);
                 },
             .tolerance = 8});
  cases.add(
      {.op = "trapezoid",
       .name = "points of a dim",
       .inputs = {{{5, 3}}, {{5}}},
       .run = [](In x) { return one(trapezoid(x[0], x[1], 0)); },
       .reference =
           [](Arrays x) {
             Array out({3});
             for (int64_t i = 0; i < 3; ++i)
               for (int64_t k = 1; k < 5; ++k)
                 out[i] += (x[0].at({k, i}) + x[0].at({k - 1, i})) / 2 * (x[1][k] - x[1][k - 1]);
             return one(out);
           },
       .tolerance = 8});
  cases.add({.op = "cumulative_trapezoid",
             .name = "points of all",
             .inputs = {{{2, 4}}, {{2, 4}}},
             .run = [](In x) { return one(cumulative_trapezoid(x[0], x[1])); },
             .reference =
                 [](Arrays x) {
                   Array out({2, 3});
                   for (int64_t i = 0; i < 2; ++i) {
                     double sum = 0;
                     for (int64_t k = 1; k < 4; ++k) {
                       sum += (x[0].at({i, k}) + x[0].at({i, k - 1})) / 2 *
                              (x[1].at({i, k}) - x[1].at({i, k - 1}));
                       out.at({i, k - 1}) = sum;
                     }
                   }
                   return one(out);
                 },
             .tolerance = 16});
  cases.error("trapezoid", "too few points", "x has 3 points", [] {
    trapezoid(ones({2, 4}), ones({3}));
  });
  cases.error("trapezoid", "bools", "got a bool tensor",
              [] { trapezoid(ones({2}, {.dtype = kBool})); });
}

}  // namespace

void reduce_distance_cases(Cases& cases) {
  norm_cases(cases);
  integral_cases(cases);
}

}  // namespace tensora::suite
