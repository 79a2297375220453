// Memory, streams, events and the errors of the CUDA backend.
#include <thread>

#include "tensora/backend/cuda/runtime/stream.h"
#include "tests/cuda/gpu.h"

namespace tensora::test {
namespace {

class RuntimeOnGpu : public Gpu {};

TEST_F(RuntimeOnGpu, BlocksAreReused) {
  empty_cache(kCuda);
  const void* first = nullptr;
  {
    const Tensor x = empty({1 << 20}, {.device = kCuda});
    first = x.data_ptr();
  }
  const MemoryStats before = memory_stats(kCuda);
  const Tensor again = empty({1 << 20}, {.device = kCuda});
  EXPECT_EQ(again.data_ptr(), first);
  EXPECT_EQ(memory_stats(kCuda).reserved, before.reserved);
  EXPECT_EQ(memory_stats(kCuda).cache_hits, before.cache_hits + 1);
}

TEST_F(RuntimeOnGpu, BlocksSplitAndMerge) {
  empty_cache(kCuda);
  const uint64_t base = memory_stats(kCuda).reserved;
  {
    std::vector<Tensor> parts;
    for (int i = 0; i < 8; ++i) parts.push_back(empty({1 << 19}, {.device = kCuda}));  // 2 MiB each
    EXPECT_LE(memory_stats(kCuda).reserved - base, uint64_t{20} << 20);
    parts.erase(parts.begin() + 2, parts.begin() + 5);
    const Tensor middle = empty({3 << 19}, {.device = kCuda});  // the joined gap
    EXPECT_LE(memory_stats(kCuda).reserved - base, uint64_t{20} << 20);
  }
  empty_cache(kCuda);
  EXPECT_EQ(memory_stats(kCuda).reserved, base);
}

TEST_F(RuntimeOnGpu, StatisticsCount) {
  const uint64_t before = memory_stats(kCuda).allocated;
  const Tensor x = empty({1000}, {.device = kCuda});
  EXPECT_EQ(memory_stats(kCuda).allocated, before + 4096);
  EXPECT_GE(memory_stats(kCuda).peak_allocated, before + 4096);
}

TEST_F(RuntimeOnGpu, OutOfMemoryIsRecoverable) {
  const std::string message =
      message_of([] { empty({int64_t{1} << 42}, {.dtype = kUInt8, .device = kCuda}); });
  EXPECT_NE(message.find("out of memory"), std::string::npos) << message;
  EXPECT_NE(message.find("allocated"), std::string::npos) << message;
  EXPECT_THROW(empty({int64_t{1} << 60}, {.dtype = kUInt8, .device = kCuda}), OutOfMemoryError);
  expect_close(ones({3}, {.device = kCuda}) + 1, full({3}, 2.0), 0);
}

TEST_F(RuntimeOnGpu, LimitIsKept) {
  empty_cache(kCuda);
  const uint64_t reserved = memory_stats(kCuda).reserved;
  set_memory_limit(kCuda, reserved + (uint64_t{64} << 20));
  EXPECT_THROW(empty({128 << 20}, {.dtype = kUInt8, .device = kCuda}), OutOfMemoryError);
  const Tensor fits = empty({32 << 20}, {.dtype = kUInt8, .device = kCuda});
  set_memory_limit(kCuda, 0);
  EXPECT_NO_THROW(empty({128 << 20}, {.dtype = kUInt8, .device = kCuda}));
}

TEST_F(RuntimeOnGpu, StreamsRunApartAndAreOrderedByEvents) {
  const Tensor x = ones({1 << 22}, {.device = kCuda});
  cuda::Event ready;
  ready.record();
  const cuda::Stream side;
  side.wait(ready);
  Tensor y;
  cuda::Event done;
  {
    const cuda::StreamGuard guard(side);
    y = x;
    for (int i = 0; i < 50; ++i) y = y + 1;
    done.record();
  }
  EXPECT_EQ(cuda::Stream::current().handle(), nullptr);
  cuda::Stream::current().wait(done);
  EXPECT_EQ((y + 1)[17].item<float>(), 52);
  done.synchronize();
  EXPECT_TRUE(done.is_done());
  EXPECT_TRUE(side.is_idle());
}

TEST_F(RuntimeOnGpu, MemoryOfAStreamStaysWithIt) {
  const cuda::Stream side;
  const void* address = nullptr;
  {
    const cuda::StreamGuard guard(side);
    address = empty({12345}, {.device = kCuda}).data_ptr();
  }
  EXPECT_NE(empty({12345}, {.device = kCuda}).data_ptr(), address);
  const cuda::StreamGuard guard(side);
  EXPECT_EQ(empty({12345}, {.device = kCuda}).data_ptr(), address);
}

TEST_F(RuntimeOnGpu, EventsMeasureTime) {
  cuda::Event start(kCuda, cuda::Event::Timing::on), end(kCuda, cuda::Event::Timing::on);
  const Tensor x = ones({1 << 24}, {.device = kCuda});
  start.record();
  for (int i = 0; i < 10; ++i) x.add_(1);
  end.record();
  end.synchronize();
  EXPECT_GT(end.milliseconds_since(start), 0);
  EXPECT_LT(end.milliseconds_since(start), 1000);
}

TEST_F(RuntimeOnGpu, ThreadsHaveTheirOwnCurrentStream) {
  const cuda::Stream side;
  const cuda::StreamGuard guard(side);
  void* seen = &seen;
  std::thread([&] { seen = cuda::Stream::current().handle(); }).join();
  EXPECT_EQ(seen, nullptr);
}

TEST_F(RuntimeOnGpu, ManyThreads) {
  std::vector<std::thread> threads;
  std::vector<float> results(8);
  for (size_t t = 0; t < results.size(); ++t)
    threads.emplace_back([&, t] {
      const cuda::Stream stream;
      const cuda::StreamGuard guard(stream);
      Tensor x = full({1000 + static_cast<int64_t>(t)}, 1.0, {.device = kCuda});
      for (int i = 0; i < 100; ++i) x = x + 1;
      results[t] = x.sum().item<float>() / static_cast<float>(x.numel());
    });
  for (std::thread& thread : threads) thread.join();
  for (float result : results) EXPECT_EQ(result, 101);
}

TEST_F(RuntimeOnGpu, MistakesAreNamed) {
  EXPECT_NE(message_of([] { zeros({2}, {.device = "cuda:99"}); }).find("cuda:99"),
            std::string::npos);
  const Tensor host = ones({2, 2}), device = host.cuda();
  EXPECT_NE(message_of([&] { host + device; }).find("one device"), std::string::npos);
  EXPECT_NE(message_of([&] { matmul(device, host); }).find("one device"), std::string::npos);
  EXPECT_NE(message_of([&] { device[5]; }).find("out of bounds"), std::string::npos);
}

TEST_F(RuntimeOnGpu, WrongIndicesAreReportedAndTheDeviceGoesOn) {
  const Tensor x = sample({4, 3}).cuda();
  const Tensor wrong = full({2}, 7, {.dtype = kInt64, .device = kCuda});
  const std::string message = message_of([&] {
    const Tensor picked = index_select(x, 0, wrong);
    synchronize(kCuda);
  });
  EXPECT_NE(message.find("index 7 is out of bounds for dimension 0 with size 4"), std::string::npos)
      << message;
  EXPECT_NO_THROW(synchronize(kCuda));
  expect_close(x + 1, x.cpu() + 1, 0);
}

}  // namespace
}  // namespace tensora::test
