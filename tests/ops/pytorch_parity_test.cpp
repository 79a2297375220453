// Calls where PyTorch 2.15 decides: the numbers are its own.
#include <cmath>
#include <limits>

#include "tests/helpers.h"

namespace tensora {
namespace {

using testing::contains;
using testing::error_of;
using testing::values;
using Values = testing::Values;

void expect_near(const Tensor& tensor, const Values& expected, double tolerance = 1e-4) {
  const Values found = values(tensor);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], tolerance) << i;
}

TEST(PytorchParity, CircularPaddingRepeatsWhatIsKept) {
  const Tensor x = arange(5.).view({1, 1, 5});
  EXPECT_EQ(values(pad(x, {1, -1}, "circular")), (Values{3, 0, 1, 2, 3}));
  EXPECT_EQ(values(pad(x, {-1, 2}, "circular")), (Values{1, 2, 3, 4, 1, 2}));
  EXPECT_EQ(values(pad(x, {2, -2}, "circular")), (Values{1, 2, 0, 1, 2}));
  EXPECT_EQ(values(pad(x, {-2, 1}, "circular")), (Values{2, 3, 4, 2}));
  EXPECT_TRUE(contains(error_of([&] { pad(x, {4, -3}, "circular"); }), "no larger than the size"));
}

TEST(PytorchParity, LogitWithALargeEps) {
  const Tensor x = tensor({0.3, 0.55, 0.6, 2.0}).requires_grad_();
  const Tensor y = logit(x, 0.6);
  expect_near(y, {0.405465, 0.405465, -0.405465, -0.405465});
  y.sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{0, 0, 0, 0}));
  const Tensor nan = full({1}, std::numeric_limits<double>::quiet_NaN()).requires_grad_();
  logit(nan, 0.1).sum().backward();
  EXPECT_TRUE(std::isnan(nan.grad().item<double>()));
}

// A size that doubles without a factor of 2 is doubled evenly in 2-D alone.
TEST(PytorchParity, NearestNeighboursOfASizeThatDoubles) {
  const Tensor line = tensor({0.0, 1.0, 2.0});
  const auto resized = [](const Tensor& x) {
    return interpolate(x, {}, std::vector<double>{2.3}, "nearest").flatten();
  };
  const Values by_factor{0, 0, 0, 1, 1, 2}, evenly{0, 0, 1, 1, 2, 2};
  EXPECT_EQ(values(resized(line.view({1, 1, 3}))), by_factor);
  EXPECT_EQ(values(resized(line.view({1, 1, 1, 3})).narrow(0, 0, 6)), evenly);
  EXPECT_EQ(values(resized(line.view({1, 1, 1, 1, 3})).narrow(0, 0, 6)), by_factor);
}

TEST(PytorchParity, AnglesOfRealNumbersHaveNoSlope) {
  const Tensor x = tensor({-2.0, 0.0, 3.0, std::numeric_limits<double>::quiet_NaN()});
  x.requires_grad_();
  const Tensor y = angle(x);
  EXPECT_TRUE(std::isnan(y[3].item<double>()));
  y.sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{0, 0, 0, 0}));
}

TEST(PytorchParity, ThePowerZeroHasAHistory) {
  const Tensor x = (eye(2) * 2).requires_grad_();
  const Tensor y = linalg::matrix_power(x, 0);
  EXPECT_TRUE(y.requires_grad());
  EXPECT_TRUE(equal(y.detach(), eye(2)));
  y.sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{0, 0, 0, 0}));
}

TEST(PytorchParity, TakeAlongDimCountsFromTheEnd) {
  const Tensor x = arange(9.).view({3, 3}).clone().requires_grad_();
  const Tensor y = take_along_dim(x, tensor({-1, 0, -3}).view({1, 3}), 0);
  EXPECT_EQ(values(y), (Values{6, 1, 2}));
  y.sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{0, 1, 1, 0, 0, 0, 1, 0, 0}));
  EXPECT_TRUE(contains(error_of([&] {
                         take_along_dim(x, full({1, 3}, -4, kInt64), 0);
                       }),
                       "out of bounds"));
  // Without a dim, and in gather, PyTorch refuses them.
  EXPECT_TRUE(contains(error_of([&] { take_along_dim(x, tensor({-1})); }), "out of bounds"));
  EXPECT_TRUE(contains(error_of([&] { gather(x, 0, full({1, 3}, -1, kInt64)); }), "out of bounds"));
}

