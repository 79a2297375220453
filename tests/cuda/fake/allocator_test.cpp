// The caching allocator on a device of 1 GiB.
#include "tensora/backend/cuda/memory/allocator.h"

#include <gtest/gtest.h>

#include <random>

#include "tensora/backend/cuda/memory/red_zones.h"
#include "tensora/backend/cuda/runtime/fork.h"
#include "tensora/base/check.h"
#include "tensora/tensora.h"
#include "tests/cuda/fake/fake_runtime.h"

namespace tensora::test {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

class CudaAllocator : public ::testing::Test {
 protected:
  void SetUp() override {
    backend(DeviceType::cuda);
    fake.busy = false;
    memory.set_limit(0);
    memory.empty_cache();
    ASSERT_EQ(memory.stats().allocated, 0u);
    ASSERT_EQ(fake.used[0], 0u);
  }
  void* take(size_t bytes) { return memory.allocate(bytes); }
  void give(void* block) { memory.free(block, 0); }

  cuda::CachingAllocator& memory = cuda::caching_allocator(0);
};

TEST_F(CudaAllocator, ASmallBlockComesBackAtOnce) {
  void* const first = take(1000);
  give(first);
  const uint64_t hits = memory.stats().cache_hits;
  EXPECT_EQ(take(700), first);  // the same multiple of 512
  EXPECT_EQ(memory.stats().cache_hits, hits + 1);
  give(first);
}

TEST_F(CudaAllocator, BlocksInBinsAreJoinedBeforeTheDeviceIsAsked) {
  std::vector<void*> blocks;
  for (int i = 0; i < 2048; ++i) blocks.push_back(take(1024));  // a whole small segment
  const size_t mallocs = fake.mallocs;
  for (void* block : blocks) give(block);
  void* const joined = take(kMiB);
  void* const rest = take(kMiB);
  EXPECT_EQ(fake.mallocs, mallocs);
  give(joined);
  give(rest);
  memory.empty_cache();
  EXPECT_EQ(fake.used[0], 0u);
}

TEST_F(CudaAllocator, LargeBlocksSplitAndMerge) {
  std::vector<void*> parts;
  for (int i = 0; i < 8; ++i) parts.push_back(take(2 * kMiB));
  EXPECT_EQ(memory.stats().reserved, 20 * kMiB);
  for (size_t i : {2, 4, 3}) give(parts[i]);
  void* const middle = take(6 * kMiB);
  EXPECT_EQ(middle, parts[2]);
  EXPECT_EQ(memory.stats().reserved, 20 * kMiB);
  for (size_t i : {0, 1, 5, 6, 7}) give(parts[i]);
  give(middle);
  memory.empty_cache();
  EXPECT_EQ(fake.used[0], 0u);
}

TEST_F(CudaAllocator, CountsBySize) {
  void* const small = take(600);
  void* const large = take(3 * kMiB);
  const cuda::MemoryReport report = memory.report();
  EXPECT_EQ(report.totals.allocated, 1024 + 3 * kMiB);
  EXPECT_EQ(report.requested, 600 + 3 * kMiB);
  EXPECT_EQ(report.segments, 2u);
  const auto of = [&](uint64_t bytes) {
    for (const cuda::SizeClass& entry : report.histogram)
      if (entry.bytes == bytes) return entry;
    return cuda::SizeClass();
  };
  EXPECT_EQ(of(1024).live_blocks, 1u);
  EXPECT_EQ(of(4 * kMiB).live_blocks, 1u);
  EXPECT_EQ(of(4 * kMiB).live_bytes, 3 * kMiB);
  EXPECT_EQ(of(2 * kMiB).free_bytes, 2 * kMiB - 1024);
  EXPECT_EQ(of(32 * kMiB).free_bytes, 17 * kMiB);
  EXPECT_NEAR(report.fragmentation, 1 - 17.0 / (19 - 1.0 / 1024), 1e-9);
  give(small);
  give(large);
}

TEST_F(CudaAllocator, SnapshotsCoverEverySegmentWithoutGaps) {
  std::vector<void*> blocks;
  for (size_t bytes : {100, 5000, 3 << 20, 700, 12 << 20}) blocks.push_back(take(bytes));
  give(blocks[1]);
  uint64_t total = 0;
  const char* end = nullptr;
  const void* segment = nullptr;
  for (const cuda::BlockInfo& block : memory.snapshot()) {
    if (block.segment == segment) {
      EXPECT_EQ(block.address, end);
    } else {
      EXPECT_EQ(block.address, block.segment);
    }
    segment = block.segment;
    end = static_cast<const char*>(block.address) + block.bytes;
    total += block.bytes;
    EXPECT_EQ(block.is_free, block.requested == 0);
  }
  EXPECT_EQ(total, memory.stats().reserved);
  for (size_t i : {0, 2, 3, 4}) give(blocks[i]);
}

TEST_F(CudaAllocator, ABlockThatAnotherStreamUsesRests) {
  const cuda::Stream side;
  void* const block = take(5 * kMiB);
  memory.record_stream(block, static_cast<cudaStream_t>(side.handle()));
  fake.busy = true;
  give(block);
  EXPECT_EQ(memory.report().waiting, 5 * kMiB);
  void* const other = take(5 * kMiB);
  EXPECT_NE(other, block);
  fake.busy = false;
  void* const again = take(15 * kMiB);  // only a miss looks for events
  EXPECT_EQ(memory.report().waiting, 0u);
  void* const third = take(5 * kMiB);
  EXPECT_EQ(third, block);
  for (void* live : {other, again, third}) give(live);
}

TEST_F(CudaAllocator, MemoryOfAStreamStaysWithIt) {
  const cuda::Stream side;
  void* block = nullptr;
  {
    const cuda::StreamGuard guard(side);
    block = take(2000);
    give(block);
  }
  void* const other = take(2000);
  EXPECT_NE(other, block);
  give(other);
  const cuda::StreamGuard guard(side);
  EXPECT_EQ(take(2000), block);
  give(block);
}

TEST_F(CudaAllocator, CachedSegmentsGoBeforeTheRequestFails) {
  void* const old = take(300 * kMiB);
  give(old);
  void* const recent = take(400 * kMiB);
  give(recent);
  const uint64_t collections = memory.report().collections;
  // 700 of 1024 MiB are cached; what was unused longest goes first, and suffices.
  void* const wanted = take(500 * kMiB);
  EXPECT_EQ(memory.report().collections, collections + 1);
  EXPECT_EQ(memory.stats().reserved, 900 * kMiB);
  // This needs both, and the one that a stream may still use.
  give(wanted);
  void* const all = take(1000 * kMiB);
  EXPECT_EQ(memory.stats().reserved, 1000 * kMiB);
  give(all);
}

TEST_F(CudaAllocator, OutOfMemoryTellsAndIsRecoverable) {
  void* const live = take(700 * kMiB);
  void* const small = take(1000);
  try {
    take(500 * kMiB);
    FAIL() << "nothing was thrown";
  } catch (const OutOfMemoryError& error) {
    const std::string text = error.what();
    for (const char* part : {"cuda:0: out of memory: 500.0 MiB", "the device's memory is full",
                             "allocated 700.0 MiB", "reserved 702.0 MiB", "limit none",
                             "largest cached free block 1.9 MiB", "322.0 MiB free of 1024.0 MiB",
                             "Largest live tensors: 700.0 MiB, 0.0 MiB", "smaller batch"})
      EXPECT_NE(text.find(part), std::string::npos) << part << " is missing from: " << text;
  }
  give(live);
  void* const fits = take(500 * kMiB);
  give(fits);
  give(small);
}

TEST_F(CudaAllocator, TheLimitIsKept) {
  memory.set_limit(64 * kMiB);
  EXPECT_THROW(take(100 * kMiB), OutOfMemoryError);
  void* const block = take(40 * kMiB);
  give(block);
  void* const other = take(60 * kMiB);  // the cached 40 go
  EXPECT_LE(memory.stats().reserved, 64 * kMiB);
  give(other);
  memory.set_limit(0);
  give(take(100 * kMiB));
}

TEST_F(CudaAllocator, SizesBeyondAnyDeviceAreRefused) {
  EXPECT_THROW(take(SIZE_MAX), OutOfMemoryError);
  EXPECT_THROW(take(size_t{1} << 50), OutOfMemoryError);
  EXPECT_EQ(take(0), nullptr);
}

TEST_F(CudaAllocator, RandomUseNeverOverlapsAndGivesAllBack) {
  std::mt19937_64 random(3);
  struct Live {
    char* address;
    size_t bytes;
    unsigned char mark;
  };
  std::vector<Live> live;
  size_t used = 0;
  for (int i = 0; i < 20000; ++i) {
    if (live.empty() || (random() % 2 == 0 && used < 200 * kMiB)) {
      const size_t bytes = 1 + (random() >> (random() % 3 == 0 ? 42 : 52));  // to 4 MiB or 4 KiB
      const auto mark = static_cast<unsigned char>(random());
      auto* const address = static_cast<char*>(take(bytes));
      ASSERT_EQ(reinterpret_cast<uintptr_t>(address) % 512, 0u);
      address[0] = address[bytes - 1] = static_cast<char>(mark);
      live.push_back({address, bytes, mark});
      used += bytes;
    } else {
      const size_t which = random() % live.size();
      const Live block = live[which];
      ASSERT_EQ(static_cast<unsigned char>(block.address[0]), block.mark);
      ASSERT_EQ(static_cast<unsigned char>(block.address[block.bytes - 1]), block.mark);
      live[which] = live.back();
      live.pop_back();
      used -= block.bytes;
      give(block.address);
    }
  }
  for (const Live& block : live) give(block.address);
  EXPECT_EQ(memory.stats().allocated, 0u);
  memory.empty_cache();
  EXPECT_EQ(fake.used[0], 0u);
}

TEST_F(CudaAllocator, ForeignMemoryAndDoubleFreesAreIgnored) {
  int somewhere = 0;
  give(&somewhere);
  memory.record_stream(&somewhere, nullptr);
  void* const block = take(100);
  give(block);
  give(block);
  EXPECT_EQ(memory.stats().allocated, 0u);
  void* const first = take(100);
  void* const second = take(100);
  EXPECT_NE(first, second);
  give(first);
  give(second);
}

class RedZones : public CudaAllocator {
 protected:
  void SetUp() override {
    CudaAllocator::SetUp();
    cuda::set_red_zones(true);
  }
  void TearDown() override { cuda::set_red_zones(false); }
  // What the next look finds.
  std::string damage() {
    try {
      cuda::check_red_zones(0);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
};

TEST_F(RedZones, WritesWithinATensorAreNoDamage) {
  for (const size_t bytes : {1, 511, 512, 513, 1000, 3 << 20}) {
    auto* const block = static_cast<char*>(take(bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 512, 0u);
    EXPECT_EQ(static_cast<unsigned char>(block[bytes - 1]), 0xff);  // not yet written
    std::fill_n(block, bytes, '\0');
    EXPECT_EQ(damage(), "");
    give(block);
    EXPECT_EQ(damage(), "");
  }
  EXPECT_EQ(memory.stats().allocated, 0u);
}

TEST_F(RedZones, AWriteOutsideIsFoundWhileTheTensorLives) {
  for (const ptrdiff_t at : {-512, -1, 1000, 1024, 1535}) {
    auto* const block = static_cast<char*>(take(1000));
    const char before = block[at];
    block[at] = 1;
    const std::string text = damage();
    const std::string where =
        at < 0 ? concat(-at, " bytes before") : concat(at - 1000, " bytes behind");
    EXPECT_NE(text.find(where), std::string::npos) << at << ": " << text;
    EXPECT_NE(text.find("a tensor of 1000 bytes"), std::string::npos) << text;
    block[at] = before;
    give(block);
  }
  EXPECT_EQ(damage(), "");
}

TEST_F(RedZones, AWriteOutsideIsFoundWhenTheTensorIsFreed) {
  auto* const block = static_cast<char*>(take(4 << 20));
  block[4 << 20] = 1;
  give(block);
  EXPECT_NE(damage().find("0 bytes behind the end"), std::string::npos);
  EXPECT_EQ(damage(), "");  // told once
}

TEST_F(RedZones, SynchronizeLooks) {
  auto* const block = static_cast<char*>(take(100));
  block[100] = 1;
  EXPECT_THROW(synchronize(DeviceType::cuda), Error);
  block[100] = static_cast<char>(0xa5);
  give(block);
}

TEST_F(RedZones, BlocksFromBeforeAreFreedAsTheyWere) {
  cuda::set_red_zones(false);
  void* const plain = take(1000);
  cuda::set_red_zones(true);
  void* const guarded = take(1000);
  cuda::set_red_zones(false);
  give(plain);
  give(guarded);
  EXPECT_EQ(memory.stats().allocated, 0u);
}

}  // namespace
}  // namespace tensora::test
