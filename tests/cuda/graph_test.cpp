// Recorded graphs: the same results as eager runs, memory of their own, and clear refusals.
#include "tensora/backend/cuda/runtime/graph.h"

#include "tensora/backend/cuda/memory/memory.h"
#include "tensora/backend/cuda/runtime/stream.h"
#include "tests/cuda/gpu.h"

namespace tensora::test {
namespace {

class GraphOnGpu : public Gpu {};

TEST_F(GraphOnGpu, ReplaysWithNewInputs) {
  const Tensor x = zeros({1000}, {.device = kCuda});
  Tensor y;
  cuda::Graph graph;
  EXPECT_FALSE(graph.is_recorded());
  graph.capture([&] { y = tanh(x * 2 + 1).sum(); });
  EXPECT_TRUE(graph.is_recorded());
  EXPECT_GE(graph.node_count(), 4u);
  for (double value : {0.5, -1.0, 3.0}) {
    x.fill_(value);
    graph.replay();
    expect_close(y, tanh(x.cpu() * 2 + 1).sum(), 1e-4);
  }
}

TEST_F(GraphOnGpu, RecordingRunsNothing) {
  const Tensor x = zeros({10}, {.device = kCuda});
  cuda::Graph graph;
  graph.capture([&] { x.add_(1); });
  expect_close(x, zeros({10}), 0);
  graph.replay();
  graph.replay();
  expect_close(x, full({10}, 2.0), 0);
}

TEST_F(GraphOnGpu, MemoryIsItsOwnWhileItLives) {
  const Tensor x = ones({1 << 18}, {.device = kCuda});
  const uint64_t reserved_before = cuda::memory_report().in_graphs;
  {
    Tensor y;
    cuda::Graph graph;
    graph.capture([&] { y = (x + 1) * (x + 2) + (x + 3); });
    EXPECT_GT(cuda::memory_report().in_graphs, reserved_before);
    const void* const held = y.data_ptr();
    y = Tensor();
    // Eager work must not get the memory that a replay writes to.
    std::vector<Tensor> others;
    for (int i = 0; i < 32; ++i) {
      others.push_back(full({1 << 18}, 7.0, {.device = kCuda}));
      EXPECT_NE(others.back().data_ptr(), held);
    }
    graph.replay();
    for (const Tensor& other : others) EXPECT_EQ(other.amax().item<float>(), 7);
    for (const Tensor& other : others) EXPECT_EQ(other.amin().item<float>(), 7);
  }
  EXPECT_EQ(cuda::memory_report().in_graphs, reserved_before);
}

TEST_F(GraphOnGpu, ResultsOutliveTheGraph) {
  const Tensor x = ones({100}, {.device = kCuda});
  Tensor y;
  {
    cuda::Graph graph;
    graph.capture([&] { y = x + 41; });
    graph.replay();
  }
  for (int i = 0; i < 100; ++i) full({100}, 0.0, {.device = kCuda});
  expect_close(y, full({100}, 42.0), 0);
}

TEST_F(GraphOnGpu, WhatCannotBeRecordedIsNamedAndTheProcessGoesOn) {
  const Tensor x = ones({8}, {.device = kCuda});
  const Tensor host = ones({8});
  const cuda::Event event;
  struct Case {
    const char* expected;
    std::function<void()> body;
  };
  const Case cases[] = {
      {"copy to the host", [&] { (x + 1).sum().item(); }},
      {"copy to the host", [&] { (x + 1).cpu(); }},
      {"copy from the host", [&] { x + host.cuda(); }},
      {"synchronize", [&] { synchronize(kCuda); }},
      {"Stream::synchronize", [&] { cuda::Stream::current().synchronize(); }},
      {"Event::synchronize", [&] { event.synchronize(); }},
      {"empty_cache", [&] { empty_cache(kCuda); }},
      {"recording a graph already", [&] { cuda::Graph().capture([] {}); }},
      {"an error of the body", [&] { fail("an error of the body"); }},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(test.expected);
    cuda::Graph graph;
    const std::string message = message_of([&] {
      graph.capture([&] {
        const Tensor y = x * 3;
        test.body();
      });
    });
    EXPECT_NE(message.find(test.expected), std::string::npos) << message;
    EXPECT_FALSE(graph.is_recorded());
    EXPECT_NE(message_of([&] { graph.replay(); }).find("nothing is recorded"), std::string::npos);
    expect_close(x + 1, full({8}, 2.0), 0);
    // The same graph can record again.
    Tensor y;
    graph.capture([&] { y = x + 4; });
    graph.replay();
    expect_close(y, full({8}, 5.0), 0);
  }
}

TEST_F(GraphOnGpu, RandomNumbersAreThoseOfEagerRuns) {
  const auto draw = [](const Tensor& out) {
    out.normal_();
    out.add_(rand({500}, {.device = kCuda}));
  };
  const Tensor eager = zeros({500}, {.device = kCuda}), replayed = zeros({500}, {.device = kCuda});
  cuda::Graph graph;
  manual_seed(5);
  graph.capture([&] { draw(replayed); });
  manual_seed(7);
  std::vector<Tensor> expected;
  for (int i = 0; i < 3; ++i) {
    draw(eager);
    expected.push_back(eager.cpu());
  }
  const Tensor after = rand({4});
  manual_seed(7);
  for (int i = 0; i < 3; ++i) {
    graph.replay();
    expect_close(replayed, expected[static_cast<size_t>(i)], 0);
  }
  expect_close(rand({4}), after, 0);
}

TEST_F(GraphOnGpu, ReplaysOnSeveralStreamsAreOrdered) {
  const Tensor x = zeros({1 << 20}, {.device = kCuda});
  cuda::Graph graph;
  graph.capture([&] { x.add_(1); });
  graph.replay();
  {
    const cuda::StreamGuard guard{cuda::Stream()};
    for (int i = 0; i < 10; ++i) graph.replay();
  }
  graph.replay();
  expect_close(x.narrow(0, 0, 5), full({5}, 12.0), 0);
  EXPECT_EQ(x.amin().item<float>(), 12);
}

TEST_F(GraphOnGpu, BranchesOnASecondStream) {
  const Tensor x = full({1 << 16}, 1.0, {.device = kCuda}), w = ones({1 << 16}, {.device = kCuda});
  w.requires_grad_();
  w.set_grad(zeros({1 << 16}, {.device = kCuda}));
  const cuda::Stream side;
  Tensor y;
  const auto branches = [&](bool joined) {
    w.grad().zero_();
    cuda::Event start, done;
    start.record();
    side.wait(start);
    Tensor a;
    {
      const cuda::StreamGuard guard(side);
      a = tanh(x * w);
      done.record();
    }
    const Tensor b = x * w * 3;
    if (!joined) return;
    cuda::Stream::current().wait(done);
    y = (a + b).sum();
    y.backward();
  };
  cuda::Graph graph;
  EXPECT_NE(message_of([&] { graph.capture([&] { branches(false); }); }).find("second stream"),
            std::string::npos);
  graph.capture([&] { branches(true); });
  for (double value : {0.5, 2.0}) {
    x.fill_(value);
    graph.replay();
    const Tensor host = full({1 << 16}, value, {.dtype = kFloat32}), t = tanh(host);
    expect_close(y, (t + host * 3).sum(), 1e-4);
    expect_close(w.grad(), host * (1 - t * t) + host * 3, 1e-5);
  }
}

// y = w2 tanh(w1 x), trained by Adam.
struct Network {
  Tensor w1, w2, x, target, step;
  std::vector<Tensor> moments;