TEST(PytorchParity, GatherDoesNotLookAtAnEmptyIndex) {
  EXPECT_EQ(gather(ones({5}), 0, zeros({2, 0}, kUInt8)).sizes(), (Shape{2, 0}));
  EXPECT_TRUE(contains(error_of([] { gather(ones({5}), 0, zeros({2}, kUInt8)); }), "uint8"));
}

TEST(PytorchParity, RepeatsMayBeOfAnyIntegerDtype) {
  for (const DType dtype : {kUInt8, kInt8, kInt16})
    EXPECT_EQ(values(repeat_interleave(arange(3), tensor({0, 2, 1}).to(dtype), 0)),
              (Values{1, 1, 2}));
}

TEST(PytorchParity, TheCovarianceOfOneRowIsANumber) {
  const Tensor x = tensor({1., 2., 4.});
  EXPECT_EQ(cov(x.view({1, 3})).dim(), 0);
  EXPECT_EQ(corrcoef(x.view({1, 3})).dim(), 0);
  expect_near(cov(x), {7. / 3});
}

// See Note [The gradient of a factor].
TEST(PytorchParity, GradientsOfCholeskyFactorsAreNotCut) {
  const Tensor factor =
      tensor({2., .5, .3, .7, 3., .1, .2, .4, 1.5}).view({3, 3}).clone().requires_grad_();
  const Tensor right = arange(6.).view({3, 2}).clone().requires_grad_();
  const Tensor x = cholesky_solve(right, factor);
  expect_near(x, {-0.166, 0.039, 0.001, 0.025, 1.659, 2.021}, 1e-3);
  const auto of_solve = grad((x * arange(1., 7.).view({3, 2})).sum(), {factor, right});
  expect_near(of_solve[0], {-0.078, -0.141, -0.477, -0.05, -0.09, -0.305, -4.041, -7.298, -24.616},
              1e-3);
  expect_near(of_solve[1], {0.039, 0.245, 0.025, 0.049, 2.021, 2.382}, 1e-3);
  const auto of_inverse =
      grad((cholesky_inverse(factor, true) * arange(1., 10.).view({3, 3})).sum(), {factor});
  expect_near(of_inverse[0], {0.126, -0.235, -2.115, -0.067, -0.24, -1.915, -0.776, -0.662, -4.523},
              1e-3);
}

// PyTorch's gradient of as_strided_scatter keeps what was replaced and drops the rest.
TEST(PytorchParity, WhatAScatterReplacesHasNoGradient) {
  const Tensor x = zeros({3, 3}, {.requires_grad = true}), part = ones({2, 2});
  as_strided_scatter(x, part, {2, 2}, {1, 2}, 1).sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{1, 0, 0, 0, 0, 1, 1, 1, 1}));
}

TEST(PytorchParity, IntegersWhereTheResultIsAFloat) {
  const Tensor a = tensor({0, 1}), b = tensor({1, 2});
  EXPECT_EQ(values(margin_ranking_loss(a, b, tensor({1, -1}), 0, Reduction::none)), (Values{1, 0}));
  expect_near(poisson_nll_loss(a, a, true, true, 1e-8, Reduction::none), {1, 1.718282});
  expect_near(pairwise_distance(arange(4).view({2, 2}), arange(1, 5).view({2, 2})),
              {1.414212, 1.414212});
  EXPECT_EQ(values(addmv(a, arange(4).view({2, 2}), a, 1.5, 2.7)), (Values{2, 7}));
  EXPECT_EQ(ones({2, 3}, kBool).sum_to_size({1, 3}).dtype(), kInt64);
  EXPECT_EQ(ones({}, kInt32).sum_to_size({}).dtype(), kInt64);  // of a scalar even without a sum
  EXPECT_EQ(ones({2}, kInt32).sum_to_size({2}).dtype(), kInt32);
}

