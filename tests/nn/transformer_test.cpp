#include "tensora/nn/transformer.h"

#include "tensora/nn/linear_cross_entropy.h"
#include "tensora/nn/mixture_of_experts.h"
#include "tensora/nn/transformer_block.h"
#include "tests/filled.h"

namespace tensora::testing {
namespace {

const Goldens& goldens() {
  static const Goldens file(TENSORA_TESTS "/nn/goldens/blocks.txt");
  return file;
}

double distance(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

void compare_encoder(const std::string& name, const nn::TransformerLayerOptions& options,
                     int64_t steps) {
  nn::TransformerEncoderLayer layer(8, 2, options);
  fill(layer);
  const Tensor x = filled("x", {3, 4, 8}).requires_grad_();
  const Tensor padding = (filled("padding", {7 - steps, steps}) > 0.6).to(kFloat32) * -1e4;
  const Tensor output = layer(x, nn::TransformerEncoderCall{.mask = filled("mask", {steps, steps}),
                                                            .src_key_padding_mask = padding});
  goldens().expect(name + ".output", output);
  goldens().expect_gradients(name, {output}, layer, {x}, 2e-5);
}

TEST(Transformer, EncoderLayersEqualPyTorch) {
  compare_encoder("encoder_layer", {.dim_feedforward = 16, .dropout = 0}, 3);
  compare_encoder("encoder_pre",
                  {.dim_feedforward = 16,
                   .dropout = 0,
                   .activation = "gelu",
                   .batch_first = true,
                   .norm_first = true,
                   .bias = false},
                  4);
}

void compare_decoder(const std::string& name, const nn::TransformerLayerOptions& options) {
  nn::TransformerDecoderLayer layer(8, 2, options);
  fill(layer);
  const Tensor x = filled("x", {4, 4, 8}).requires_grad_();
  const Tensor memory = filled("memory", {4, 4, 8}).requires_grad_();
  nn::TransformerDecoderCall call{.tgt_mask = nn::Transformer::generate_square_subsequent_mask(4),
                                  .memory_key_padding_mask = filled("padding", {4, 4}) > 0.7};
  const Tensor output = layer(x, memory, call);
  goldens().expect(name + ".output", output);
  goldens().expect_gradients(name, {output}, layer, {x, memory}, 2e-5);
  call.tgt_mask = {};
  call.tgt_is_causal = true;
  goldens().expect(name + ".output", layer(x, memory, call));
}

TEST(Transformer, DecoderLayersEqualPyTorch) {
  compare_decoder("decoder_layer", {.dim_feedforward = 16, .dropout = 0});
  compare_decoder("decoder_pre", {.dim_feedforward = 16,
                                  .dropout = 0,
                                  .activation = "gelu",
                                  .batch_first = true,
                                  .norm_first = true});
}

TEST(Transformer, EqualsPyTorch) {
  nn::Transformer model({.d_model = 8,
                         .nhead = 2,
                         .num_encoder_layers = 2,
                         .num_decoder_layers = 2,
                         .dim_feedforward = 16,
                         .dropout = 0,
                         .batch_first = true});
  fill(model);
  const Tensor x = filled("x", {2, 5, 8}).requires_grad_();
  const Tensor y = filled("y", {2, 4, 8}).requires_grad_();
  const Tensor output = model(
      x, y, nn::TransformerCall{.tgt_mask = nn::Transformer::generate_square_subsequent_mask(4)});
  goldens().expect("transformer.output", output);
  goldens().expect_gradients("transformer", {output}, model, {x, y}, 2e-5);
  EXPECT_TRUE(contains(error_of([&] { model(x, zeros({2, 4, 7})); }), "8 features"));
}

TEST(TransformerBlock, IsTheSumOfItsParts) {
  const nn::RotaryEmbedding rotary(4);
  nn::TransformerBlock block(8, 2, 12, {.attention = {.num_kv_heads = 1, .rotary = rotary}});
  const Tensor x = randn({2, 5, 8});
  const Tensor middle = x + block.self_attn(block.input_layernorm(x));
  const Tensor expected = middle + block.mlp(block.post_attention_layernorm(middle));
  EXPECT_LT(distance(block(x), expected), 1e-5);
  nn::KVCache cache(1);
  const Tensor first = block(x.narrow(1, 0, 3), nn::AttentionStep{.cache = &cache}).detach();
  const Tensor second = block(x.narrow(1, 3, 2), nn::AttentionStep{.cache = &cache}).detach();
  EXPECT_LT(distance(cat({first, second}, 1), expected), 1e-5);
  EXPECT_TRUE(contains(error_of([&] { block(zeros({5, 8})); }), "[batch, positions, 8]"));
  EXPECT_TRUE(contains(error_of([] { nn::CausalSelfAttention(8, 4, {.num_kv_heads = 3}); }),
                       "num_kv_heads"));
}

TEST(CausalAttention, WindowsHideWhatIsFarBehind) {
  const Tensor mask = nn::causal_mask(3, 5, 2, {});
  EXPECT_EQ(values(mask), (Values{0, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1}));
  const Tensor q = randn({1, 2, 6, 4}), k = randn({1, 1, 6, 4}), v = randn({1, 1, 6, 4});
  const Tensor whole = nn::causal_attention(q, k, v, {}, {.window = 3});
  nn::KVCache cache(1);
  for (int64_t i = 0; i < 6; ++i) {
    const Tensor one = nn::causal_attention(q.narrow(2, i, 1), k.narrow(2, i, 1), v.narrow(2, i, 1),
                                            {.cache = &cache}, {.window = 3});
    EXPECT_LT(distance(one, whole.narrow(1, i, 1)), 1e-5);
  }
}

TEST(LinearCrossEntropy, PiecesGiveTheSameLossAndGradients) {
  const Tensor x = randn({3, 7, 5}).requires_grad_(), w = randn({11, 5}).requires_grad_();
  const Tensor target = randint(0, 11, {3, 7});
  target[0][2] = -100;
  const auto gradients = [&](int64_t bytes) {
    const Tensor loss = nn::linear_cross_entropy(x, w, target, {.chunk_bytes = bytes});
    TensorList result = grad(loss * 3, {x, w});
    result.push_back(loss.detach());
    return result;
  };
  const TensorList whole = gradients(1 << 20);
  for (const int64_t bytes : {1, 44 * 4, 44 * 10}) {
    const TensorList pieces = gradients(bytes);
    for (size_t i = 0; i < 3; ++i) EXPECT_LT(distance(whole[i], pieces[i]), 1e-5);
  }
  // Either alone, and neither.
  const Tensor fixed = w.detach();
  const Tensor loss = nn::linear_cross_entropy(x, fixed, target, {.chunk_bytes = 44});
  EXPECT_LT(distance(grad(loss, {x})[0] * 3, whole[0]), 1e-5);
  EXPECT_FALSE(
      nn::linear_cross_entropy(x.detach(), fixed, target, {.chunk_bytes = 44}).requires_grad());
  // In bfloat16 the losses of many rows are still summed in float32.
  const Tensor narrow_x = x.detach().to(kBFloat16), narrow_w = fixed.to(kBFloat16);
  for (const int64_t bytes : {44, 1 << 20}) {
    const Tensor narrow =
        nn::linear_cross_entropy(narrow_x, narrow_w, target, {.chunk_bytes = bytes});
    EXPECT_EQ(narrow.dtype(), kFloat32);
    EXPECT_LT(distance(narrow, whole[2]), 0.05);
  }
  const autocast scope(kBFloat16);
  EXPECT_LT(distance(nn::linear_cross_entropy(x, w, target, {.chunk_bytes = 44}), whole[2]), 0.1);
  EXPECT_TRUE(contains(error_of([&] { nn::linear_cross_entropy(x, w, target.flatten()); }),
                       "expected a target of shape [3, 7]"));
}

// A backward that begins with this loss need not multiply by 1; whatever else it begins with
// counts.
TEST(LinearCrossEntropy, BackwardsOfAllScales) {
  const Tensor target = randint(0, 11, {21}), input = randn({21, 5}), weight = randn({11, 5});
  const auto gradients = [&](auto run) {
    const Tensor x = input.clone().requires_grad_(), w = weight.clone().requires_grad_();
    run(nn::linear_cross_entropy(x, w, target, {.chunk_bytes = 44 * 4}));
    return TensorList{x.grad(), w.grad()};
  };
  const auto expect = [&](double factor, auto run) {
    const TensorList one = gradients([](const Tensor& loss) { (loss * 1).backward(); });
    const TensorList other = gradients(run);
    for (size_t i = 0; i < 2; ++i) EXPECT_LT(distance(other[i], one[i] * factor), 1e-6);
  };
  expect(1, [](const Tensor& loss) { loss.backward(); });
  expect(3, [](const Tensor& loss) { loss.backward(full({}, 3)); });
  expect(3, [](const Tensor& loss) { (loss * 3).backward(); });
  expect(2, [](const Tensor& loss) {
    loss.backward({}, true);
    loss.backward();
  });
  expect(5, [](const Tensor& loss) {
    const Tensor both[] = {loss, loss * 4};
    backward(both);
  });
  expect(7, [](const Tensor& loss) {
    loss.register_hook([](const Tensor& grad) { return grad.mul_(7); });
    loss.backward();
  });
}

TEST(MixtureOfExperts, IsTheWeightedSumOfItsExperts) {
  nn::MixtureOfExperts moe(6, 5, {.num_experts = 4, .top_k = 2, .shared_hidden = 3});
  const Tensor x = randn({2, 3, 6}).requires_grad_();
  const auto [output, balance] = moe(x);
  const Tensor tokens = x.detach().reshape({6, 6});
  const Tensor probabilities = softmax(moe.gate(tokens), -1);
  Tensor expected = (*moe.shared_expert)(tokens).detach();
  for (int64_t i = 0; i < 6; ++i) {
    const auto [weights, experts] = probabilities[i].topk(2);
    for (int64_t k = 0; k < 2; ++k) {
      const int64_t e = experts[k].item<int64_t>();
      const Tensor y = linear(swiglu(linear(tokens[i], moe.gate_up_proj[e])), moe.down_proj[e]);
      expected[i] = (expected[i] + y * (weights[k] / weights.sum())).detach();
    }
  }
  EXPECT_LT(distance(output.reshape({6, 6}), expected), 1e-5);
  EXPECT_GE(balance.item<double>(), 1.9);
  (output.sum() + balance).backward();
  const Tensor gate = moe.gate.weight.grad(), up = moe.gate_up_proj.grad(), input = x.grad();
  // With a slot for every token, as a GPU computes it, results and gradients are the same.
  moe.zero_grad();
  x.set_grad({});
  moe.options.capacity_factor = 4;
  const auto [slots, same] = moe(x);
  EXPECT_LT(distance(slots, output), 1e-5);
  (slots.sum() + same).backward();
  EXPECT_LT(distance(moe.gate.weight.grad(), gate), 1e-5);
  EXPECT_LT(distance(moe.gate_up_proj.grad(), up), 1e-5);
  EXPECT_LT(distance(x.grad(), input), 1e-5);
  // Few slots drop tokens, and nothing else.
  moe.options.capacity_factor = 0.3;
  EXPECT_EQ(values(isfinite(std::get<0>(moe(x))).all()), Values{1});
  EXPECT_EQ(std::get<0>(moe(zeros({0, 6}))).sizes(), Shape({0, 6}));
  EXPECT_TRUE(contains(error_of([] { nn::MixtureOfExperts(4, 4, {.top_k = 9}); }), "top_k"));
}

}  // namespace
}  // namespace tensora::testing
