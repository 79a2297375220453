// Gradients, and gradients of gradients, on CUDA equal those of the CPU.
#include <cmath>

#include "tensora/backend/cuda/runtime/stream.h"
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

// ---- streams, waits and memory -----------------------------------------------------------------

// Long enough on the device that a missing order would show.
Tensor slow_sum(const Tensor& x) {
  Tensor y = x;
  for (int i = 0; i < 30; ++i) y = y * 1.01 + 0.001;
  return y.sum();
}

TEST_F(AutogradOnGpu, BackwardRunsOnTheStreamsOfForward) {
  const Tensor x = ones({1 << 22}, {.device = kCuda});
  x.requires_grad_();
  const cuda::Stream first, second;
  cuda::Event ready, done_first, done_second;
  ready.record();
  Tensor a, b;
  std::vector<void*> seen;
  const auto note = [&](const Tensor& tensor) {
    tensor.register_hook([&](const Tensor&) {
      seen.push_back(cuda::Stream::current().handle());
      return Tensor();
    });
  };
  {
    const cuda::StreamGuard guard(first);
    first.wait(ready);
    a = x * 2;
    note(a);
    a = slow_sum(a);
    done_first.record();
  }
  {
    const cuda::StreamGuard guard(second);
    second.wait(ready);
    b = x * 3;
    note(b);
    b = slow_sum(b);
    done_second.record();
  }
  cuda::Stream::current().wait(done_first);
  cuda::Stream::current().wait(done_second);
  (a + b).backward();
  EXPECT_EQ(cuda::Stream::current().handle(), nullptr);
  const double factor = 5 * std::pow(1.01, 30);
  // Read on the caller's stream, without a wait before.
  expect_close(x.grad().amin(), full({}, factor, {.dtype = kFloat32}), 1e-4);
  expect_close(x.grad().amax(), full({}, factor, {.dtype = kFloat32}), 1e-4);
  ASSERT_EQ(seen.size(), 2u);
  std::sort(seen.begin(), seen.end());
  std::vector<void*> expected = {first.handle(), second.handle()};
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(seen, expected);
}

TEST_F(AutogradOnGpu, StreamsAgainAndAgainGiveTheSameGradients) {
  const Tensor w = sample({256, 256}).cuda();
  w.requires_grad_();
  Tensor expected;
  for (int round = 0; round < 20; ++round) {
    w.set_grad({});
    cuda::Event ready;
    ready.record();
    std::vector<Tensor> parts;
    for (int branch = 0; branch < 4; ++branch) {
      const cuda::Stream stream;
      stream.wait(ready);
      cuda::Event done;
      {
        const cuda::StreamGuard guard(stream);
        parts.push_back(tanh(matmul(w * (branch + 1), w)).sum());
        done.record();
      }
      cuda::Stream::current().wait(done);
    }
    (parts[0] + parts[1] + parts[2] + parts[3]).backward();
    if (round == 0)
      expected = w.grad().cpu();
    else
      expect_close(w.grad(), expected, 1e-4);
  }
}

struct Layers {
  std::vector<Tensor> weights, averages, squares;
  int64_t step = 0;

  Layers() {
    for (int i = 0; i < 4; ++i) {
      weights.push_back(sample({64, 64}).cuda() * 0.1);
      weights.back().detach_();
      weights.back().requires_grad_();
      averages.push_back(zeros({64, 64}, {.device = kCuda}));
      squares.push_back(zeros({64, 64}, {.device = kCuda}));
    }
  }
  void train(const Tensor& x, const Tensor& target) {
    Tensor y = x;
    for (const Tensor& w : weights) y = relu(linear(y, w)) + y;
    const Tensor difference = y - target;
    (difference * difference).mean().backward();
    ++step;
    for (size_t i = 0; i < weights.size(); ++i) {
      adam_(weights[i].detach(), averages[i], squares[i], weights[i].grad(), {.step = step});
      weights[i].grad().zero_();
    }
  }
};

TEST_F(AutogradOnGpu, ATrainingStepNeverWaits) {
  Layers layers;
  const Tensor host_x = sample({32, 64}), host_y = sample({32, 64});
  const auto step = [&] { layers.train(host_x.cuda(), host_y.cuda()); };
  for (int i = 0; i < 3; ++i) step();  // fills the caches
  layers.weights[0].sum().item();      // the first one waits for its memory, too
  synchronize(kCuda);
  const uint64_t before = cuda::wait_count();
  for (int i = 0; i < 10; ++i) step();
  EXPECT_EQ(cuda::wait_count(), before);
  // The counter does count.
  layers.weights[0].sum().item();
  EXPECT_EQ(cuda::wait_count(), before + 1);
}

TEST_F(AutogradOnGpu, GradientsAccumulateInPlace) {
  const Tensor w = sample({100, 50}).cuda(), x = sample({20, 50}).cuda();
  w.requires_grad_();
  linear(x, w).sum().backward();
  const void* const place = w.grad().data_ptr();
  const Tensor once = w.grad().cpu();
  const uint64_t allocated = memory_stats(kCuda).allocated;
  linear(x, w).sum().backward();
  EXPECT_EQ(w.grad().data_ptr(), place);
  EXPECT_EQ(memory_stats(kCuda).allocated, allocated);
  expect_close(w.grad(), once * 2, 1e-6);
}

}  // namespace
}  // namespace tensora::test