TEST(PytorchParity, ConvolutionsOfIntegersAreExact) {
  const auto whole = [](const Shape& sizes) {
    return remainder(arange(sizes.numel()) * 7, 11).view(sizes) - 5;
  };
  const Tensor x = whole({2, 4, 5, 6}), bias = whole({6});
  const auto compare = [](const Tensor& found, const Tensor& expected) {
    EXPECT_EQ(found.dtype(), kInt64);
    EXPECT_TRUE(equal(found.to(kFloat64), expected));
  };
  const Tensor weight = whole({6, 2, 3, 2}), turned = whole({4, 3, 3, 2});
  compare(conv2d(x, weight, bias, {2, 1}, Shape{1, 2}, {1, 2}, 2),
          conv2d(x.to(kFloat64), weight.to(kFloat64), bias.to(kFloat64), {2, 1}, Shape{1, 2},
                 {1, 2}, 2));
  compare(conv2d(x, weight, {}, 1, "same", 1, 2),
          conv2d(x.to(kFloat64), weight.to(kFloat64), {}, 1, "same", 1, 2));
  compare(conv_transpose2d(x, turned, bias, {2, 3}, {1, 0}, {1, 0}, 2, {1, 2}),
          conv_transpose2d(x.to(kFloat64), turned.to(kFloat64), bias.to(kFloat64), {2, 3}, {1, 0},
                           {1, 0}, 2, {1, 2}));
  // Beyond the integers that a double holds.
  const Tensor large = full({1, 1, 1}, (int64_t{1} << 60) + 1, kInt64);
  EXPECT_TRUE(equal(conv1d(large, ones({1, 1, 1}, kInt64)), large));
  EXPECT_TRUE(contains(error_of([&] { conv2d(x, weight.to(kInt32)); }), "expected one dtype"));
}

TEST(PytorchParity, FewerDimsThanUsual) {
  EXPECT_EQ(linear(ones({2, 3}), ones({3})).sizes(), Shape{2});
  EXPECT_EQ(values(linalg::vander(tensor(3.), 3)), (Values{1, 3, 9}));
  EXPECT_EQ(multi_margin_loss(tensor(2.), tensor(0)).item<double>(), 0);
  EXPECT_EQ(multilabel_margin_loss(tensor(2.), tensor(0)).item<double>(), 0);
  EXPECT_EQ(pixel_shuffle(ones({1, 0, 1, 1}), 2).sizes(), (Shape{1, 0, 2, 2}));
}

TEST(PytorchParity, ComplexSequences) {
  const Tensor z = linspace(1, Complex<double>(2, 3), 3, {});
  EXPECT_EQ(z.dtype(), kComplex64);
  EXPECT_EQ(values(view_as_real(z).contiguous()), (Values{1, 0, 1.5, 1.5, 2, 3}));
  expect_near(view_as_real(logspace(0, 1, 3, 10, kComplex64)).contiguous(),
              {1, 0, 3.162278, 0, 10, 0});
  EXPECT_TRUE(equal(eye(2, kComplex64), eye(2).to(kComplex64)));
}

