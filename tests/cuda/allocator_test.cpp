// The allocator under kernels that really run late: blocks are never handed out too early.
#include <random>

#include "tensora/backend/cuda/memory/memory.h"
#include "tensora/backend/cuda/memory/pinned_tensor.h"
#include "tensora/backend/cuda/runtime/stream.h"
#include "tests/cuda/gpu.h"

namespace tensora::test {
namespace {

class AllocatorOnGpu : public Gpu {};

TEST_F(AllocatorOnGpu, RandomUseOnSeveralStreamsKeepsEveryValue) {
  std::mt19937_64 random(11);
  std::vector<cuda::Stream> streams = {cuda::Stream::current(), cuda::Stream(), cuda::Stream()};
  struct Held {
    Tensor tensor;
    float value;
    size_t stream;
  };
  std::vector<Held> held;
  std::vector<Tensor> counts;
  for (const cuda::Stream& stream : streams) {
    const cuda::StreamGuard guard(stream);
    counts.push_back(zeros({}, {.device = kCuda}));
  }
  for (int i = 0; i < 3000; ++i) {
    if (held.size() < 40 || random() % 2 == 0) {
      const size_t stream = random() % streams.size();
      const cuda::StreamGuard guard(streams[stream]);
      const auto count = static_cast<int64_t>(1 + (random() >> (random() % 4 == 0 ? 43 : 53)));
      const auto value = static_cast<float>(random() % 1000);
      held.push_back({full({count}, value, {.dtype = kFloat32, .device = kCuda}), value, stream});
    } else {
      const size_t which = random() % held.size();
      Held last = std::move(held[which]);
      held[which] = std::move(held.back());
      held.pop_back();
      // Checked on the device, then freed while the check may still be queued; on another stream
      // than its own every third time.
      const size_t user = random() % 3 == 0 ? random() % streams.size() : last.stream;
      cuda::Event made;
      made.record(streams[last.stream]);
      streams[user].wait(made);
      const cuda::StreamGuard guard(streams[user]);
      counts[user].add_((last.tensor != last.value).sum());
      if (user != last.stream) cuda::record_stream(last.tensor, streams[user]);
    }
  }
  synchronize(kCuda);
  for (const Tensor& count : counts) EXPECT_EQ(count.item<float>(), 0);
}

TEST_F(AllocatorOnGpu, ReportsAddUp) {
  const std::vector<Tensor> held = {empty({1000}, {.device = kCuda}),
                                    empty({5 << 20}, {.device = kCuda})};
  const cuda::MemoryReport report = cuda::memory_report();
  uint64_t live = 0, free_bytes = 0, listed = 0;
  for (const cuda::SizeClass& entry : report.histogram) {
    live += entry.live_bytes;
    free_bytes += entry.free_bytes;
  }
  EXPECT_EQ(live, report.totals.allocated);
  EXPECT_EQ(live + free_bytes + report.waiting, report.totals.reserved);
  for (const cuda::BlockInfo& block : cuda::memory_snapshot()) listed += block.bytes;
  EXPECT_EQ(listed, report.totals.reserved);
  EXPECT_GE(report.fragmentation, 0);
  EXPECT_LE(report.fragmentation, 1);
}

TEST_F(AllocatorOnGpu, PinnedTensorsTravelWithoutWaiting) {
  const int64_t count = 1 << 22;
  const Tensor host = cuda::pin(sample({count}));
  const Tensor back = cuda::pinned_empty({count});
  const Tensor device = empty({count}, {.device = kCuda});
  synchronize(kCuda);
  const uint64_t waits = cuda::wait_count();
  cuda::copy_async(device, host);
  device.mul_(2);
  cuda::copy_async(back, device);
  EXPECT_EQ(cuda::wait_count(), waits);
  cuda::Event done;
  done.record();
  done.synchronize();
  expect_close(back, host * 2, 0);
}

}  // namespace
}  // namespace tensora::test
