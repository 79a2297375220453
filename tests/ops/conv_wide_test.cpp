// Images so wide that a row of Winograd's tiles is deeper than a block of the matrix product.
#include <gtest/gtest.h>

#include "tensora/tensora.h"

namespace tensora {
namespace {

Tensor gradients(const Tensor& x, const Tensor& weight) {
  const Tensor input = x.clone().requires_grad_(), kernel = weight.clone().requires_grad_();
  const Tensor y = conv2d(input, kernel, {}, 1, 1);
  const std::vector<Tensor> grads = grad(y.square().sum(), {input, kernel});
  return cat({y.detach().flatten(), grads[0].flatten(), grads[1].flatten()});
}

TEST(ConvWide, AgreesWithFloat64) {
  manual_seed(5);
  for (int64_t width : {526, 530, 750, 754, 1700}) {
    const Tensor x = randn({1, 208, 2, width}), weight = randn({160, 208, 3, 3}) * 0.05;
    const Tensor exact = gradients(x.to(kFloat64), weight.to(kFloat64));
    const Tensor off = (gradients(x, weight).to(kFloat64) - exact).abs().max();
    EXPECT_LT(off.item<double>(), 1e-5 * exact.abs().max().item<double>()) << width;
  }
}

}  // namespace
}  // namespace tensora