// Factors multiply to what they are factors of; see Note [Complex matrices as real ones].
TEST(PytorchParity, LinearAlgebraOfComplexMatrices) {
  const auto matrix = [](const Shape& sizes, double phase) {
    const Tensor i = arange(sizes.numel(), kFloat64);
    return complex(sin(i * 1.7 + phase), cos(i * i * 0.9 + phase)).view(sizes);
  };
  const auto near = [](const Tensor& a, const Tensor& b) { return allclose(a, b, 1e-9, 1e-9); };
  const Tensor A = matrix({2, 4, 4}, 0.3), B = matrix({2, 4, 3}, 1.1), wide = matrix({3, 5}, 2);
  const Tensor unit = eye(4, kComplex128);
  EXPECT_TRUE(near(matmul(A, linalg::solve(A, B)), B));
  EXPECT_TRUE(near(matmul(linalg::solve(A, mT(B), false), A), mT(B)));
  EXPECT_TRUE(near(matmul(linalg::inv(A), A), unit.expand({2, 4, 4})));
  const Tensor positive = matmul(A, mH(A)) + unit, L = linalg::cholesky(positive);
  EXPECT_TRUE(near(matmul(L, mH(L)), positive));
  EXPECT_TRUE(near(mH(L), linalg::cholesky(positive, true)));
  EXPECT_TRUE(near(matmul(positive, cholesky_solve(B, L)), B));
  EXPECT_TRUE(near(matmul(tril(A), linalg::solve_triangular(A, B, false)), B));
  EXPECT_TRUE(near(matmul(linalg::solve_triangular(A, mT(B), true, false), triu(A)), mT(B)));
  const auto [P, lower, upper] = linalg::lu(A);
  EXPECT_TRUE(near(matmul(P, matmul(lower, upper)), A));
  const auto [LU, pivots] = linalg::lu_factor(A);
  EXPECT_TRUE(near(matmul(mH(A), linalg::lu_solve(LU, pivots, B, true, true)), B));
  const Tensor a = A.select(0, 0).slice(0, 0, 2).slice(1, 0, 2);
  EXPECT_TRUE(near(linalg::det(a), a[0][0] * a[1][1] - a[0][1] * a[1][0]));
  const auto [sign, logarithm] = linalg::slogdet(A);
  EXPECT_TRUE(near(sign * exp(logarithm), linalg::det(A)));
  const Tensor inverse = linalg::pinv(wide);
  EXPECT_TRUE(near(matmul(wide, matmul(inverse, wide)), wide));
  EXPECT_TRUE(near(square(linalg::svdvals(A)).sum({-1}), square(abs(A)).sum({-2, -1})));
  EXPECT_TRUE(
      near(linalg::eigvalsh(positive).sum({-1}), real(positive.diagonal(0, -2, -1)).sum({-1})));
  EXPECT_EQ(values(linalg::matrix_rank(matmul(mT(wide), wide))), (Values{3}));
  // A step along the gradient changes the result as the gradient says.
  const Tensor x = positive.clone().requires_grad_();
  const auto value = [](const Tensor& at) { return real(linalg::cholesky(at)).sum(); };
  const Tensor slope = grad(value(x), {x})[0], step = mH(matrix({2, 4, 4}, 0.7));
  const Tensor direction = (step + mH(step)) * 1e-6;
  const double change = (value(positive + direction) - value(positive - direction)).item<double>();
  EXPECT_NEAR(real(conj(slope) * direction).sum().item<double>() * 2, change, 1e-9);
}

TEST(PytorchParity, ComplexNumbersAreTrueUnlessZero) {
  const Tensor z = complex(tensor({0., 0., 1.}), tensor({0., 2., 0.}));
  EXPECT_EQ(values(nonzero(z)), (Values{1, 2}));
  EXPECT_EQ(count_nonzero(z).item<int64_t>(), 2);
  EXPECT_TRUE(any(z).item<bool>());
  EXPECT_FALSE(all(z).item<bool>());
  EXPECT_EQ(values(logical_not(z)), (Values{1, 0, 0}));
  Tensor written = z.clone();
  written.tan_();
  EXPECT_TRUE(allclose(written, tan(z)));
}

TEST(PytorchParity, GradientOfAVarianceWithoutFreedom) {
  const auto gradient = [](const Tensor& given, double correction) {
    const Tensor x = given.clone().requires_grad_();
    var(x, Dims{}, correction).backward();
    return x.grad();
  };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(isnan(gradient(tensor(3.), 1)).item<bool>());
  EXPECT_TRUE(isposinf(gradient(tensor(kNan), 1)).item<bool>());
  EXPECT_TRUE(isposinf(gradient(tensor({1., 3.}), 2)).all().item<bool>());
  const Tensor x = tensor({kNan, 1.}).unsqueeze(1).requires_grad_();
  var(x, {1}).sum().backward();
  EXPECT_TRUE(isnan(x.grad()).all().item<bool>());
}

