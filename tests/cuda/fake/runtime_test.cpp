// Streams, waits, graphs, the checked mode and failures, as far as the host decides them.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <source_location>

#include "tensora/backend/cuda/memory/memory.h"
#include "tensora/backend/cuda/memory/pinned_tensor.h"
#include "tensora/backend/cuda/runtime/checked.h"
#include "tensora/backend/cuda/runtime/graph.h"
#include "tensora/data.h"
#include "tensora/tensora.h"
#include "tests/cuda/fake/fake_runtime.h"

namespace tensora::test {
namespace {

const Device kCuda = Device(DeviceType::cuda);

template <class Body>
std::string message_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

void expect_says(const std::function<void()>& body, std::string_view part,
                 std::source_location where = std::source_location::current()) {
  const std::string said = message_of(body);
  EXPECT_NE(said.find(part), std::string::npos) << "line " << where.line() << ": " << said;
}

class CudaRuntime : public ::testing::Test {
 protected:
  void SetUp() override { backend(DeviceType::cuda); }
  void TearDown() override {
    fake.fault = cudaSuccess;
    cuda::set_checked(false);
  }
};

TEST_F(CudaRuntime, AFaultNamesTheLastOps) {
  const Tensor x = ones({4}, {.device = kCuda});
  const Tensor y = exp(tanh(x));
  fake.fault = cudaErrorIllegalAddress;
  expect_says([&] { synchronize(kCuda); }, "illegal memory access");
  expect_says([&] { synchronize(kCuda); }, "last ops launched: ");
  expect_says([&] { y.cpu(); }, "tanh, exp");
}

TEST_F(CudaRuntime, AFailedLaunchNamesItsOp) {
  const Tensor x = ones({4}, {.device = kCuda});
  fake.next_launch = cudaErrorInvalidConfiguration;
  expect_says([&] { sin(x); }, "the launch of sin failed");
  expect_says([&] { sin(x); }, "nothing was thrown");
}

TEST_F(CudaRuntime, CheckedModeNamesTheOpThatFailed) {
  const Tensor x = ones({4}, {.device = kCuda});
  fake.fault = cudaErrorIllegalAddress;
  expect_says([&] { exp(x); }, "nothing was thrown");
  cuda::set_checked(true);
  expect_says([&] { tanh(x); }, "the op 'tanh' failed");
  fake.fault = cudaSuccess;
  const uint64_t before = fake.waits;
  expect_says([&] { tanh(x); }, "nothing was thrown");
  EXPECT_EQ(fake.waits, before + 1);
}

TEST_F(CudaRuntime, OpsDoNotWait) {
  const Tensor x = ones({100}, {.device = kCuda});
  x.requires_grad_();
  const auto step = [&] { (tanh(x) * x).sum().backward(); };
  step();
  const uint64_t waits = fake.waits, counted = cuda::wait_count(), launches = fake.launches;
  step();
  EXPECT_GT(fake.launches, launches);
  EXPECT_EQ(fake.waits, waits);
  EXPECT_EQ(cuda::wait_count(), counted);
  x.grad().cpu();
  EXPECT_EQ(fake.waits, waits + 1);
  EXPECT_EQ(cuda::wait_count(), counted + 1);
}

TEST_F(CudaRuntime, BackwardRunsOnTheStreamOfForward) {
  const Tensor x = ones({100}, {.device = kCuda});
  x.requires_grad_();
  const cuda::Stream side;
  Tensor y;
  {
    const cuda::StreamGuard guard(side);
    y = tanh(x);
  }
  y.register_hook([&](const Tensor& grad) {
    EXPECT_EQ(cuda::Stream::current(), side);
    const Tensor copy = grad.clone();
    EXPECT_EQ(fake.last_stream, side.handle());
    return copy;
  });
  const uint64_t orders = fake.stream_waits;
  y.backward(ones({100}, {.device = kCuda}));
  EXPECT_EQ(fake.stream_waits, orders + 2);  // there and back
  EXPECT_EQ(cuda::Stream::current().handle(), nullptr);
  // The gradient was made on the side stream: its memory rests there when both are done with it.
  const std::vector<Tensor> found = grad(tanh(x).sum(), {x});
  EXPECT_EQ(fake.stream_waits, orders + 2);
}

TEST_F(CudaRuntime, GraphsKeepTheirMemory) {
  const Tensor x = ones({1000}, {.device = kCuda});
  const uint64_t before = cuda::memory_report().in_graphs;
  {
    cuda::Graph graph;
    Tensor y;
    graph.capture([&] { y = tanh(exp(x)); });
    EXPECT_EQ(graph.node_count(), 2u);
    const void* const held = y.data_ptr();
    y = Tensor();
    for (int i = 0; i < 10; ++i) EXPECT_NE(empty({1000}, {.device = kCuda}).data_ptr(), held);
    EXPECT_EQ(cuda::memory_report().in_graphs, before + (2 << 20));
    const uint64_t launches = fake.launches, replays = fake.graph_launches;
    for (int i = 0; i < 5; ++i) graph.replay();
    EXPECT_EQ(fake.launches, launches);
    EXPECT_EQ(fake.graph_launches, replays + 5);
  }
  EXPECT_EQ(cuda::memory_report().in_graphs, before);
}

TEST_F(CudaRuntime, WhatCannotBeRecordedIsNamed) {
  const Tensor x = ones({8}, {.device = kCuda}), host = ones({8});
  const cuda::Event event;
  cuda::Graph graph;
  const auto record = [&](const std::function<void()>& body) {
    graph.capture([&] {
      const Tensor y = x * 3;
      body();
    });
  };
  expect_says([&] { record([&] { x.sum().item(); }); }, "copy to the host");
  expect_says([&] { record([&] { x.cpu(); }); }, "copy to the host");
  expect_says([&] { record([&] { host.cuda(); }); }, "copy from the host");
  expect_says([&] { record([&] { synchronize(kCuda); }); }, "synchronize");
  expect_says([&] { record([&] { cuda::Stream::current().synchronize(); }); },
              "Stream::synchronize");
  expect_says([&] { record([&] { event.synchronize(); }); }, "Event::synchronize");
  expect_says([&] { record([&] { empty_cache(kCuda); }); }, "empty_cache");
  expect_says([&] { record([&] { cuda::Graph().capture([] {}); }); }, "already");
  expect_says([&] { record([&] { adam_(x, x, x, x, {}); }); }, "give the step as a tensor");
  expect_says([&] { record([&] { fail("a failure of the body"); }); }, "a failure of the body");
  expect_says([&] { graph.replay(); }, "nothing is recorded");
  EXPECT_EQ(cuda::memory_report().in_graphs, 0u);
  expect_says([&] { record([] {}); }, "nothing was thrown");
  expect_says([&] { record([] {}); }, "recorded already");
  EXPECT_EQ(cuda::Stream::current().handle(), nullptr);
  x.cpu();
}

TEST_F(CudaRuntime, RecordingMayAllocateAndUseOtherStreamsMemory) {
  empty_cache(kCuda);
  const cuda::Stream side;
  Tensor shared = ones({100}, {.device = kCuda});
  cuda::record_stream(shared, side);
  fake.busy = true;
  cuda::Graph graph;
  graph.capture([&] {
    const Tensor large = empty({1 << 24}, {.device = kCuda});  // a new segment
    shared = Tensor();                                         // needs an event, later
  });
  EXPECT_TRUE(graph.is_recorded());
  EXPECT_GT(cuda::memory_report().waiting, 0u);
  fake.busy = false;
}

TEST_F(CudaRuntime, RandomOpsAdvanceTheGeneratorAtEachReplay) {
  const Tensor x = empty({1000}, {.device = kCuda});
  manual_seed(1);
  cuda::Graph graph;
  graph.capture([&] { x.normal_(); });
  EXPECT_EQ(default_generator().state().offset, 0u);  // nothing was drawn yet
  graph.replay();
  const uint64_t once = default_generator().state().offset;
  EXPECT_GT(once, 0u);
  graph.replay();
  EXPECT_EQ(default_generator().state().offset, 2 * once);
  x.normal_();
  EXPECT_EQ(default_generator().state().offset, 3 * once);
  Generator other(9);
  cuda::Graph second;
  expect_says(
      [&] {
        second.capture([&] {
          const GeneratorScope scope(other);
          x.normal_();
        });
      },
      "generator");
}

TEST_F(CudaRuntime, ALoaderCopiesItsBatchesWithoutWaiting) {
  using namespace tensora::data;
  const Tensor rows = arange(12).to(kFloat32).reshape({6, 2});
  for (const int workers : {0, 2}) {
    DataLoader loader(TensorDataset(rows),
                      {.batch_size = 2, .num_workers = workers, .device = kCuda});
    loader.next();  // page-locks its first block
    const uint64_t waits = cuda::wait_count();
    const Tensor batch = (*loader.next())[0];
    EXPECT_EQ(batch.device(), kCuda);
    if (workers == 0) {
      EXPECT_EQ(cuda::wait_count(), waits);
    }
    EXPECT_EQ(batch.cpu().sum().item<float>(), 22);
  }
  DataLoader pinning(TensorDataset(rows), {.batch_size = 4, .pin_memory = true});
  EXPECT_TRUE(cuda::is_pinned((*pinning.next())[0]));
}

TEST_F(CudaRuntime, PinnedTensorsAreCopiedWithoutWaiting) {
  const Tensor target = empty({4}, {.device = kCuda});
  const Tensor host = cuda::pin(arange(4).to(kFloat32));
  Tensor back = cuda::pinned_empty({4});
  EXPECT_TRUE(cuda::is_pinned(host));
  EXPECT_FALSE(cuda::is_pinned(ones({4})));
  const uint64_t waits = cuda::wait_count();
  cuda::copy_async(target, host);
  cuda::copy_async(back, target);
  EXPECT_EQ(cuda::wait_count(), waits);
  EXPECT_EQ(back.sum().item<float>(), 6);
  EXPECT_EQ((host + back)[3].item<float>(), 6);
  // The memory of a tensor that dies is not handed out while the copy may still run.
  fake.busy = true;
  const void* const place = back.data_ptr();
  cuda::copy_async(back, target);
  back = Tensor();
  EXPECT_NE(cuda::pinned_empty({4}).data_ptr(), place);
  fake.busy = false;
  bool again = false;
  std::vector<Tensor> held;
  for (int i = 0; i < 8; ++i)
    again |= held.emplace_back(cuda::pinned_empty({4})).data_ptr() == place;
  EXPECT_TRUE(again);
  expect_says([&] { cuda::copy_async(target, ones({4})); }, "pinned");
  expect_says([&] { cuda::copy_async(target, cuda::pinned_empty({5})); }, "of shape");
  expect_says([&] { cuda::pin(target); }, "on the host");
}

TEST_F(CudaRuntime, CopiesBetweenDevicesAreDirectAndOrdered) {
  const Tensor x = arange(5).to(kFloat32).cuda();
  const uint64_t orders = fake.stream_waits, waits = cuda::wait_count();
  const size_t peers = fake.peers_enabled;
  const Tensor y = x.to(Device("cuda:1"));
  EXPECT_EQ(y.device(), Device("cuda:1"));
  EXPECT_EQ(fake.stream_waits, orders + 2);  // the copy waits for the target, the target for it
  EXPECT_EQ(fake.peers_enabled, peers + 1);
  x.to(Device("cuda:1"));
  EXPECT_EQ(fake.peers_enabled, peers + 1);
  EXPECT_EQ(cuda::wait_count(), waits + 1);  // for the second device's first segment
  EXPECT_EQ(y.cpu().sum().item<float>(), 10);
}

TEST_F(CudaRuntime, MistakesAreNamed) {
  expect_says([&] { zeros({2}, {.device = "cuda:7"}); }, "cuda:7");
  expect_says([&] { cuda::Stream(Device("cuda:7")); }, "cuda:7");
  expect_says([&] { cuda::Stream(Device("cpu")); }, "expected a cuda device");
  expect_says([&] { cuda::memory_report(Device("cpu")); }, "expected a CUDA device");
  expect_says([&] { cuda::record_stream(ones({2}), cuda::Stream()); }, "the tensor is on cpu");
  cuda::Event event;
  const cuda::Event taken = std::move(event);
  expect_says([&] { event.record(); }, "cudaEventRecord failed");
  expect_says([&] { event.is_done(); }, "cudaEventQuery failed");
}

TEST_F(CudaRuntime, AStreamMayBeUsedAfterItsObjectIsGone) {
  Tensor x;
  cuda::Stream current = cuda::Stream::current();
  {
    const cuda::StreamGuard guard{cuda::Stream()};
    x = ones({10}, {.device = kCuda});
    current = cuda::Stream::current();
  }
  current.synchronize();
  const cuda::StreamGuard guard(current);
  expect_says([&] { tanh(x).cpu(); }, "nothing was thrown");
}

// The child reports by its exit code, since it must not go through the test program's end.
TEST_F(CudaRuntime, AfterAForkTheChildIsToldAndTheParentGoesOn) {
  Tensor x = ones({10}, {.device = kCuda});
  const pid_t child = fork();
  if (child == 0) {
    const auto says = [](const std::string& message) {
      return message.find("forked") != std::string::npos;
    };
    bool right = says(message_of([&] { x + 1; }));
    right &= says(message_of([&] { x.cpu(); }));
    right &= says(message_of([&] { synchronize(kCuda); }));
    right &= says(message_of([&] { cuda::Stream(); }));
    x = Tensor();
    right &= (ones({2}) + 1).sum().item<float>() == 4;
    _exit(right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  expect_says([&] { (x + 1).cpu(); }, "nothing was thrown");
}

}  // namespace
}  // namespace tensora::test
