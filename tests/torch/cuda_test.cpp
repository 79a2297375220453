// LibTorch and Tensora on one GPU. Skipped where there is none.
#include <ATen/ATen.h>

#include "../llm/sequences.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/core/backend.h"
#include "tensora/core/queue.h"
#include "tensora/llm/registry.h"
#include "tensora/llm/sequence_runner.h"
#include "tensora/llm/synthetic_weights.h"
#include "tensora/torch/bridge.h"
#include "tensora/torch/decoder.h"
#include "tensora/torch/scope.h"

namespace tensora::torch {
namespace {

class TorchCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!is_available(DeviceType::cuda)) GTEST_SKIP() << "there is no GPU";
    check_torch_device(gpu);
  }
  const Device gpu{DeviceType::cuda, 0};
};

at::Tensor full(double value) {
  return at::full({1 << 20}, value, at::TensorOptions(at::kFloat).device(at::kCUDA));
}

TEST_F(TorchCuda, StreamsAreOrderedWithoutTheHost) {
  for (int i = 0; i < 20; ++i) {
    const Tensor ours = ones({1 << 22}, {.device = gpu}) * 3;
    at::Tensor theirs = to_torch(ours);  // LibTorch works on a stream of its own here
    theirs.mul_(2);
    EXPECT_EQ((from_torch(theirs) + 1).sum().item<double>(), 7.0 * (1 << 22));
  }
}

TEST_F(TorchCuda, AScopeSharesTheStream) {
  const Scope scope(gpu);
  EXPECT_FALSE(scope.is_recording());
  const Tensor ours = ones({1000}, {.device = gpu});
  EXPECT_EQ(scope.result(to_torch(ours * 2) + 1).sum().item<double>(), 3000);
}

// See Note [Memory of a graph across two libraries].
TEST_F(TorchCuda, AGraphKeepsLibTorchsMemory) {
  const inference_mode silent;
  Tensor x = ones({1 << 20}, {.device = gpu}), out;
  const auto body = [&] {
    const Scope scope(gpu);
    const at::Tensor theirs = (to_torch(x * 2) + 1) * 3;  // LibTorch allocates and frees
    out = scope.result(to_torch(from_torch(theirs) + 1).exp().log());
  };
  body();
  const auto work = queue_control(gpu.type)->record(gpu, body);
  {
    const Scope scope(gpu);
    std::vector<at::Tensor> others;
    for (int i = 0; i < 50; ++i) others.push_back(full(7));
  }
  for (int i = 0; i < 3; ++i) {
    x.fill_(i);
    const Scope scope(gpu);
    const at::Tensor other = full(-1);
    work->replay();
    EXPECT_NEAR(out.select(0, 5).item<double>(), (i * 2 + 1) * 3 + 1, 1e-4);
  }
}

TEST_F(TorchCuda, MemoryGoesBack) {
  const auto cycle = [&] {
    const Scope scope(gpu);
    Tensor ours = from_torch(full(1).matmul(full(2)).expand({1000}).contiguous());
    for (int i = 0; i < 100; ++i) ours = from_torch(to_torch(ours) + 1);
  };
  cycle();
  empty_torch_cache(gpu);
  const int64_t before = torch_memory(gpu).used;
  for (int i = 0; i < 100; ++i) cycle();
  empty_torch_cache(gpu);
  EXPECT_EQ(torch_memory(gpu).used, before);
}

std::shared_ptr<const llm::Model> decoder_of(const char* shape, const char* type, bool hybrid,
                                             Device gpu) {
  const llm::RegistryEntry& entry = llm::find_registered(shape);
  const llm::ModelConfig config = entry.config();
  llm::SyntheticWeights weights(config, llm::WeightType(type), gpu,
                                {.tied = entry.details.tied, .positions = 512});
  DecoderOptions options{.dtype = {}, .hybrid = hybrid, .kernels = {}};
  if (hybrid) options.kernels = {std::begin(kHybridKernels), std::end(kHybridKernels)};
  return std::make_shared<const Decoder>(config, llm::find_architecture(config.architecture).design,
                                         weights, options);
}

// A prompt of two sequences, then steps, the later ones by a graph.
std::vector<Tensor> logits_of(const std::shared_ptr<const llm::Model>& model, bool paged,
                              DType cache) {
  llm::SequenceRunner runner(
      model,
      {.sequences = 2, .context = 256, .block_size = paged ? 32 : 256, .cache_dtype = cache});
  std::vector<int32_t> first, second;
  for (int32_t i = 0; i < 100; ++i) first.push_back((i * 7919 + 13) % 50000);
  for (int32_t i = 0; i < 37; ++i) second.push_back((i * 1047 + 5) % 50000);
  using Part = llm::SequenceSession::Part;
  std::vector<Part> parts{{0, first}, {1, second}};
  std::vector<Tensor> found{runner.forward(parts, llm::SequenceSession::Rows::all).cpu()};
  for (int32_t i = 0; i < 10; ++i) {
    const int32_t tokens[] = {i * 31 + 1, i * 17 + 2};
    parts = {{0, std::span(tokens, 1)}, {1, std::span(tokens + 1, 1)}};
    found.push_back(runner.forward(parts, llm::SequenceSession::Rows::last).cpu());
  }
  return found;
}

TEST_F(TorchCuda, LogitsAreNatives) {
  struct Row {
    const char *shape, *type;
    double most;
  };
  for (const auto& [shape, type, most] :
       {Row{"llama3-1b", "float32", 1e-4}, Row{"llama3-1b", "float16", 2e-2},
        Row{"qwen3-0.6b", "float32", 1e-4}, Row{"gemma2-2b", "float32", 1e-4}}) {
    SCOPED_TRACE(concat(shape, " ", type));
    const auto native = llm::synthetic_model(shape, type, gpu, 512);
    const DType cache = native->activation_dtype();
    const auto expected = logits_of(native, true, cache);
    for (const bool hybrid : {false, true})
      for (const bool paged : {false, true}) {
        SCOPED_TRACE(concat(hybrid ? "hybrid" : "libtorch", paged ? " paged" : " static"));
        const auto found = logits_of(decoder_of(shape, type, hybrid, gpu), paged, cache);
        for (size_t i = 0; i < found.size(); ++i)
          EXPECT_LT(llm::testing::difference(found[i], expected[i]), most) << i;
      }
  }
}

}  // namespace
}  // namespace tensora::torch
