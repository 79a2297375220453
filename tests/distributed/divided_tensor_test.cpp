#include "tensora/distributed/divided_tensor.h"

#include <gtest/gtest.h>

#include <thread>

#include "tensora/base/error_kinds.h"
#include "tensora/nn.h"
#include "tensora/optim.h"
#include "tensora/tensora.h"
#include "tests/helpers.h"

namespace tensora::distributed {
namespace {

using testing::contains;
using testing::error_of;

const std::vector<Device> kThree(3, Device());

Tensor filled(const Shape& sizes, uint64_t seed) {
  manual_seed(seed);
  return randn(sizes, {.dtype = kFloat64});
}

Tensor divided(const Tensor& whole, std::optional<int64_t> axis = 0) {
  return shard_(whole.detach().clone(), kThree, axis);
}

void expect_equal(const Tensor& a, const Tensor& b) {
  EXPECT_TRUE(a.sizes() == b.sizes() && allclose(a, b, 1e-12, 1e-12)) << a << "\n" << b;
}

TEST(DividedTensor, OpsStayOnTheParts) {
  const Tensor whole = filled({7, 4}, 1), weights = filled({4, 5}, 2);
  const Tensor x = divided(whole), w = divided(weights, 1);
  EXPECT_TRUE(is_sharded(x));
  EXPECT_EQ(parts_of(x)[0].sizes(), Shape({3, 4}));
  EXPECT_EQ(parts_of(x)[2].sizes(), Shape({2, 4}));
  const auto placed = [](const Tensor& tensor) { return to_string(placement_of(tensor)); };
  EXPECT_EQ(placed(relu(x + 1)), "Shard(0)");
  EXPECT_EQ(placed(matmul(x, weights)), "Shard(0)");
  EXPECT_EQ(placed(matmul(whole, w)), "Shard(1)");
  EXPECT_EQ(placed(x.sum(0)), "Partial(sum)");
  EXPECT_EQ(placed(x.amax(0)), "Partial(maximum)");
  EXPECT_EQ(placed(x.t()), "Shard(1)");
  EXPECT_EQ(placed(zeros_like(x)), "Shard(0)");
  EXPECT_EQ(placed(softmax(x, 1)), "Shard(0)");
  expect_equal(softmax(matmul(x, w), 1), softmax(matmul(whole, weights), 1));
  expect_equal(x.sum(0), whole.sum(0));
  EXPECT_EQ(x.std().item<double>(), whole.std().item<double>());
}

TEST(DividedTensor, PartsWithoutElements) {
  const Tensor whole = filled({2, 3}, 1);
  const Tensor x = divided(whole);
  EXPECT_EQ(parts_of(x)[2].sizes(), Shape({0, 3}));
  expect_equal(cat({x, x}, 0).square().mean(1), cat({whole, whole}, 0).square().mean(1));
  expect_equal(divided(whole).amax(), whole.amax());
}

// The whole loop of training, of which only the placement of the parameters knows.
TEST(DividedTensor, TrainsAsTheWholeModel) {
  const auto train = [](bool divide) {
    manual_seed(5);
    nn::Sequential model(nn::Linear(6, 8), nn::GELU(), nn::LayerNorm(8), nn::Linear(8, 3));
    model->to(kFloat64);
    auto parameters = model->parameters();
    if (divide) {
      shard_(parameters[0], kThree, 0);
      shard_(parameters[1], kThree, 0);
      shard_(parameters[2], kThree);
      shard_(parameters[4], kThree, 1);
    }
    optim::AdamW optimizer(parameters, {.lr = 0.05});
    const Tensor x = filled({10, 6}, 7), y = filled({10, 3}, 8);
    std::vector<double> losses;
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      const Tensor loss = mse_loss(model(x), y);
      loss.backward();
      if (divide) {
        EXPECT_TRUE(is_sharded(parameters[0].grad()));
        EXPECT_TRUE(is_sharded(parameters[0]));
      }
      nn::utils::clip_grad_norm_(parameters, 0.5);
      optimizer.step();
      losses.push_back(loss.item<double>());
    }
    EXPECT_EQ(is_sharded(parameters[0]), divide);
    losses.push_back(parameters[0].sum().item<double>());
    return losses;
  };
  const std::vector<double> expected = train(false), got = train(true);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12);
}

TEST(DividedTensor, GradientsOfSecondOrder) {
  const Tensor whole = filled({5, 4}, 1).requires_grad_();
  const Tensor x = shard_(whole.detach().clone().requires_grad_(), kThree, 1);
  const auto twice = [](const Tensor& of) {
    const Tensor first =
        grad({(of.tanh() * of.sum(1, true)).sum()}, {of}, {}, {.create_graph = true})[0];
    return grad({first.square().sum()}, {of})[0];
  };
  expect_equal(twice(x), twice(whole));
}

TEST(DividedTensor, WritesInPlaceReachThePartsAndTheirViews) {
  Tensor whole = filled({6, 4}, 1);
  const Tensor x = divided(whole);
  const Tensor columns = x.t(), row = x[4];
  x.mul_(2).add_(divided(filled({6, 4}, 2), 1));
  whole.mul_(2).add_(filled({6, 4}, 2));
  EXPECT_TRUE(is_sharded(x));
  expect_equal(columns.clone(), whole.t());
  expect_equal(row + 0, whole[4]);  // a copy, which is found anew
  x[4].zero_();
  whole[4].zero_();
  expect_equal(x + 0, whole);
  columns.zero_();
  expect_equal(x + 0, zeros_like(whole));
  manual_seed(3);
  const Tensor random = divided(whole).normal_();
  EXPECT_TRUE(is_sharded(random));
  manual_seed(3);
  expect_equal(random, whole.clone().normal_());
}

TEST(DividedTensor, ReadingCollectsAndMistakesAreNamed) {
  const Tensor whole = filled({4, 3}, 1);
  const Tensor x = divided(whole);
  const Tensor view = x.t();
  EXPECT_EQ(x.to_string(), whole.to_string());
  EXPECT_FALSE(is_sharded(x));
  expect_equal(view, whole.t());
  const Tensor again = shard_(divided(whole), kThree, 1);
  EXPECT_EQ(to_string(placement_of(again)), "Shard(1)");
  expect_equal(unshard_(again), whole);
  EXPECT_TRUE(contains(error_of([&] { shard_(whole.t(), kThree, 0); }), "share the memory"));
  EXPECT_TRUE(contains(error_of([&] { shard_(whole.clone(), {}, 0); }), "at least one device"));
  EXPECT_TRUE(contains(error_of([&] { shard_(whole.clone(), kThree, 2); }), "shard_"));
  const std::vector<Device> two(2, Device());
  const Tensor other = shard_(whole.clone(), two, 0);
  EXPECT_TRUE(contains(error_of([&] { divided(whole) + other; }), "among different devices"));
}

TEST(DividedTensor, ThreadsUseOneTensor) {
  const Tensor whole = filled({9, 4}, 1);
  const Tensor x = divided(whole);
  std::vector<std::thread> threads;
  std::vector<Tensor> results(4);
  for (Tensor& result : results)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) result = matmul(x.t(), x).relu();
    });
  for (std::thread& thread : threads) thread.join();
  for (const Tensor& result : results) expect_equal(result, matmul(whole.t(), whole).relu());
}

}  // namespace
}  // namespace tensora::distributed
