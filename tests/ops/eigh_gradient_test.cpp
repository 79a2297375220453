// The gradient of eigenvectors belongs to a Hermitian matrix, so it is Hermitian itself.
#include "tests/helpers.h"

namespace tensora {
namespace {

Tensor hermitian(DType dtype, uint64_t seed) {
  Generator generator(seed);
  const GeneratorScope scope(generator);
  const Tensor A = randn({4, 4}, {.dtype = dtype});
  return (A + adjoint(A)).detach();
}

// Depends on the eigenvectors, but not on their phases.
Tensor loss(const Tensor& A, const Tensor& weight) {
  const auto [L, V] = linalg::eigh(A);
  return (square(abs(V)) * weight).sum() + square(L).sum();
}
Tensor slope(const Tensor& A, const Tensor& weight, bool create_graph) {
  return autograd::grad({loss(A, weight)}, {A}, {}, true, create_graph)[0];
}

class EighGradient : public ::testing::TestWithParam<DType> {};

TEST_P(EighGradient, IsHermitian) {
  const Tensor A = hermitian(GetParam(), 1).requires_grad_();
  const Tensor weight = real(hermitian(GetParam(), 2));
  const Tensor gradient = slope(A, weight, true);
  EXPECT_TRUE(allclose(gradient, adjoint(gradient), 1e-12, 1e-12));
  const Tensor second = autograd::grad({square(abs(gradient)).sum()}, {A})[0];
  EXPECT_TRUE(allclose(second, adjoint(second), 1e-10, 1e-10));
}

// Along a Hermitian direction D, <gradient, D> is the derivative of the loss; likewise once more.
TEST_P(EighGradient, MatchesDifferences) {
  const Tensor A = hermitian(GetParam(), 3).requires_grad_(), D = hermitian(GetParam(), 4);
  const Tensor weight = real(hermitian(GetParam(), 5));
  const double step = 1e-5;
  const auto along = [&](const Tensor& gradient) { return real(sum(conj(gradient) * D)); };
  const auto moved = [&](double by) { return (A.detach() + D * by).requires_grad_(); };
  const Tensor gradient = slope(A, weight, true);
  const Tensor change = (loss(moved(step), weight) - loss(moved(-step), weight)) / (2 * step);
  EXPECT_NEAR(along(gradient).item<double>(), change.item<double>(), 1e-6);
  const auto norm = [&](double by) { return square(abs(slope(moved(by), weight, false))).sum(); };
  const Tensor second = autograd::grad({square(abs(gradient)).sum()}, {A})[0];
  const double expected = ((norm(step) - norm(-step)) / (2 * step)).item<double>();
  EXPECT_NEAR(along(second).item<double>(), expected, 1e-5 * std::max(1.0, std::abs(expected)));
}

INSTANTIATE_TEST_SUITE_P(Types, EighGradient, ::testing::Values(kFloat64, kComplex128));

}  // namespace
}  // namespace tensora