  Network() {
    w1 = sample({16, 8}).cuda() * 0.3;
    w2 = sample({4, 16}).cuda() * 0.3;
    x = sample({32, 8}).cuda();
    target = sample({32, 4}, kFloat32, -1, 1).cuda();
    step = zeros({}, {.device = kCuda});
    for (const Tensor& w : {w1, w2}) {
      w.detach_();
      w.requires_grad_();
      w.set_grad(zeros_like(w.detach()));
      for (int i = 0; i < 2; ++i) moments.push_back(zeros_like(w.detach()));
    }
  }
  Tensor train() {
    for (const Tensor& w : {w1, w2}) w.grad().zero_();
    const Tensor difference =
        matmul(tanh(matmul(x, w1.transpose(0, 1))), w2.transpose(0, 1)) - target;
    const Tensor loss = (difference * difference).mean();
    loss.backward();
    const no_grad silent;
    step.add_(1);
    adam_(w1.detach(), moments[0], moments[1], w1.grad(), step, {.lr = 0.01});
    adam_(w2.detach(), moments[2], moments[3], w2.grad(), step, {.lr = 0.01});
    return loss.detach();
  }
};

TEST_F(GraphOnGpu, AWholeTrainingStep) {
  Network eager, recorded;
  std::vector<float> expected;
  for (int i = 0; i < 30; ++i) expected.push_back(eager.train().item<float>());
  EXPECT_LT(expected.back(), 0.7f * expected.front());
  EXPECT_NEAR(recorded.train().item<float>(), expected[0], 1e-6);  // warms up
  Tensor loss;
  cuda::Graph graph;
  graph.capture([&] { loss = recorded.train(); });
  for (size_t i = 1; i < expected.size(); ++i) {
    graph.replay();
    EXPECT_NEAR(loss.item<float>(), expected[i], 1e-5 * expected[i]) << i;
  }
  expect_close(recorded.w1, eager.w1, 1e-5);
}

TEST_F(GraphOnGpu, AStepNumberOfTheHostIsRefused) {
  const Tensor w = ones({4}, {.device = kCuda}), m = zeros({4}, {.device = kCuda}),
               v = zeros({4}, {.device = kCuda});
  cuda::Graph graph;
  EXPECT_NE(
      message_of([&] { graph.capture([&] { adam_(w, m, v, w, {.step = 3}); }); }).find("step"),
      std::string::npos);
}

}  // namespace
}  // namespace tensora::test
