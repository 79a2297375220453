// The gradients of attention on Hopper: one pass, whose sums are atomic, against the two kernels
// that give the same bits every time, and against float64; and the same by cuDNN.
#include <atomic>
#include <thread>
#include <vector>

#include "tensora/autograd/engine.h"
#include "tensora/backend/cuda/cudnn/attention.h"
#include "tensora/backend/cuda/runtime/graph.h"
#include "tests/cuda/gpu.h"

namespace tensora::test {
namespace {

struct AttentionSample {
  int64_t batch, heads, groups, queries, keys, size, value_size;
  bool causal;
};

using cuda::cudnn::attention_plan_counts, cuda::cudnn::AttentionChoice,
    cuda::cudnn::set_attention_choice;

class AttentionOnGpu : public Gpu {
 protected:
  /// The gradients of query, key and value, which lie with positions before heads, as a linear
  /// layer leaves them.
  static std::vector<Tensor> gradients(const AttentionSample& s, DType dtype, Device device,
                                       bool result_too = false) {
    Generator generator(7);
    const GeneratorScope seeded(generator);
    const auto make = [&](int64_t length, int64_t heads, int64_t size) {
      const Tensor values = randn({s.batch, length, heads, size}).to(kBFloat16);
      return values.to(dtype).to(device).transpose(1, 2).requires_grad_();
    };
    const Tensor q = make(s.queries, s.heads, s.size), k = make(s.keys, s.groups, s.size),
                 v = make(s.keys, s.groups, s.value_size),
                 g = make(s.queries, s.heads, s.value_size).detach();
    const Tensor y =
        scaled_dot_product_attention(q, k, v, {}, 0, s.causal, {}, s.groups != s.heads);
    std::vector<Tensor> all = tensora::grad(std::vector<Tensor>{y}, {q, k, v}, {g});
    if (result_too) all.push_back(y.detach());
    return all;
  }
  /// The gradients and the result by cuDNN; none where cuDNN did not run both ways.
  static std::vector<Tensor> by_cudnn(const AttentionSample& s, DType dtype) {
    const int64_t before = attention_plan_counts().runs;
    set_attention_choice(AttentionChoice::cudnn);
    const std::vector<Tensor> all = gradients(s, dtype, kCuda, true);
    set_attention_choice(AttentionChoice::automatic);
    return attention_plan_counts().runs == before + 2 ? all : std::vector<Tensor>();
  }
  static double apart(const Tensor& a, const Tensor& b) {
    const Tensor x = a.cpu().to(kFloat64), y = b.cpu().to(kFloat64);
    return (x - y).norm().item<double>() / (y.norm().item<double>() + 1e-30);
  }
  static std::string text(const AttentionSample& s) {
    return concat(s.batch, " x ", s.heads, " (", s.groups, "), ", s.queries, " x ", s.keys, ", ",
                  s.size, " ", s.value_size, s.causal ? ", causal" : "");
  }
};

constexpr AttentionSample kSamples[] = {
    {1, 1, 1, 64, 128, 64, 64, false},  {1, 1, 1, 128, 128, 64, 64, true},
    {2, 3, 3, 256, 256, 64, 64, true},  {2, 8, 2, 320, 320, 64, 64, true},
    {1, 2, 2, 197, 197, 64, 64, false}, {1, 4, 1, 130, 577, 64, 64, false},
    {1, 2, 2, 577, 130, 64, 64, true},  {1, 2, 1, 65, 300, 64, 64, true},
    {3, 2, 2, 33, 31, 40, 40, true},    {1, 2, 2, 500, 500, 64, 32, true},
    {1, 2, 2, 70, 90, 8, 64, false},    {2, 4, 4, 1024, 1024, 64, 64, true},
    {1, 8, 2, 2048, 2048, 64, 64, true}};

TEST_F(AttentionOnGpu, GradientsInOnePass) {
  for (const AttentionSample& s : kSamples)
    for (const DType dtype : {kBFloat16, kFloat16}) {
      SCOPED_TRACE(concat(text(s), " ", dtype));
      const std::vector<Tensor> fast = gradients(s, dtype, kCuda);
      std::vector<Tensor> ordered;
      {
        const DeterministicScope scope(true);
        ordered = gradients(s, dtype, kCuda);
      }
      for (size_t i = 0; i < 3; ++i) {
        // Sums in another order, rounded: a few elements differ by one unit.
        EXPECT_LT(apart(fast[i], ordered[i]), dtype == kBFloat16 ? 2e-3 : 3e-4) << "gradient " << i;
      }
    }
}

TEST_F(AttentionOnGpu, GradientsAgreeWithFloat64) {
  for (const AttentionSample& s : kSamples) {
    if (s.queries > 600) continue;  // the CPU's turn
    SCOPED_TRACE(text(s));
    const std::vector<Tensor> fast = gradients(s, kBFloat16, kCuda),
                              exact = gradients(s, kFloat64, Device(DeviceType::cpu));
    for (size_t i = 0; i < 3; ++i) EXPECT_LT(apart(fast[i], exact[i]), 1e-2) << "gradient " << i;
  }
}

TEST_F(AttentionOnGpu, SameBitsWhereAskedFor) {
  const DeterministicScope scope(true);
  const AttentionSample s{2, 8, 2, 640, 640, 64, 64, true};
  const std::vector<Tensor> first = gradients(s, kBFloat16, kCuda);
  for (int run = 0; run < 5; ++run) {
    const std::vector<Tensor> again = gradients(s, kBFloat16, kCuda);
    for (size_t i = 0; i < 3; ++i)
      EXPECT_TRUE(equal(again[i], first[i])) << "gradient " << i << ", run " << run + 2;
  }
}

TEST_F(AttentionOnGpu, ByCudnn) {
  constexpr AttentionSample kWide[] = {
      {2, 3, 3, 256, 256, 128, 128, true},  {1, 8, 2, 320, 320, 128, 128, true},
      {2, 2, 2, 197, 197, 256, 256, false}, {1, 4, 1, 577, 130, 96, 96, true},
      {1, 4, 4, 130, 577, 80, 80, true},    {1, 1, 1, 512, 512, 128, 128, false}};
  int compared = 0;
  const auto compare = [&](const AttentionSample& s) {
    if (s.queries > 600) return;  // the CPU's turn
    SCOPED_TRACE(text(s));
    const std::vector<Tensor> exact = gradients(s, kFloat64, Device(DeviceType::cpu), true);
    for (const DType dtype : {kBFloat16, kFloat16}) {
      const std::vector<Tensor> given = by_cudnn(s, dtype);
      for (size_t i = 0; i < given.size(); ++i, ++compared)
        EXPECT_LT(apart(given[i], exact[i]), 1e-2) << dtype << ", output " << i;
    }
  };
  for (const AttentionSample& s : kSamples) compare(s);
  for (const AttentionSample& s : kWide) compare(s);
  if (compared == 0) GTEST_SKIP() << "no cuDNN from 9.16 on";
  EXPECT_GE(compared, 100);
}

TEST_F(AttentionOnGpu, CudnnOnlyWhereItMay) {
  const AttentionSample s{2, 4, 4, 256, 256, 128, 128, true};
  const int64_t before = attention_plan_counts().runs;
  set_attention_choice(AttentionChoice::own);
  gradients(s, kBFloat16, kCuda);
  set_attention_choice(AttentionChoice::cudnn);
  {
    const DeterministicScope scope(true);
    gradients(s, kBFloat16, kCuda);
  }
  gradients(s, kFloat32, kCuda);
  const Tensor x = randn({1, 2, 64, 64}, {.dtype = kBFloat16, .device = kCuda});
  const Tensor mask = ones({64, 64}, {.dtype = kBool, .device = kCuda});
  scaled_dot_product_attention(x, x, x, mask);
  scaled_dot_product_attention(x, x, x, {}, 0.5);
  const Tensor shared = x.slice(1, 0, 1).expand({1, 2, 64, 64});
  EXPECT_TRUE(allclose(scaled_dot_product_attention(x, shared, shared),
                       scaled_dot_product_attention(x, shared.contiguous(), shared.contiguous()),
                       1e-2, 1e-2));
  set_attention_choice(AttentionChoice::automatic);
  EXPECT_LE(attention_plan_counts().runs, before + 1);  // the contiguous one
}

TEST_F(AttentionOnGpu, ByCudnnInAGraph) {
  set_attention_choice(AttentionChoice::cudnn);
  const Tensor x = randn({2, 4, 256, 128}, {.dtype = kBFloat16, .device = kCuda});
  const int64_t before = attention_plan_counts().runs;
  Tensor y;
  cuda::Graph graph;  // the first call of these sizes: the plan is made within the capture
  graph.capture([&] { y = scaled_dot_product_attention(x, x, x, {}, 0, true); });
  const bool ran = attention_plan_counts().runs == before + 1;
  x.copy_(randn({2, 4, 256, 128}, {.dtype = kBFloat16, .device = kCuda}));
  graph.replay();
  set_attention_choice(AttentionChoice::own);
  const Tensor expected = scaled_dot_product_attention(x, x, x, {}, 0, true);
  set_attention_choice(AttentionChoice::automatic);
  EXPECT_LT(apart(y, expected), 1e-2);
  if (!ran) GTEST_SKIP() << "no cuDNN from 9.16 on";
}

TEST_F(AttentionOnGpu, ACallKeepsItsKernel) {
  const Tensor x = randn({2, 8, 1024, 256}, {.dtype = kBFloat16, .device = kCuda});
  const int64_t before = attention_plan_counts().runs;
  const Tensor first = scaled_dot_product_attention(x, x, x, {}, 0, true);
  const bool by_cudnn = attention_plan_counts().runs == before + 1;
  for (int call = 1; call < 120; ++call)
    ASSERT_TRUE(equal(scaled_dot_product_attention(x, x, x, {}, 0, true), first)) << call;
  EXPECT_EQ(attention_plan_counts().runs, before + (by_cudnn ? 120 : 0));
  // Lengths of prompts are any: no plan is made for them.
  const int64_t made = attention_plan_counts().made;
  const Tensor y = narrow(x, 2, 0, 1000);
  scaled_dot_product_attention(y, y, y, {}, 0, true);
  EXPECT_EQ(attention_plan_counts().made, made);
}

TEST_F(AttentionOnGpu, ByCudnnFromSeveralThreads) {
  constexpr AttentionSample kShapes[] = {{2, 4, 4, 256, 256, 128, 128, true},
                                         {1, 4, 2, 320, 320, 64, 64, false}};
  std::vector<std::vector<Tensor>> expected;
  for (const AttentionSample& s : kShapes) expected.push_back(gradients(s, kBFloat16, kCuda));
  set_attention_choice(AttentionChoice::cudnn);
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int run = 0; run < 20; ++run)
        for (size_t shape = 0; shape < 2; ++shape) {
          const std::vector<Tensor> found = gradients(kShapes[shape], kBFloat16, kCuda);
          for (size_t i = 0; i < 3; ++i) wrong += apart(found[i], expected[shape][i]) > 1e-2;
        }
    });
  threads.clear();  // joins them
  set_attention_choice(AttentionChoice::automatic);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tensora::test
