// Mixtures of experts on the GPU: every kernel against the CPU, and steps that are recorded.
#include <cmath>

#include "tensora/backend/cuda/runtime/graph.h"
#include "tensora/llm/step_graphs.h"
#include "tensora/ops/quant/quant_experts.h"
#include "tensora/ops/quant/quantize.h"
#include "tensora/ops/quant/route_experts.h"
#include "tests/cuda/gpu.h"
#include "tests/llm/random_weights.h"
#include "tests/llm/sequences.h"

namespace tensora::test {
namespace {

class ExpertsOnGpu : public Gpu {};

constexpr int64_t kExperts = 5, kUsed = 2, kColumns = 768, kInner = 512, kResults = 392;

struct Stack {
  Tensor data, scale;

  Tensor wide() const {
    const Tensor numbers = data.is_quantized() ? dequantize(data) : data.to(kFloat32);
    return scale.defined() ? numbers * scale.unsqueeze(1) : numbers;
  }
  Stack on_gpu() const { return {data.to(kCuda), scale.defined() ? scale.to(kCuda) : Tensor()}; }
};

Stack make_stack(int64_t rows, int64_t columns, DType dtype) {
  const Tensor values = randn({kExperts * rows, columns}) / std::sqrt(static_cast<double>(columns));
  if (is_quantized(dtype)) return {quantize(values, dtype), {}};
  if (dtype == kInt8)
    return {(values * 1000).clamp(-127, 127).round().to(kInt8),
            full({kExperts * rows}, 0.001, {.dtype = kFloat32})};
  if (dtype == kFloat8E4M3)
    return {(values * 8).to(dtype), full({kExperts * rows}, 0.125, {.dtype = kFloat32})};
  return {values.to(dtype), {}};
}

struct Layer {
  Stack gate, up, down;

