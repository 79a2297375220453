// Convolutions through cuDNN against those of the CPU, and what the plans' cache does. The shapes
// are those of real layers: the op suite covers the small and odd ones.
#include "tensora/ops/conv/conv.h"
#include "tensora/backend/cuda/cudnn/convolution.h"
#include "tensora/backend/cuda/runtime/graph.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops/conv/convolution.h"
#include "tests/cuda/gpu.h"

namespace tensora::test {
namespace {

class ConvOnGpu : public Gpu {
 protected:
  static Tensor channels_last(const Tensor& x) {
    return permute(contiguous(permute(x, {0, 2, 3, 1})), {0, 3, 1, 2});
  }
  static double tolerance(DType dtype) { return dtype == kFloat32 ? 1e-3 : 5e-2; }
};

TEST_F(ConvOnGpu, ForwardAndGradients) {
  for (DType dtype : {kFloat32, kBFloat16, kFloat16}) {
    SCOPED_TRACE(name(dtype));
    const Tensor x = sample({4, 64, 28, 28}, dtype, -1, 1),
                 w = sample({96, 64, 3, 3}, dtype, -1, 1);
    const Tensor bias = sample({96}, dtype, -1, 1);
    const ConvolutionAttrs attrs{.stride = 2, .padding = 1};
    const auto wide = [](const Tensor& t) { return t.to(kFloat32); };
    const Tensor y = apply(convolution_op, {wide(x), wide(w), wide(bias)}, attrs);
    const Tensor grad = sample(y.sizes(), dtype, -1, 1);
    const Tensor dx = apply(convolution_input_grad_op, {wide(grad), wide(w)}, {attrs, x.sizes()});
    const Tensor dw = apply(convolution_weight_grad_op, {wide(grad), wide(x)}, {attrs, w.sizes()});
    for (bool last : {false, true}) {
      SCOPED_TRACE(last ? "channels-last" : "contiguous");
      const auto put = [&](const Tensor& t) { return last ? channels_last(t.cuda()) : t.cuda(); };
      const Tensor cx = put(x), cw = put(w), cgrad = put(grad);
      const Tensor cy = apply(convolution_op, {cx, cw, bias.cuda()}, attrs);
      EXPECT_EQ(cy.stride(1) == 1, last);
      expect_close(wide(cy), y, 10 * tolerance(dtype));
      const Tensor cdx = apply(convolution_input_grad_op, {cgrad, cw}, {attrs, x.sizes()});
      EXPECT_EQ(cdx.stride(1) == 1, last);
      expect_close(wide(cdx), dx, 10 * tolerance(dtype));
      const Tensor cdw = apply(convolution_weight_grad_op, {cgrad, cx}, {attrs, w.sizes()});
      expect_close(wide(cdw), dw, 20 * tolerance(dtype));
    }
  }
}

TEST_F(ConvOnGpu, PlansAreReused) {
  const Tensor x = randn({2, 8, 9, 9}, {.device = kCuda}),
               w = randn({8, 8, 3, 3}, {.device = kCuda});
  conv2d(x, w);
  const auto before = cuda::cudnn::convolution_plan_counts();
  for (int i = 0; i < 5; ++i) conv2d(x, w);
  const auto after = cuda::cudnn::convolution_plan_counts();
  EXPECT_EQ(after.made, before.made);
  EXPECT_EQ(after.reused, before.reused + 5);
}

TEST_F(ConvOnGpu, TimedPlansGiveTheSameResult) {
  const Tensor x = sample({2, 32, 17, 17}, kFloat32, -1, 1),
               w = sample({48, 32, 3, 3}, kFloat32, -1, 1);
  const auto before = cuda::cudnn::convolution_plan_counts();
  cuda::cudnn::set_convolution_tuning(true);
  const Tensor y = conv2d(x.cuda(), w.cuda());
  cuda::cudnn::set_convolution_tuning(false);
  EXPECT_EQ(cuda::cudnn::convolution_plan_counts().made, before.made + 1);
  expect_close(y, conv2d(x, w), 1e-3);
}

TEST_F(ConvOnGpu, IsCapturedInAGraph) {
  const Tensor x = randn({2, 16, 12, 12}, {.device = kCuda}),
               w = randn({16, 16, 3, 3}, {.device = kCuda});
  Tensor y = conv2d(x, w, {}, 1, "same");
  const Tensor expected = y.cpu();
  cuda::Graph graph;
  graph.capture([&] { y = conv2d(x, w, {}, 1, "same"); });
  graph.replay();
  expect_close(y, expected, 1e-5);
}

}  // namespace
}  // namespace tensora::test