// The gradient over the norm, or over a power of it, does not fit into float16.
TEST(PytorchParity, GradientOfDirectionsOfShortVectorsInFloat16) {
  const Tensor x = tensor({0.002, 0.004, -0.003}, {.dtype = kFloat16}).view({1, 3});
  const auto gradient = [&](const auto& function) {
    const Tensor given = x.clone().requires_grad_();
    function(given).view({-1})[0].backward();
    return given.grad();
  };
  const Tensor y = tensor({3., -4., 1.}, {.dtype = kFloat16}).view({1, 3});
  expect_near(gradient([&](const Tensor& a) { return cosine_similarity(a, y); }),
              {141.9, -80.4, -12.6}, 0.3);
  expect_near(gradient([](const Tensor& a) { return normalize(a); }), {160.1, -51.2, 38.4}, 0.3);
  // That of the cubes is infinite in PyTorch; these are its numbers in float64.
  expect_near(gradient([](const Tensor& a) { return normalize(a, 3); }), {198.7, -69.9, 39.3}, 0.6);
}

TEST(PytorchParity, GradientOfALargestMagnitudeThatIsNan) {
  const Tensor x = tensor({std::numeric_limits<double>::quiet_NaN(), 2.}).requires_grad_();
  norm(x, std::numeric_limits<double>::infinity()).backward();
  EXPECT_EQ(values(x.grad()), (Values{0, 0}));
}

// Positions among an op's results have no gradient, and what they index does not depend on them.
TEST(PytorchParity, GradientsByPositionsDependOnTheirSeedAlone) {
  const Tensor x = tensor({3., 1., 2., 5.}).view({1, 4}).requires_grad_();
  const auto gradient = [&](const Tensor& y) {
    return grad(y.sum(), {x}, {.create_graph = true})[0];
  };
  EXPECT_FALSE(gradient(std::get<0>(sort(x, -1))).requires_grad());
  EXPECT_FALSE(gradient(std::get<0>(topk(x, 2))).requires_grad());
  EXPECT_FALSE(gradient(std::get<0>(cummax(x, -1))).requires_grad());
  EXPECT_FALSE(gradient(max_pool1d(x, {2})).requires_grad());
}

// What PyTorch returns in memory of its own.
TEST(PytorchParity, ResultsThatAreNoViews) {
  const Tensor image = ones({1, 4, 1, 1}), z = complex(ones({3, 1}), ones({3, 1}));
  for (const Tensor& y : {pixel_shuffle(image, 1), pixel_shuffle(image, 2),
                          channel_shuffle(image, 1), pixel_unshuffle(image, 1)})
    EXPECT_FALSE(y.shares_storage(image)) << y.sizes();
  EXPECT_FALSE(prod(z, {1}).shares_storage(z));
  const Tensor strided = arange(6.).slice(0, 0, 6, 2);
  EXPECT_TRUE(ravel(strided).is_contiguous());
  EXPECT_EQ(values(ravel(strided)), (Values{0, 2, 4}));
}

TEST(PytorchParity, NegativePowersOfTwoOfSmallIntegers) {
  const Tensor x = tensor({2, 3}).to(kUInt8), exponent = tensor(-4);
  EXPECT_EQ(values(ldexp(x, exponent)), (Values{0.125, 0.1875}));
}

TEST(PytorchParity, RolledTensorsLieRowByRow) {
  const Tensor x = arange(6.).view({3, 2, 1}).transpose(0, 1);
  EXPECT_TRUE(roll(x, 1, 2).is_contiguous());
  EXPECT_TRUE(roll(x, 1, 0).is_contiguous());
}

TEST(PytorchParity, MultivariateLogGammaOfAHugeOrderIsRefused) {
  EXPECT_NE(error_of([] { mvlgamma(ones({2}), int64_t{1} << 62); }), "");
}

TEST(PytorchParity, AnInfiniteLimitOfNormsPassesTheGradient) {
  const Tensor x = tensor({3., 4.}).view({1, 2}).requires_grad_();
  renorm(x, 2, 0, std::numeric_limits<double>::infinity()).sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{1, 1}));
}

TEST(PytorchParity, ComplexProductsAddedInPlace) {
  const Tensor a = complex(arange(4.).view({2, 2}), ones({2, 2}));
  const Tensor sum = a.clone(), sums = a.unsqueeze(0).clone();
  sum.addmm_(a, a, 0.5, 2);
  EXPECT_TRUE(allclose(sum, a * 0.5 + matmul(a, a) * 2));
  sums.baddbmm_(a.unsqueeze(0), a.unsqueeze(0));
  EXPECT_TRUE(allclose(sums, (a + matmul(a, a)).unsqueeze(0)));
}