  Tensor operator()(const Tensor& x, const Tensor& chosen, const Tensor& weights,
                    const Tensor& residual) const {
    return quant_experts(x, chosen, weights, gate.data, up.data, down.data, kExperts,
                         {.gate_scale = gate.scale,
                          .up_scale = up.scale,
                          .down_scale = down.scale,
                          .residual = residual,
                          .dtype = kFloat32});
  }
  Layer wide() const { return {{gate.wide(), {}}, {up.wide(), {}}, {down.wide(), {}}}; }
  Layer on_gpu() const { return {gate.on_gpu(), up.on_gpu(), down.on_gpu()}; }
};

/// The share of the largest expected number by which results differ at most.
double difference_of(const Tensor& actual, const Tensor& expected) {
  const Tensor far = (actual.cpu().to(kFloat64) - expected.cpu().to(kFloat64)).abs();
  return far.amax().item<double>() / expected.abs().amax().item<double>();
}

void expect_same_experts(const Layer& layer, int64_t tokens, DType dtype) {
  SCOPED_TRACE(concat(tokens, " tokens of ", dtype));
  const Tensor x = randn({tokens, kColumns}).to(dtype), residual = randn({tokens, kResults});
  const Tensor weights = rand({tokens, kUsed});
  // The last expert has nothing to do, and the first one most.
  const Tensor first = randint(0, 2, {tokens, 1}).to(kInt64);
  const Tensor chosen = cat({first, first + 1 + randint(0, 2, {tokens, 1}).to(kInt64)}, 1);
  const Tensor expected = layer.wide()(x.to(kFloat32), chosen, weights, residual);
  const Tensor actual =
      layer.on_gpu()(x.to(kCuda), chosen.to(kCuda), weights.to(kCuda), residual.to(kCuda));
  EXPECT_LT(difference_of(actual, expected), dtype == kFloat32 ? 1e-4 : 0.02);
}

TEST_F(ExpertsOnGpu, AgreeWithTheCpu) {
  for (DType dtype : {kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ2_K, kQ3_K, kQ4_K, kQ5_K, kQ6_K, kIQ4_NL,
                      kIQ4_XS, kMXFP4, kNF4, kInt8, kFloat8E4M3, kFloat16, kBFloat16, kFloat32}) {
    SCOPED_TRACE(concat(dtype));
    const Layer layer{make_stack(kInner, kColumns, dtype), make_stack(kInner, kColumns, dtype),
                      make_stack(kResults, kInner, dtype)};
    for (int64_t tokens : {1, 2, 3, 9, 32, 300}) expect_same_experts(layer, tokens, kBFloat16);
    for (int64_t tokens : {1, 40}) expect_same_experts(layer, tokens, kFloat16);
    expect_same_experts(layer, 3, kFloat32);
  }
}

TEST_F(ExpertsOnGpu, MatricesOfDifferentDTypes) {
  const Layer usual{make_stack(kInner, kColumns, kQ4_K), make_stack(kInner, kColumns, kQ4_K),
                    make_stack(kResults, kInner, kQ6_K)};
  const Layer strange{make_stack(kInner, kColumns, kQ4_K), make_stack(kInner, kColumns, kQ8_0),
                      make_stack(kResults, kInner, kFloat16)};
  for (int64_t tokens : {1, 5, 200, 700}) expect_same_experts(usual, tokens, kBFloat16);
  for (int64_t tokens : {1, 5}) expect_same_experts(strange, tokens, kBFloat16);
}

TEST_F(ExpertsOnGpu, RoutesLikeTheCpu) {
  for (const int64_t experts : {8, 128, 300})
    for (const int64_t tokens : {1, 5, 200})
      for (const DType dtype : {kFloat32, kBFloat16}) {
        const Tensor x = randn({tokens, 1024}).to(kBFloat16);
        const Tensor router = (randn({experts, 1024}) * 0.05).to(dtype);
        const RouteExpertsOptions options{.normalize = experts != 128, .scale = 1.5};
        const auto [weights, chosen] = route_experts(x, router, 4, options);
        const auto [here, choice] = route_experts(x.to(kCuda), router.to(kCuda), 4, options);
        expect_close(here, weights, 1e-4);
        // Logits that are almost equal may change places.
        EXPECT_GT(eq(choice.cpu(), chosen).to(kFloat32).mean().item<float>(), 0.99F);
      }
}

TEST_F(ExpertsOnGpu, ChoicesOfARecordedGraphAreNotFixed) {
  const Layer layer =
      Layer{make_stack(kInner, kColumns, kQ4_K), make_stack(kInner, kColumns, kQ4_K),
            make_stack(kResults, kInner, kQ6_K)}
          .on_gpu();
  const Tensor router = randn({kExperts, kColumns}, {.device = kCuda});
  for (const int64_t tokens : {1, 12}) {
    const Tensor x = zeros({tokens, kColumns}, {.dtype = kBFloat16, .device = kCuda});
    Tensor result;
    const auto compute = [&] {
      const auto [weights, chosen] = route_experts(x, router, kUsed);
      return layer(x, chosen, weights, Tensor());
    };
    compute();
    cuda::Graph graph;
    graph.capture([&] { result = compute(); });
    for (int i = 0; i < 4; ++i) {
      x.copy_(randn({tokens, kColumns}));
      graph.replay();
      expect_close(result, compute(), 0);
    }
  }
}

TEST_F(ExpertsOnGpu, StepsOfAModelAreRecorded) {
  using namespace llm::testing;
  llm::Metadata data = small_metadata("llama");
  data.set("llama.embedding_length", 256);
  data.set("llama.feed_forward_length", 512);
  data.set("llama.expert_count", 4);
  data.set("llama.expert_used_count", 2);
  for (const DType dtype : {kQ8_0, kQ4_K, kBFloat16}) {
    SCOPED_TRACE(concat(dtype));
    RandomWeights weights(kCuda);
    weights.dtype = dtype;
    const auto model = make_model(checked_config(data), weights);
    Sequences eager(*model, {.cache = kBFloat16}), recorded(*model, {.cache = kBFloat16});
    llm::StepGraphs graphs(model);
    llm::Batch held;
    for (int64_t step = 0; step < 12; ++step) {
      const std::vector<Tokens> tokens{{(step * 13 + 5) % 50}};
      const Tensor expected = eager.feed(tokens);
      const llm::Batch batch = recorded.batch(tokens);
      if (step == 0) held = batch;
      // Graphs read the tensors of the first step.
      for (auto member :
           {&llm::Batch::tokens, &llm::Batch::positions, &llm::Batch::slots,
            &llm::Batch::query_starts, &llm::Batch::lengths, &llm::Batch::block_table})
        (held.*member).copy_(batch.*member);
      held.max_length = batch.max_length;
      const Tensor logits = graphs.forward(held, recorded.cache()).logits;
      expect_close(logits, expected, step < 2 ? 0 : 1e-2);
    }
  }
}

}  // namespace
}  // namespace tensora::test
