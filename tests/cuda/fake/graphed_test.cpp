// cuda::graphed without a GPU: when the step runs, what is copied, and what is refused. Kernels do
// nothing here, so the course of training is tested on GPUs (tests/cuda/graphed_test.cpp).
#include "tensora/backend/cuda/runtime/graphed.h"

#include "tensora/dispatch/autocast.h"
#include "tests/cuda/fake/fake_runtime.h"
#include "tests/cuda/gpu.h"

namespace tensora::test {
namespace {

TEST(GraphedWithoutGpu, RunsRecordsAndReplays) {
  int runs = 0;
  Tensor seen;
  auto step = cuda::graphed(
      [&](const TensorList& in) {
        ++runs;
        seen = in[0];
        return (in[0] * 2).sum();
      },
      {zeros({4})}, {.warmup = 2});
  const auto call = [&](double value) { return step({full({4}, value)}); };
  call(1);
  EXPECT_TRUE(seen.is_cuda());
  const void* const place = seen.data_ptr();
  call(2);
  EXPECT_EQ(runs, 2);
  EXPECT_FALSE(step.is_recorded());
  const uint64_t replays = fake.graph_launches;
  const Tensor first = call(3);
  EXPECT_EQ(runs, 3);
  EXPECT_TRUE(step.is_recorded());
  EXPECT_EQ(fake.graph_launches, replays + 1);
  EXPECT_EQ(seen.cpu().at<float>({3}), 3);  // the inputs are in place before the replay
  const Tensor second = call(4);
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(fake.graph_launches, replays + 2);
  EXPECT_EQ(seen.data_ptr(), place);
  EXPECT_EQ(seen.cpu().at<float>({0}), 4);
  EXPECT_NE(first.data_ptr(), second.data_ptr());  // results can be kept
}

TEST(GraphedWithoutGpu, AFailedStepIsNoWarmup) {
  bool fails = true;
  auto step = cuda::graphed(
      [&](const TensorList& in) {
        check(!fails, "not yet");
        return in[0] * 2;
      },
      {zeros({4})}, {.warmup = 1});
  EXPECT_EQ(message_of([&] { step({zeros({4})}); }), "not yet");
  fails = false;
  step({zeros({4})});
  EXPECT_FALSE(step.is_recorded());
  fails = true;
  EXPECT_EQ(message_of([&] { step({zeros({4})}); }), "not yet");  // while it is recorded
  fails = false;
  step({zeros({4})});
  EXPECT_TRUE(step.is_recorded());
}

TEST(GraphedWithoutGpu, AGraphUsesNoCastsFromOutside) {
  const Tensor w = ones({4}, {.device = kCuda, .requires_grad = true});
  const Tensor x = ones({2, 4}, {.device = kCuda});
  const autocast half;
  const auto run = [&](const TensorList& in) { return prelu(in[0], w); };
  auto step = cuda::graphed(run, {x}, {.warmup = 1});
  step({x});
  step({x});
  const size_t with_cast = step.node_count();
  auto without = cuda::graphed(
      [&](const TensorList& in) {
        const autocast inner;
        return run(in);
      },
      {x}, {.warmup = 1});
  without({x});
  without({x});
  EXPECT_EQ(without.node_count(), with_cast);
}

}  // namespace
}  // namespace tensora::test
