// `grad` computes the gradients that it is asked for, and those on the way to them.
#include <map>
#include <string>

#include "tensora/autograd/engine.h"
#include "tensora/dispatch/interceptor.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

class OpCounter final : public Interceptor {
 public:
  Tensors intercept(const Call& call) override {
    ++counts[std::string(call.op.name)];
    return proceed(call);
  }
  std::map<std::string, int> counts;
};

TEST(AskedFor, OneGradientOfAConvolution) {
  const Tensor x = arange(16.).view({1, 1, 4, 4}).requires_grad_(),
               w = ones({2, 1, 3, 3}, {.dtype = kFloat64}).requires_grad_();
  const Tensor y = conv2d(x.to(kFloat64), w).square().sum();
  const std::vector<Tensor> both = grad(y, {x, w}, {.retain_graph = true});
  OpCounter counter;
  std::vector<Tensor> one;
  {
    const InterceptorScope scope(counter);
    one = grad(y, {w}, {.retain_graph = true});
  }
  EXPECT_EQ(counter.counts["convolution_weight_grad"], 1);
  EXPECT_EQ(counter.counts["convolution_input_grad"], 0);
  EXPECT_TRUE(equal(one[0], both[1]));
  EXPECT_TRUE(equal(grad(y, {x})[0], both[0]));
}

// What is written into a view passes the base's gradient through the op that wrote it.
TEST(AskedFor, ThroughAWriteIntoAView) {
  const Tensor x = arange(6.).view({2, 3}).requires_grad_(),
               z = tensor({5., 6., 7.}).requires_grad_();
  const Tensor base = x * 1;
  base[0].mul_(z);
  const Tensor y = (base * base).sum();
  const std::vector<Tensor> both = grad(y, {x, z}, {.retain_graph = true});
  EXPECT_EQ(values(both[0]), (Values{0, 72, 196, 6, 8, 10}));
  EXPECT_TRUE(equal(grad(y, {x}, {.retain_graph = true})[0], both[0]));
  EXPECT_TRUE(equal(grad(y, {z}, {.retain_graph = true})[0], both[1]));
}

// A backward that runs another one while `grad` is asked for little.
TEST(AskedFor, AnotherBackwardWithinAHook) {
  const Tensor x = leaf({2, 3}), w = leaf({4, 5}), other = leaf({1, 1});
  const Tensor y = x * w;
  y.register_hook([&](const Tensor& gradient) {
    const enable_grad recording;
    (other * other * gradient.detach()).sum().backward();
    return Tensor();
  });
  EXPECT_EQ(values(grad(y.sum(), {x})[0]), (Values{4, 5}));
  EXPECT_EQ(values(other.grad()), (Values{2, 2}));
}

}  // namespace
}  // namespace tensora::testing