TEST(PytorchParity, SortedTensorsLieAsTheOneThatWasSorted) {
  const Tensor x = arange(6.).view({3, 2}).transpose(0, 1);
  const auto [sorted, positions] = sort(x, -1, true);
  EXPECT_EQ(sorted.strides(), x.strides());
  EXPECT_EQ(positions.strides(), x.strides());
  EXPECT_EQ(values(sorted), (Values{4, 2, 0, 5, 3, 1}));
  EXPECT_TRUE(std::get<0>(sort(x.narrow(1, 0, 1).expand({2, 3}), 0)).is_contiguous());
}

TEST(PytorchParity, RunningSumsOfComplexExponentials) {
  const Tensor x =
      complex(tensor({1., -2., 800., 3.}), tensor({0.5, 3., -1., 2.})).requires_grad_();
  const Tensor y = logcumsumexp(x, 0), short_y = logcumsumexp(x.narrow(0, 0, 2), 0);
  EXPECT_TRUE(allclose(short_y, log(cumsum(exp(x.narrow(0, 0, 2)), 0))));
  EXPECT_TRUE(allclose(y.narrow(0, 2, 2), x.narrow(0, 2, 1).expand({2})));
  real(short_y).sum().backward();
  const Tensor total = exp(x.detach().narrow(0, 0, 2)).sum();
  const Tensor last = conj(exp(x.detach().narrow(0, 1, 1)) / total);
  EXPECT_TRUE(allclose(x.grad().narrow(0, 1, 1), last));
}

// Where a quotient is infinite, and where a number has no exponent.
TEST(PytorchParity, SecondGradientsThatAreZero) {
  const auto second = [](const Tensor& y, const Tensor& x) {
    const Tensor first = grad(y.sum(), {x}, {.create_graph = true})[0];
    if (!first.requires_grad()) return values(zeros_like(x));
    return values(grad((first * first).sum(), {x}, {.allow_unused = true})[0]);
  };
  const Tensor divisor = tensor({0., 2., 1e-300}).requires_grad_();
  EXPECT_EQ(second(fmod(tensor({0., 5., 0.}), divisor)[1], divisor), (Values{0, 0, 0}));
  const Tensor x = tensor({0., 3.}).requires_grad_();
  EXPECT_EQ(second(std::get<0>(frexp(x)), x), (Values{0, 0}));
}

TEST(PytorchParity, MistakesThatAreNamed) {
  const Tensor x = ones({2, 4}), whole = ones({2, 4}, {.dtype = kInt64});
  EXPECT_NE(error_of([&] { kl_div(x, whole); }), "");
  EXPECT_NE(error_of([&] { lp_pool1d(x, 0, 2); }), "");
  EXPECT_NE(error_of([&] { softshrink(x, std::numeric_limits<double>::infinity()); }), "");
  EXPECT_NE(error_of([&] { linear(x, ones({3, 4}), ones({2})); }), "");
}

TEST(PytorchParity, PoolsByTheLargestMagnitude) {
  const Tensor x = tensor({1., -3., 2., 0.5}).view({1, 4});
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(values(lp_pool1d(x, infinity, 2)), (Values{3, 2}));
}

TEST(PytorchParity, ShapesThatBroadcast) {
  const Tensor x = arange(8.).view({2, 4}), weight = ones({3, 4});
  const Tensor plain = linear(x, weight);
  EXPECT_EQ(values(linear(x, weight, tensor(2.))), values(plain + 2));
  EXPECT_EQ(values(linear(x, weight, tensor({1., 2., 3.}).view({1, 3}))),
            values(plain + tensor({1., 2., 3.})));
  EXPECT_TRUE(allclose(multilabel_soft_margin_loss(x, ones({4})),
                       multilabel_soft_margin_loss(x, ones({2, 4}))));
  EXPECT_EQ(values(msort(tensor(5.))), (Values{5}));
  EXPECT_EQ(pow(complex(tensor(1.), tensor(2.)), ones({4}, {.dtype = kFloat32})).dtype(),
            kComplex64);
}

}  // namespace
}  // namespace tensora
