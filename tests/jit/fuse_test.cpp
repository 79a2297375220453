// Tracing and fusing on the CPU: traced equals eager, bit for bit where the tiles fall on whole
// vectors, and within the last bits elsewhere.
#include "tensora/jit/fuse.h"

#include <cmath>
#include <cstring>
#include <thread>

#include "tests/helpers.h"

namespace tensora::test {
namespace {

using ::tensora::testing::error_of;
using Function = std::function<Tensor(std::span<const Tensor>)>;

Tensor sample(const Shape& sizes, DType dtype = kFloat32) {
  Tensor values = empty(sizes, {.dtype = kFloat64});
  double* data = values.data_ptr<double>();
  for (int64_t i = 0; i < values.numel(); ++i)
    data[i] = static_cast<double>((i * 7919) % 4001) / 1000.0 - 2;
  return values.to(dtype);
}

void expect_identical(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(to_string(actual.sizes()), to_string(expected.sizes()));
  ASSERT_EQ(name(actual.dtype()), name(expected.dtype()));
  const Tensor a = actual.contiguous(), b = expected.contiguous();
  EXPECT_EQ(std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()), 0);
}

void expect_close(const Tensor& actual, const Tensor& expected, double tolerance) {
  ASSERT_EQ(to_string(actual.sizes()), to_string(expected.sizes()));
  ASSERT_EQ(name(actual.dtype()), name(expected.dtype()));
  const Tensor a = actual.to(kFloat64).contiguous(), b = expected.to(kFloat64).contiguous();
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double x = a.data_ptr<double>()[i], y = b.data_ptr<double>()[i];
    ASSERT_LE(std::abs(x - y), tolerance * (0.1 + std::abs(y))) << "element " << i;
  }
}

void expect_same(const Function& function, const std::vector<Tensor>& inputs, int kernels = 1) {
  const jit::Fused fused = jit::fuse(function, inputs);
  EXPECT_EQ(fused.kernel_count(inputs), kernels) << fused.describe(inputs);
  const Tensor actual = fused.run(inputs)[0], expected = function(inputs);
  const bool half = element_size(expected.dtype()) == 2;
  bool linear = true;
  for (const Tensor& input : inputs)
    linear &= input.is_contiguous() && input.sizes() == expected.sizes();
  if (linear)
    expect_identical(actual, expected);
  else
    expect_close(actual, expected, half ? 1e-2 : 2e-6);
}

// In statements of its own: the order in which operands are evaluated is the compiler's choice.
Tensor chain(std::span<const Tensor> in) {
  const Tensor left = gelu(in[0] * in[1] + 1);
  const Tensor right = sigmoid(in[0]);
  return left * right;
}

TEST(Fuse, Chain) {
  expect_same(chain, {sample({100, 37}), sample({100, 37})});
  expect_same(chain, {sample({100003}), sample({100003})});
}
TEST(Fuse, Broadcasting) {
  expect_same(chain, {sample({64, 40}), sample({40})});
  expect_same(chain, {sample({3000, 3}), sample({3})});
  expect_same(chain, {sample({5, 64, 40}), sample({64, 1})});
  expect_same(chain, {sample({7, 5000}), sample({7, 1})});
  expect_same(chain, {sample({64, 40}), sample({})});
  expect_same(chain, {sample({}), sample({})});
}
TEST(Fuse, Empty) { expect_same(chain, {sample({0, 3}), sample({3})}); }
TEST(Fuse, StridedInputs) {
  expect_same(chain, {sample({200, 300}).transpose(0, 1), sample({300, 1})});
  expect_same(chain, {sample({200, 300}).narrow(1, 3, 100), sample({100})});
}
TEST(Fuse, HalfTypesRoundAsEagerOpsDo) {
  expect_same(chain, {sample({100, 33}, kBFloat16), sample({100, 33}, kBFloat16)});
  expect_same(chain, {sample({100, 33}, kBFloat16), sample({33}, kBFloat16)});
  expect_same(chain, {sample({100, 33}, kFloat16), sample({33}, kFloat16)});
}
TEST(Fuse, MixedDtypesAndAttributes) {
  expect_same(
      [](auto in) {
        const Tensor other = in[1] * 2.5;  // of a smaller shape: a kernel of its own
        const Tensor greater = in[0] > in[1];
        return where(greater, add(in[0], in[1], 3), other);
      },
      {sample({50, 8}, kFloat64), sample({8}, kInt64)}, 2);
}
TEST(Fuse, OtherOpsCutTheRun) {
  expect_same([](auto in) { return tanh(matmul(relu(in[0] + 1), in[1]) * 0.1) + in[2]; },
              {sample({32, 16}), sample({16, 24}), sample({24})}, 3);
}
TEST(Fuse, ValuesNeededLaterAreResults) {
  expect_same(
      [](auto in) {
        const Tensor y = exp(in[0] * 2);
        return y + y.sum({1}, true) * 2;
      },
      {sample({32, 16})}, 4);
}
TEST(Fuse, NewShapesAreTracedAgain) {
  const jit::Fused fused = jit::fuse(chain, std::vector<Tensor>{sample({4}), sample({4})});
  const Tensor x = sample({5, 6}), y = sample({6});
  expect_close(fused(x, y), chain(std::vector<Tensor>{x, y}), 2e-6);
}
TEST(Fuse, CapturedTensorsAreConstants) {
  const Tensor captured = sample({6});
  expect_same([&](auto in) { return (in[0] + captured) * captured; }, {sample({5, 6})});
}
TEST(Fuse, IsSharedByThreads) {
  const Tensor captured = sample({6});
  const auto function = [captured](std::span<const Tensor> in) {
    return std::vector<Tensor>{gelu(in[0] * captured + 1) * sigmoid(in[0])};
  };
  const jit::Fused fused(function, 2);  // of three shapes: versions go while others run them
  std::vector<Tensor> inputs, expected;
  for (const int64_t rows : {1, 5, 7000}) {
    inputs.push_back(sample({rows, 6}));
    expected.push_back(function({&inputs.back(), 1})[0]);
  }
  constexpr size_t kThreads = 4, kCalls = 30;
  std::vector<std::thread> threads;
  for (size_t id = 0; id < kThreads; ++id)
    threads.emplace_back([&, id] {
      for (size_t i = id; i < id + kCalls; ++i)
        expect_close(fused(inputs[i % 3]), expected[i % 3], 2e-6);
    });
  for (std::thread& thread : threads) thread.join();
  const jit::CacheStatistics figures = fused.statistics();
  EXPECT_EQ(figures.hits + figures.misses, kThreads * kCalls);
  EXPECT_EQ(figures.misses, figures.evictions + figures.versions);
  EXPECT_EQ(figures.versions, 2u);
}
TEST(Fuse, DescribesTheGraph) {
  const std::vector<Tensor> inputs = {sample({2, 3}), sample({3})};
  const std::string text = jit::fuse(chain, inputs).describe(inputs);
  EXPECT_NE(text.find("mul(%0, %1) : float32 [2, 3]"), std::string::npos) << text;
  EXPECT_NE(text.find("fused: mul add gelu sigmoid mul"), std::string::npos) << text;
}
TEST(Fuse, MistakesAreNamed) {
  const jit::Fused fused = jit::fuse(chain, std::vector<Tensor>{sample({4}), sample({4})});
  const Tensor x = sample({4});
  x.requires_grad_();
  EXPECT_EQ(error_of([&] { fused(x, x); }),
            "jit: input 0 requires grad, and gradients through a fused function are not supported; "
            "use no_grad or detach it");
}

}  // namespace
}  // namespace tensora::test
