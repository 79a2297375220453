// Fused CUDA kernels: the text compiles (which needs NVRTC but no GPU), and what they compute is
// what the ops compute one by one.
#include <chrono>

#include "tensora/jit/emit_cuda.h"
#include "tensora/jit/fuse.h"
#include "tests/cuda/gpu.h"

namespace tensora::test {
namespace {

using Function = std::function<Tensor(std::span<const Tensor>)>;

class FusedOnGpu : public Gpu {};

void expect_same(const Function& function, const std::vector<Tensor>& inputs, int kernels = 1,
                 double tolerance = 1e-6) {
  std::vector<Tensor> there;
  for (const Tensor& input : inputs) there.push_back(input.cuda());
  const jit::Fused fused = jit::fuse(function, there);
  EXPECT_EQ(fused.kernel_count(there), kernels) << fused.describe(there);
  expect_close(fused.run(there)[0], function(there), tolerance);
}

// In statements of its own: the order in which operands are evaluated is the compiler's choice.
Tensor chain(std::span<const Tensor> in) {
  const Tensor left = gelu(in[0] * in[1] + 1);
  const Tensor right = sigmoid(in[0]);
  return left * right;
}

TEST_F(FusedOnGpu, Chain) { expect_same(chain, {sample({1000, 37}), sample({1000, 37})}); }
TEST_F(FusedOnGpu, Broadcasting) {
  expect_same(chain, {sample({64, 40}), sample({40})});
  expect_same(chain, {sample({64, 40}), sample({64, 1})});
  expect_same(chain, {sample({64, 40}), sample({})});
}
TEST_F(FusedOnGpu, Transposed) {
  expect_same([](auto in) { return tanh(in[0].transpose(0, 1) + in[1]) * 2; },
              {sample({65, 33}), sample({33, 65})});
}
TEST_F(FusedOnGpu, HalfTypes) {
  expect_same(chain, {sample({100, 33}, kBFloat16), sample({33}, kBFloat16)}, 1, 2e-2);
  expect_same(chain, {sample({100, 33}, kFloat16), sample({33}, kFloat16)}, 1, 4e-3);
}
TEST_F(FusedOnGpu, MixedDtypesAndAttributes) {
  expect_same(
      [](auto in) {
        const Tensor other = in[1] * 2.5;  // of a smaller shape: a kernel of its own
        const Tensor greater = in[0] > in[1];
        return where(greater, add(in[0], in[1], 3), other);
      },
      {sample({50, 8}, kFloat64), sample({8}, kInt64, -3, 3)}, 2);
}
TEST_F(FusedOnGpu, AroundOtherOps) {
  expect_same([](auto in) { return tanh(matmul(relu(in[0] + 1), in[1]) * 0.1) + in[2]; },
              {sample({32, 16}), sample({16, 24}), sample({24})}, 3, 1e-4);
}

// Compiles without a GPU; skipped only where NVRTC is not installed.
TEST(FusedText, Compiles) {
  const Function function = [](auto in) {
    return where(in[0] > 0, gelu(in[0] * in[1] + 1) * sigmoid(in[0]), tanh(in[1]));
  };
  const std::vector<Tensor> inputs = {sample({4, 8}, kBFloat16), sample({4, 8}, kFloat32)};
  const jit::Graph graph =
      jit::trace([&](auto in) { return std::vector<Tensor>{function(in)}; }, inputs);
  const std::vector<jit::Step> steps = jit::fuse_pointwise(graph);
  ASSERT_EQ(steps.size(), 1u) << jit::to_string(graph);
  using Input = jit::FusedLayout::Input;
  const jit::Program& program = *steps[0].program;
  for (int group : {1, 8}) {
    jit::FusedLayout layout;
    layout.group = group;
    for (int i = 0; i < program.input_count(); ++i)
      layout.inputs.push_back(i == 0 ? Input::vector : i == 1 ? Input::repeat : Input::element);
    if (group == 1) layout.inputs.assign(layout.inputs.size(), Input::element);
    const std::string source = jit::cuda_source(program, layout);
    try {
      EXPECT_GT(jit::cuda_machine_code(source, "sm_90").size(), 1000u);
    } catch (const Error& error) {
      if (std::string_view(error.what()).find("could not be opened") != std::string_view::npos)
        GTEST_SKIP() << error.what();
      FAIL() << error.what() << "\n" << source;
    }
  }
}

TEST_F(FusedOnGpu, Timing) {
  const std::vector<Tensor> inputs = {sample({1 << 24}).cuda(), sample({1 << 24}).cuda()};
  const jit::Fused fused = jit::fuse(chain, inputs);
  const auto milliseconds = [&](const auto& body) {
    body();
    synchronize(kCuda);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 20; ++i) body();
    synchronize(kCuda);
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    return time.count() / 20;
  };
  const double one_by_one = milliseconds([&] { chain(inputs); });
  const double together = milliseconds([&] { fused.run(inputs); });
  std::printf("gelu(x*y+1)*sigmoid(x), 16 Mi float32 on cuda: eager %.3f ms, fused %.3f ms\n",
              one_by_one, together);
  EXPECT_LT(together, one_by_one);
}

}  // namespace
}  // namespace tensora::test
