// Fused CUDA kernels: their text compiles (which needs NVRTC but no GPU), and what they compute is
// what the ops compute one by one.
#include <chrono>

#include "tensora/jit/compile.h"
#include "tensora/jit/cuda_code.h"
#include "tensora/jit/tile_text.h"
#include "tensora/ops/pointwise/all.h"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/reduce/sum.h"
#include "tests/cuda/gpu.h"

namespace tensora::test {
namespace {

using Function = std::function<Tensor(std::span<const Tensor>)>;

class FusedOnGpu : public Gpu {};

void expect_same(const Function& function, const std::vector<Tensor>& inputs, int kernels = 1,
                 double tolerance = 1e-6) {
  std::vector<Tensor> there;
  for (const Tensor& input : inputs) there.push_back(input.cuda());
  const auto fused = compile([&] { return function(there); });
  const std::string explained = fused.explain();
  EXPECT_TRUE(explained.find(concat(" ops in ", kernels, " kernels")) != std::string::npos)
      << explained;
  expect_close(fused(), function(there), tolerance);
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

// gelu(x * y + 1) * sigmoid(x) of a bfloat16 and a float, and in a row program that divided by the
// row's sum.
jit::TileProgram program_of(bool rows) {
  using Step = jit::TileProgram::Step;
  jit::TileProgram program;
  program.kind = rows ? jit::TileProgram::Kind::rows : jit::TileProgram::Kind::walk;
  const auto add = [&]<class F>(const F& functor, std::vector<int> operands) {
    const OpBase& op = pointwise_op<F>();
    return program.add(Step{.kind = Step::Kind::pointwise,
                            .op = &op,
                            .attrs = jit::AttrsCopy(op, &functor),
                            .operands = std::move(operands)});
  };
  const int x = program.add(jit::TileProgram::Input{.dtype = kBFloat16});
  const int y = program.add(jit::TileProgram::Input{});
  const int one = program.add(Step{.kind = Step::Kind::number, .number = 1});
  const int left =
      add(functors::Gelu{}, {add(functors::Add{}, {add(functors::Mul{}, {x, y}), one})});
  int result = add(functors::Mul{}, {left, add(functors::Sigmoid{}, {x})});
  if (rows) {
    const ReduceAttrs attrs{{-1}, true, {}};
    const int total = program.add(Step{.kind = Step::Kind::reduce,
                                       .op = &sum_op,
                                       .attrs = jit::AttrsCopy(sum_op, &attrs),
                                       .operands = {result},
                                       .extent = jit::Extent::row});
    result = add(functors::Div{}, {result, total});
  }
  program.results = {result};
  return program;
}

TEST(FusedText, Compiles) {
  for (const bool rows : {false, true})
    for (const int pack : {1, 4}) {
      const jit::TileProgram program = jit::printable(program_of(rows)).program;
      const std::string text = jit::cuda_text(
          program, {.access = pack == 1 ? "sss" : "vvv", .pack = pack, .group = rows ? 32 : 1});
      try {
        EXPECT_GT(jit::compile_text(text, "sm_90").size(), 1000u);
      } catch (const Error& error) {
        if (std::string_view(error.what()).find("could not be opened") != std::string_view::npos)
          GTEST_SKIP() << error.what();
        FAIL() << error.what() << "\n" << text;
      }
    }
}

TEST_F(FusedOnGpu, Timing) {
  const std::vector<Tensor> inputs = {sample({1 << 24}).cuda(), sample({1 << 24}).cuda()};
  const auto fused = compile([&] { return chain(inputs); });
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
  const double together = milliseconds([&] { fused(); });
  std::printf("gelu(x*y+1)*sigmoid(x), 16 Mi float32 on cuda: eager %.3f ms, fused %.3f ms\n",
              one_by_one, together);
  EXPECT_LT(together, one_by_one);
}

}  // namespace
}  // namespace tensora::test
