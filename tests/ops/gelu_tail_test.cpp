#include <cmath>

#include "tests/helpers.h"

namespace tensora {
namespace {

TEST(Gelu, KeepsItsDigitsInTheTail) {
  // x times the normal distribution's P(X < x); 1 + erf(x / sqrt(2)) has no digit of it left.
  const std::pair<double, double> known[] = {{-6, -5.919525870226189e-9},
                                             {-10, -7.619853024160526e-23}};
  for (const auto& [x, expected] : known) {
    const Tensor leaf = full({}, x, {.dtype = kFloat64}).requires_grad_();
    EXPECT_NEAR(gelu(leaf).item<double>() / expected, 1, 1e-13);
    // Its slope is P(X < x) + x * density(x), of which the second term is about x * x times larger.
    gelu(leaf).backward();
    const double density = std::exp(-x * x / 2) * 0.3989422804014327;
    EXPECT_NEAR(leaf.grad().item<double>() / (expected / x + x * density), 1, 1e-12);
  }
}

}  // namespace
}  // namespace tensora
