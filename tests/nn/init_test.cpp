// Starting values: their distributions and bounds.
#include <cmath>

#include "tensora/nn.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

double mean_of(const Tensor& tensor) { return tensor.mean().item<double>(); }
double std_of(const Tensor& tensor) { return tensor.std().item<double>(); }
double largest(const Tensor& tensor) { return tensor.abs().max().item<double>(); }

// Uniform within ±bound, to five deviations of the estimates.
void expect_uniform(const Tensor& tensor, double bound) {
  const double margin = 5 * bound / std::sqrt(3. * static_cast<double>(tensor.numel()));
  EXPECT_LE(largest(tensor), bound);
  EXPECT_GT(largest(tensor), 0.95 * bound);
  EXPECT_NEAR(mean_of(tensor), 0, margin);
  EXPECT_NEAR(std_of(tensor), bound / std::sqrt(3.), margin);
}

TEST(Init, LayersStartAsInPyTorch) {
  manual_seed(3);
  const no_grad scope;
  const nn::Linear linear(64, 400);
  expect_uniform(linear.weight, 1 / 8.);
  expect_uniform(linear.bias, 1 / 8.);
  const nn::Conv2d conv(16, 200, 3, {.groups = 4});
  expect_uniform(conv.weight, 1 / 6.);  // 4 channels of 3 x 3
  expect_uniform(conv.bias, 1 / 6.);
  const nn::ConvTranspose2d transposed(64, 40, 5);
  expect_uniform(transposed.weight, 1 / std::sqrt(1000.));  // 40 channels of 5 x 5
  const nn::Bilinear bilinear(25, 40, 30);
  expect_uniform(bilinear.weight, 1 / 5.);
  const nn::Embedding embedding(200, 50, {.padding_idx = 7});
  EXPECT_NEAR(std_of(embedding.weight), 1, 0.05);
  EXPECT_EQ(largest(embedding.weight[7]), 0);
  EXPECT_EQ(values(nn::PReLU().weight), Values{0.25});
  EXPECT_EQ(values(nn::LayerNorm(2).weight), (Values{1, 1}));
  EXPECT_EQ(values(nn::BatchNorm2d(2).running_var), (Values{1, 1}));
}

TEST(Init, DrawsTheDistributionsItNames) {
  manual_seed(4);
  const Tensor w = empty({300, 40, 3}).requires_grad_();
  const no_grad scope;
  expect_uniform(nn::init::uniform_(w, -2, 2), 2);
  EXPECT_NEAR(std_of(nn::init::normal_(w, 5, 0.1)), 0.1, 0.005);
  EXPECT_NEAR(mean_of(w), 5, 0.01);
  nn::init::trunc_normal_(w, 0.5, 1, -1, 2);
  EXPECT_GE(w.min().item<double>(), -1);
  EXPECT_LE(w.max().item<double>(), 2);
  EXPECT_NEAR(mean_of(w), 0.5, 0.02);
  EXPECT_NEAR(std_of(w), 0.7397, 0.02);  // within 1.5 deviations on both sides
  expect_uniform(nn::init::xavier_uniform_(w, 2), 2 * std::sqrt(6. / (120 + 900)));
  EXPECT_NEAR(std_of(nn::init::xavier_normal_(w)), std::sqrt(2. / 1020), 0.002);
  expect_uniform(nn::init::kaiming_uniform_(w, {.a = 1}), std::sqrt(3. / 120));
  EXPECT_NEAR(std_of(nn::init::kaiming_normal_(w, {.mode = "fan_out", .nonlinearity = "relu"})),
              std::sqrt(2. / 900), 0.002);
  EXPECT_TRUE(w.requires_grad());
}

TEST(Init, MatricesOfASpecialForm) {
  manual_seed(5);
  const no_grad scope;
  const Tensor w = empty({4, 3, 2});
  for (const Shape& sizes : {Shape{4, 6}, Shape{6, 4}, Shape{4, 2, 3}}) {
    const Tensor q = nn::init::orthogonal_(empty(sizes), 2).flatten(1);
    const Tensor product = q.size(0) <= q.size(1) ? q.matmul(q.t()) : q.t().matmul(q);
    EXPECT_LT(largest(product - eye(4) * 4), 1e-5);
  }
  EXPECT_EQ(values(nn::init::eye_(empty({2, 3}))), (Values{1, 0, 0, 0, 1, 0}));
  const Tensor sparse = nn::init::sparse_(empty({10, 50}), 0.25);
  for (const double zeros : values(sparse.eq(0).to(kFloat32).sum(0))) EXPECT_EQ(zeros, 3);
  // A convolution by a Dirac weight hands the input on, group by group.
  const nn::Conv1d conv(4, 4, 3, {.padding = 1, .groups = 2, .bias = false});
  nn::init::dirac_(conv.weight, 2);
  const Tensor x = randn({1, 4, 5});
  EXPECT_EQ(values(conv(x)), values(x));
  EXPECT_EQ(values(nn::init::constant_(empty({2}), 3)), (Values{3, 3}));
  EXPECT_EQ(values(nn::init::ones_(w)), Values(24, 1));
  EXPECT_EQ(values(nn::init::zeros_(w)), Values(24, 0));
}

TEST(Init, Gains) {
  EXPECT_EQ(nn::init::calculate_gain("linear"), 1);
  EXPECT_EQ(nn::init::calculate_gain("conv2d"), 1);
  EXPECT_DOUBLE_EQ(nn::init::calculate_gain("tanh"), 5. / 3);
  EXPECT_DOUBLE_EQ(nn::init::calculate_gain("relu"), std::sqrt(2.));
  EXPECT_DOUBLE_EQ(nn::init::calculate_gain("leaky_relu", 0.2), std::sqrt(2 / 1.04));
  EXPECT_DOUBLE_EQ(nn::init::calculate_gain("selu"), 0.75);
  EXPECT_TRUE(contains(error_of([] { nn::init::calculate_gain("swish"); }), "'swish'"));
}

TEST(Init, RefusesWhatItCannotFill) {
  const Tensor vector = empty({3});
  EXPECT_TRUE(contains(error_of([&] { nn::init::xavier_normal_(vector); }), "at least 2 dims"));
  EXPECT_TRUE(contains(error_of([&] { nn::init::eye_(vector); }), "expected a matrix"));
  EXPECT_TRUE(contains(error_of([&] { nn::init::dirac_(vector); }), "3, 4 or 5 dims"));
  EXPECT_TRUE(contains(error_of([&] { nn::init::orthogonal_(vector); }), "at least 2 dims"));
  EXPECT_TRUE(contains(error_of([&] {
                         nn::init::kaiming_normal_(empty({2, 2}), {.mode = "fan"});
                       }),
                       "fan_in or"));
  EXPECT_TRUE(contains(error_of([&] { nn::init::trunc_normal_(vector, 0, 0); }), "std above 0"));
  EXPECT_EQ(nn::init::kaiming_uniform_(empty({0, 3})).numel(), 0);
  EXPECT_EQ(nn::init::orthogonal_(empty({0, 3})).numel(), 0);
}

}  // namespace
}  // namespace tensora::testing
