// Gradients, and gradients of gradients, on CUDA equal those of the CPU.
#include "tests/cuda/gpu.h"

namespace tensora::test {
namespace {

class AutogradOnGpu : public Gpu {};

using Network = std::function<Tensor(const Tensor& x, const Tensor& w)>;

// Runs the function, its gradient, and the gradient of the gradient's squares.
std::vector<Tensor> two_orders(const Network& network, const Tensor& x0, const Tensor& w0,
                               Device device) {
  const Tensor x = x0.to(device).detach(), w = w0.to(device).detach();
  x.requires_grad_();
  w.requires_grad_();
  const Tensor y = network(x, w);
  const std::vector<Tensor> first = grad(y.sum(), {x, w}, {.create_graph = true});
  const Tensor penalty = (first[0] * first[0]).sum() + (first[1] * first[1]).sum();
  const std::vector<Tensor> second = grad(penalty, {x, w}, {.allow_unused = true});
  std::vector<Tensor> all = {y, first[0], first[1]};
  for (const Tensor& tensor : second)
    if (tensor.defined()) all.push_back(tensor);
  return all;
}

void expect_same(const Network& network, const Tensor& x, const Tensor& w) {
  const auto host = two_orders(network, x, w, Device());
  const auto device = two_orders(network, x, w, kCuda);
  ASSERT_EQ(host.size(), device.size());
  for (size_t i = 0; i < host.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_TRUE(device[i].is_cuda());
    expect_close(device[i], host[i], 1e-9);
  }
}

TEST_F(AutogradOnGpu, Pointwise) {
  expect_same([](auto& x, auto& w) { return tanh(x * w) + exp(x) * w / (x * x + 2); },
              sample({6, 5}, kFloat64), sample({5}, kFloat64));
}
TEST_F(AutogradOnGpu, MaxWithIndices) {
  expect_same([](auto& x, auto& w) { return std::get<0>(max(x * w, 1)) * w.sum(); },
              sample({6, 5}, kFloat64), sample({5}, kFloat64));
}
TEST_F(AutogradOnGpu, Views) {
  expect_same(
      [](auto& x, auto& w) {
        return x.transpose(0, 1).narrow(0, 1, 3) * x.narrow(1, 0, 3).transpose(0, 1) * w.sum();
      },
      sample({6, 5}, kFloat64), sample({2}, kFloat64));
}
TEST_F(AutogradOnGpu, Matmul) {
  expect_same([](auto& x, auto& w) { return tanh(matmul(x, w)); }, sample({2, 6, 5}, kFloat64),
              sample({5, 4}, kFloat64));
}
TEST_F(AutogradOnGpu, InPlaceOnViews) {
  expect_same(
      [](auto& x, auto& w) {
        const Tensor y = x * 2;
        y.narrow(1, 1, 2).mul_(w.narrow(0, 0, 2));
        return y * y;
      },
      sample({6, 5}, kFloat64), sample({5}, kFloat64));
}
TEST_F(AutogradOnGpu, Linear) {
  expect_same([](auto& x, auto& w) { return relu(linear(x, w, w.sum({1}))); },
              sample({7, 5}, kFloat64), sample({4, 5}, kFloat64));
}

TEST_F(AutogradOnGpu, AccumulatesAndBackwardTwiceThrows) {
  const Tensor x = sample({4}).cuda();
  x.requires_grad_();
  for (int i = 0; i < 3; ++i) (x * x).sum().backward();
  expect_close(x.grad(), x.detach() * 6, 1e-6);
  const Tensor y = (x * x).sum();
  y.backward();
  EXPECT_THROW(y.backward(), Error);
}

}  // namespace
}  // namespace tensora::test
