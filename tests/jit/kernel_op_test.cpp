// Kernels as ops: gradients, meta tensors, traces, and what check_kernel_op finds.
#include "tensora/jit/kernel_op.h"

#include "tensora/jit/compile.h"
#include "tensora/jit/cuda_kernel.h"
#include "tests/helpers.h"

namespace tensora::test {
namespace {

using jit::all;
using jit::Array;
using jit::Index;
using jit::Tile;
using ::tensora::testing::error_of;
using Numbers = jit::KernelOpOptions::Numbers;

const auto scaled_softmax = jit::kernel("scaled_softmax", [](Array x, Array y, double scale) {
  const Index row = program(x.size(0));
  const Tile v = load(x(row, all)) * scale;
  const Tile e = exp(v - max(v));
  store(y(row, all), e / sum(e));
});

jit::KernelOpOptions softmax_options() {
  return {.inputs = {"x"},
          .infer =
              [](Infer& infer, Numbers numbers) {
                infer.check(infer[0].dim() == 2, "x must be a matrix, got shape ",
                            infer[0].sizes());
                infer.check(numbers.size() == 1, "expected a scale, got ", numbers.size());
                infer.output(infer[0].sizes(), infer[0].dtype());
              },
          .vjp =
              [](Vjp& vjp, Numbers numbers) {
                const Tensor y = vjp.output(), g = vjp.grad();
                vjp.set(0, y * (g - sum(g * y, {-1}, true)) * numbers[0]);
              },
          .saves = {out(0)},
          .reference =
              [](Args in, Numbers numbers) {
                Tensors result;
                result.push_back(softmax(*in[0] * numbers[0], -1));
                return result;
              },
          .cases = {{{randn({5, 7})}, {0.5}}, {{randn({1, 1})}, {2}}, {{randn({64, 300})}, {1}}}};
}

// Several inputs and outputs by blocks; the gradient is the reference's.
const auto product_and_norms =
    jit::kernel("product_and_norms", [](Array a, Array b, Array c, Array n) {
      const Index i = program(ceil_div(a.size(0), 16)), j = program(ceil_div(b.size(1), 16));
      const Tile total = dot(load(a(block(i, 16), all)), load(b(all, block(j, 16))));
      store(c(block(i, 16), block(j, 16)), total);
      store(n(block(i, 16), j), sum(total * total));
    });

TEST(KernelOp, GradientsMetaTensorsAndTraces) {
  const jit::KernelOp op = as_op(scaled_softmax, softmax_options());
  check_kernel_op(op);
  const Tensor x = randn({6, 9}, {.requires_grad = true}), y = op(x, 0.5);
  EXPECT_TRUE(y.requires_grad());
  y.square().sum().backward();
  const Tensor mine = x.grad().clone();
  x.set_grad({});
  softmax(x * 0.5, -1).square().sum().backward();
  EXPECT_TRUE(allclose(mine, x.grad(), 1e-5, 1e-6));
  // Second order: the rule is written in differentiable ops.
  const Tensor first = grad(op(x, 0.5).square().sum(), {x}, {.create_graph = true})[0];
  const Tensor second = grad(first.square().sum(), {x})[0];
  const Tensor first_reference =
      grad(softmax(x * 0.5, -1).square().sum(), {x}, {.create_graph = true})[0];
  EXPECT_TRUE(allclose(second, grad(first_reference.square().sum(), {x})[0], 1e-4, 1e-5));
  auto compiled = compile([&](const Tensor& t) { return op(t * 2, 0.5) + 1; });
  const Tensor plain = x.detach();
  EXPECT_TRUE(allclose(compiled(plain), softmax(plain, -1) + 1, 1e-5, 1e-6));
  EXPECT_EQ(to_string(op(zeros({3, 4}, {.device = Device("meta")}), 1).sizes()), "[3, 4]");
}

TEST(KernelOp, SeveralOutputsAndTheReferencesGradient) {
  const jit::KernelOp op =
      as_op(product_and_norms,
            {.inputs = {"a", "b"},
             .infer =
                 [](Infer& infer, Numbers) {
                   infer.check(infer[0].size(1) == infer[1].size(0), "shapes do not fit");
                   infer.output({infer[0].size(0), infer[1].size(1)}, infer[0].dtype());
                   infer.output({infer[0].size(0), (infer[1].size(1) + 15) / 16}, infer[0].dtype());
                 },
             .reference =
                 [](Args in, Numbers) {
                   Tensors result;
                   const Tensor c = matmul(*in[0], *in[1]);
                   const int64_t blocks = (c.size(1) + 15) / 16;
                   std::vector<Tensor> norms;
                   for (int64_t j = 0; j < blocks; ++j)
                     norms.push_back(c.narrow(1, j * 16, std::min<int64_t>(16, c.size(1) - j * 16))
                                         .square()
                                         .sum(Dims{1}));
                   result.push_back(c);
                   result.push_back(stack(norms, 1));
                   return result;
                 },
             .cases = {{{randn({20, 12}), randn({12, 40})}}, {{randn({1, 3}), randn({3, 5})}}}});
  check_kernel_op(op);
}

TEST(KernelOp, ChecksFindMistakes) {
  const auto has = [](const std::string& text, std::string_view part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  jit::KernelOpOptions wrong = softmax_options();
  wrong.vjp = [](Vjp& vjp, Numbers) { vjp.set(0, vjp.grad()); };
  has(error_of([&] { check_kernel_op(as_op(scaled_softmax, wrong)); }), "gradient 0 differs");
  wrong = softmax_options();
  wrong.reference = [](Args in, Numbers) {
    Tensors result;
    result.push_back(softmax(*in[0], 0));
    return result;
  };
  has(error_of([&] { check_kernel_op(as_op(scaled_softmax, wrong)); }), "output 0 differs");
  has(error_of([&] { as_op(scaled_softmax, {.inputs = {"x"}}); }), "needs infer");
  has(error_of([&] { as_op(scaled_softmax, {}); }), "names of its inputs");
  const jit::KernelOp op = as_op(scaled_softmax, softmax_options());
  has(error_of([&] { op(randn({3}), 1); }), "scaled_softmax: x must be a matrix, got shape [3]");
  has(error_of([&] { op(randn({3, 4})); }), "expected a scale");
  has(error_of([&] { op(randn({3, 4}), randn({3, 4}), 1); }), "expected 1 input (x), got 2");
}

TEST(RawCuda, ArgumentsAreChecked) {
  const jit::CudaKernel kernel = jit::cuda_kernel("", "saxpy");
  const auto message = [&](auto&&... args) {
    return error_of([&] { kernel({.blocks = {1}, .threads = {32}}, args...); });
  };
  EXPECT_NE(message(zeros({3}), 2.f).find("cuda_kernel saxpy: argument 0 must be on a CUDA device"),
            std::string::npos);
  EXPECT_NE(message(2.f, Tensor()).find("argument 1 is undefined"), std::string::npos);
  EXPECT_NE(message(2.f).find("needs a tensor"), std::string::npos);
}

}  // namespace
}  // namespace tensora::test
