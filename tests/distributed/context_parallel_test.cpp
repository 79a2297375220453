// Sequences and experts that are divided among ranks.
#include "tensora/distributed/context_parallel.h"

#include "tensora/base/error_kinds.h"
#include "tensora/distributed/expert_parallel.h"
#include "tensora/distributed/threads.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

using distributed::ExpertParallel;
using distributed::join_sequence;
using distributed::ring_attention;
using distributed::run_ranks;
using distributed::split_sequence;

TEST(ContextParallel, SplitAndJoin) {
  const Tensor whole = arange(24).reshape({2, 12});
  run_ranks(3, [&](ProcessGroup& world) {
    const Tensor part = split_sequence(whole, 1, world);
    const int64_t r = world.rank();
    EXPECT_EQ(to_vector<int64_t>(part[0]),
              (std::vector<int64_t>{2 * r, 2 * r + 1, 10 - 2 * r, 11 - 2 * r}));
    EXPECT_TRUE(equal(join_sequence(part, 1, world), whole));
    EXPECT_THROW(split_sequence(whole, 0, world), ValueError);
  });
}

TEST(ContextParallel, RingAttentionIsAttention) {
  for (const bool causal : {true, false})
    for (const int ranks : {1, 2, 3, 4}) {
      manual_seed(5);
      const TensorOptions wide{.dtype = kFloat64};
      const Tensor q = randn({2, 4, 24, 8}, wide), k = randn({2, 2, 24, 8}, wide),
                   v = randn({2, 2, 24, 6}, wide), g = randn({2, 4, 24, 6}, wide);
      std::vector<Tensor> whole = {q.clone(), k.clone(), v.clone()};
      for (Tensor& x : whole) x.requires_grad_();
      const Tensor expected =
          scaled_dot_product_attention(whole[0], whole[1], whole[2], {}, 0, causal, 0.3, true);
      expected.backward(g);
      run_ranks(ranks, [&](ProcessGroup& world) {
        std::vector<Tensor> parts;
        for (const Tensor& x : {q, k, v}) {
          parts.push_back(split_sequence(x, 2, world));
          parts.back().requires_grad_();
        }
        const Tensor result =
            ring_attention(parts[0], parts[1], parts[2], {.is_causal = causal, .scale = 0.3});
        result.backward(split_sequence(g, 2, world));
        EXPECT_TRUE(allclose(join_sequence(result, 2, world), expected.detach(), 1e-12, 1e-12));
        for (size_t i = 0; i < 3; ++i)
          EXPECT_TRUE(
              allclose(join_sequence(parts[i].grad(), 2, world), whole[i].grad(), 1e-11, 1e-11))
              << "gradient " << i << " on " << ranks << " ranks, causal " << causal;
      });
    }
}

TEST(ContextParallel, HalfTypesAreMergedInFloat32) {
  manual_seed(6);
  const Tensor x = randn({1, 2, 32, 8});
  const Tensor expected = scaled_dot_product_attention(x, x, x, {}, 0, true);
  run_ranks(4, [&](ProcessGroup& world) {
    const Tensor part = split_sequence(x, 2, world).to(kBFloat16);
    const Tensor result = join_sequence(ring_attention(part, part, part), 2, world);
    EXPECT_EQ(result.dtype(), kBFloat16);
    EXPECT_TRUE(allclose(result.to(kFloat32), expected, 0.03, 0.03));
    EXPECT_THROW(ring_attention(part, part.narrow(2, 0, 2), part), ValueError);
    EXPECT_THROW(ring_attention(part[0], part[0], part[0]), ValueError);
  });
}

// All ranks' tokens through experts on all ranks, against one process that has both.
void compare_experts(std::optional<double> capacity, int ranks) {
  const auto make = [&] {
    manual_seed(8);
    nn::MixtureOfExperts layer(
        12, 10, {.num_experts = 12, .top_k = 2, .shared_hidden = 4, .capacity_factor = capacity});
    layer.to(kFloat64);
    return layer;
  };
  manual_seed(9);
  const Tensor tokens = randn({ranks * 7, 12}, {.dtype = kFloat64});
  const nn::MixtureOfExperts alone = make();
  std::vector<Tensor> expected;
  for (int r = 0; r < ranks; ++r) {  // the capacity is that of a rank's tokens
    const auto [y, balance] = alone(tokens.narrow(0, 7 * r, 7));
    expected.push_back(y.detach());
    ((y * y).sum() / ranks + balance.to(kFloat64) / ranks).backward();
  }
  run_ranks(ranks, [&](ProcessGroup& world) {
    const int64_t mine = 12 / world.size(), first = mine * world.rank();
    const ExpertParallel layer(make());
    const auto [y, balance] = layer(tokens.narrow(0, 7 * world.rank(), 7));
    EXPECT_TRUE(allclose(y.detach(), expected[static_cast<size_t>(world.rank())], 1e-10, 1e-12));
    ((y * y).sum() + balance.to(kFloat64)).backward();
    EXPECT_TRUE(allclose(layer.gate_up_proj.grad(),
                         alone.gate_up_proj.grad().narrow(0, first, mine), 1e-9, 1e-12));
    EXPECT_TRUE(allclose(layer.down_proj.grad(), alone.down_proj.grad().narrow(0, first, mine),
                         1e-9, 1e-12));
    Tensor router = layer.gate.weight.grad().clone();
    world.all_reduce(router.view_of_data(), ReduceOp::average)->wait();
    // Probabilities are float32.
    EXPECT_TRUE(allclose(router, alone.gate.weight.grad(), 1e-4, 1e-6));
  });
}

TEST(ExpertParallel, IsTheMixtureOfOneProcess) {
  for (const int ranks : {1, 2, 3, 4}) compare_experts({}, ranks);
}

TEST(ExpertParallel, WithACapacity) {
  for (const int ranks : {1, 2, 4}) compare_experts(1.0, ranks);
}

TEST(ExpertParallel, Mistakes) {
  run_ranks(2, [&](ProcessGroup&) {
    EXPECT_THROW(ExpertParallel(nn::MixtureOfExperts(4, 4, {.num_experts = 3})), ValueError);
    EXPECT_THROW(ExpertParallel(nn::MixtureOfExperts(4, 4, {}))(ones({2, 5})), Error);
  });
}

}  // namespace
}  // namespace tensora::testing
