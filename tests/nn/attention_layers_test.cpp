#include "tensora/nn/feed_forward_swiglu.h"
#include "tensora/nn/kv_cache.h"
#include "tensora/nn/multihead_attention.h"
#include "tensora/nn/rotary_embedding.h"
#include "tests/filled.h"

namespace tensora::testing {
namespace {

const Goldens& goldens() {
  static const Goldens file(TENSORA_TESTS "/nn/goldens/blocks.txt");
  return file;
}

TEST(MultiheadAttention, EqualsPyTorch) {
  nn::MultiheadAttention mha(8, 2);
  fill(mha);
  const Tensor x = filled("x", {4, 3, 8}).requires_grad_();
  const auto [output, weights] = mha(x, x, x);
  goldens().expect("mha.output", output);
  goldens().expect("mha.weights", weights);
  goldens().expect_gradients("mha", {output}, mha, {x});
  // Without the weights in memory the result is the same.
  const auto [fast, none] = mha(x, x, x, nn::MultiheadAttentionCall{.need_weights = false});
  goldens().expect("mha.output", fast);
  EXPECT_FALSE(none.defined());
}

TEST(MultiheadAttention, TakesEveryOption) {
  nn::MultiheadAttention mha(
      8, 2,
      {.add_bias_kv = true, .add_zero_attn = true, .kdim = 5, .vdim = 6, .batch_first = true});
  fill(mha);
  const Tensor q = filled("q", {3, 4, 8}).requires_grad_();
  const Tensor k = filled("k", {3, 7, 5}).requires_grad_();
  const Tensor v = filled("v", {3, 7, 6}).requires_grad_();
  const Tensor padding = filled("padding", {3, 7}) > 0.4;
  nn::MultiheadAttentionCall call{.key_padding_mask = padding,
                                  .attn_mask = filled("mask", {6, 4, 7}),
                                  .average_attn_weights = false};
  const auto [output, weights] = mha(q, k, v, call);
  goldens().expect("mha_all.output", output);
  goldens().expect("mha_all.weights", weights);
  goldens().expect_gradients("mha_all", {output}, mha, {q, k, v});
  call.need_weights = false;
  goldens().expect("mha_all.output", std::get<0>(mha(q, k, v, call)));
}

TEST(MultiheadAttention, AttendsToAnotherSequence) {
  nn::MultiheadAttention mha(8, 4, {.bias = false, .batch_first = true});
  fill(mha);
  const Tensor q = filled("q", {3, 4, 8}).requires_grad_();
  const Tensor k = filled("k", {3, 7, 8}).requires_grad_();
  nn::MultiheadAttentionCall call{.key_padding_mask = filled("padding", {3, 7}) > 0.4,
                                  .need_weights = false,
                                  .attn_mask = filled("mask", {4, 7}) > 0.5};
  const Tensor output = std::get<0>(mha(q, k, k, call));
  goldens().expect("mha_cross.output", output);
  goldens().expect_gradients("mha_cross", {output}, mha, {q, k});
  call.need_weights = true;
  goldens().expect("mha_cross.output", std::get<0>(mha(q, k, k, call)));
}

TEST(MultiheadAttention, CausalIsTheTriangularMask) {
  const nn::MultiheadAttention mha(8, 2, {.batch_first = true});
  const Tensor x = randn({2, 5, 8});
  const Tensor above = ones({5, 5}, {.dtype = kBool}).triu(1);
  const Tensor expected = std::get<0>(mha(x, x, x, nn::MultiheadAttentionCall{.attn_mask = above}));
  for (const bool weights : {false, true}) {
    const nn::MultiheadAttentionCall call{.need_weights = weights, .is_causal = true};
    EXPECT_LT((std::get<0>(mha(x, x, x, call)) - expected).abs().max().item<double>(), 1e-5);
  }
  // One sequence without a batch.
  const Tensor one =
      std::get<0>(mha(x[0], x[0], x[0], nn::MultiheadAttentionCall{.is_causal = true}));
  EXPECT_LT((one - expected[0]).abs().max().item<double>(), 1e-5);
}

TEST(MultiheadAttention, SaysWhatIsWrong) {
  EXPECT_TRUE(contains(error_of([] { nn::MultiheadAttention(8, 3); }), "multiple of num_heads"));
  const nn::MultiheadAttention mha(8, 2);
  const Tensor x = zeros({4, 3, 8});
  EXPECT_TRUE(contains(error_of([&] { mha(x, zeros({4, 3, 7}), x); }), "8 features"));
  EXPECT_TRUE(contains(error_of([&] {
                         mha(x, zeros({4, 2, 8}), zeros({4, 2, 8}));
                       }),
                       "batch size"));
  EXPECT_TRUE(contains(error_of([&] {
                         mha(x, x, x, nn::MultiheadAttentionCall{.attn_mask = zeros({3, 3})});
                       }),
                       "expected attn_mask of shape [4, 4] or [6, 4, 4], got [3, 3]"));
  EXPECT_TRUE(
      contains(error_of([&] {
                 mha(x, x, x, nn::MultiheadAttentionCall{.key_padding_mask = zeros({4, 3})});
               }),
               "key_padding_mask of shape [3, 4]"));
}

TEST(RotaryEmbedding, ScalesAsTransformersDoes) {
  const auto compare = [](const std::string& type, nn::RopeScaling scaling) {
    scaling.type = type;
    const nn::RotaryEmbedding rope(16, {.max_positions = 128, .scaling = scaling});
    for (const int64_t length : {16, 200}) {
      auto [frequencies, strength] = rope.frequencies(length);
      frequencies.push_back(static_cast<float>(strength));
      goldens().expect(concat("rope.", type, ".", length), tensor(frequencies), 1e-6);
    }
  };
  compare("linear", {.factor = 4});
  compare("dynamic", {.factor = 2});
  compare("llama3", {.factor = 8, .original_max_positions = 64});
  compare("yarn", {.factor = 4, .original_max_positions = 32});
  nn::RopeScaling longrope{.original_max_positions = 32};
  for (int i = 0; i < 8; ++i) {
    longrope.short_factor.push_back(1 + 0.1 * i);
    longrope.long_factor.push_back(2 + 0.3 * i);
  }
  compare("longrope", longrope);
}

TEST(RotaryEmbedding, DependsOnDifferencesOfPositionsOnly) {
  for (const bool interleaved : {false, true}) {
    const nn::RotaryEmbedding rope(8, {.interleaved = interleaved});
    const Tensor q = randn({1, 2, 5, 8}), k = randn({1, 1, 5, 8});
    const auto scores = [&](int64_t start) {
      const auto [a, b] = rope(q, k, start);
      return matmul(a, b.transpose(-2, -1));
    };
    EXPECT_LT((scores(0) - scores(300)).abs().max().item<double>(), 1e-3);
    const auto [a, b] = rope(q, k, 7);
    const auto [c, d] = rope(q, k, arange(7, 12), 12);
    EXPECT_EQ(values(a), values(c));
    EXPECT_EQ(values(b), values(d));
  }
  EXPECT_TRUE(contains(error_of([] { nn::RotaryEmbedding(7); }), "even"));
  EXPECT_TRUE(contains(error_of([] { nn::RotaryEmbedding(8, {.scaling = {.type = "stretched"}}); }),
                       "'stretched'"));
}

TEST(KVCache, ReturnsAllThatWasAppended) {
  for (const std::optional<int64_t> most :
       {std::optional<int64_t>(), std::optional<int64_t>(300)}) {
    nn::KVCache cache(2, {.max_length = most});
    const Tensor k = randn({2, 3, 200, 4}), v = randn({2, 3, 200, 4});
    for (int64_t start = 0; start < 200; start += 50) {
      cache.append(0, k.narrow(2, start, 50), v.narrow(2, start, 50));
      const auto [keys, held] = cache.append(1, k.narrow(2, start, 50), v.narrow(2, start, 50));
      EXPECT_EQ(values(keys), values(k.narrow(2, 0, start + 50)));
      EXPECT_EQ(values(held), values(v.narrow(2, 0, start + 50)));
    }
    EXPECT_EQ(cache.length(), 200);
    cache.reorder(tensor(std::vector<int64_t>{1, 1}));
    cache.truncate(10);
    const auto [keys, held] = cache.append(0, k.narrow(2, 10, 1), v.narrow(2, 10, 1));
    EXPECT_EQ(values(keys[0].narrow(1, 0, 10)), values(k[1].narrow(1, 0, 10)));
    EXPECT_TRUE(contains(error_of([&] {
                           cache.append(0, zeros({1, 3, 1, 4}), zeros({1, 3, 1, 4}));
                         }),
                         "does not continue"));
    EXPECT_TRUE(contains(error_of([&] { cache.append(2, k, v); }), "out of range"));
  }
  nn::KVCache small(1, {.max_length = 2});
  EXPECT_TRUE(contains(error_of([&] {
                         small.append(0, zeros({1, 1, 3, 4}), zeros({1, 1, 3, 4}));
                       }),
                       "max_length=2"));
}

TEST(FeedForwardSwiGLU, IsItsFormula) {
  nn::FeedForwardSwiGLU mlp(4, 6, {.bias = true});
  const Tensor x = randn({2, 3, 4});
  const Tensor expected = mlp.down_proj(silu(mlp.gate_proj(x)) * mlp.up_proj(x));
  EXPECT_LT((mlp(x) - expected).abs().max().item<double>(), 1e-6);
  EXPECT_EQ(mlp.state_dict().size(), 6U);
}

}  // namespace
}  // namespace tensora::testing
