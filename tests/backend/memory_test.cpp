#include "tensora/backend/cpu/memory.h"

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>

#include "tensora/backend/cpu/red_zones.h"
#include "tests/helpers.h"

namespace tensora {
namespace {

using testing::contains, testing::error_of;

Allocator& host() { return cpu::host_allocator(); }

/// Leaves the allocator without limit and cache, whatever a test did.
class MemoryTest : public ::testing::Test {
 protected:
  MemoryTest() : cache_limit_(host().stats().cache_limit) {}
  void SetUp() override { TearDown(); }
  void TearDown() override {
    host().set_limit(0);
    host().set_cache_limit(cache_limit_);
    host().empty_cache();
    host().reset_peaks();
  }

 private:
  const uint64_t cache_limit_;
};

constexpr size_t kLarge = size_t{8} << 20;

TEST_F(MemoryTest, FreedBlocksAreUsedAgainWithoutTheSystem) {
  void* first = host().allocate(kLarge);
  host().free(first, kLarge);
  const MemoryStats before = host().stats();
  void* second = host().allocate(kLarge);
  const MemoryStats after = host().stats();
  EXPECT_EQ(second, first);
  EXPECT_EQ(after.reserved, before.reserved);
  EXPECT_EQ(after.cache_hits, before.cache_hits + 1);
  EXPECT_EQ(after.allocations, before.allocations + 1);
  host().free(second, kLarge);
}

TEST_F(MemoryTest, NeighbouringSizesShareBlocks) {
  void* first = host().allocate(kLarge - 100);
  host().free(first, kLarge - 100);
  void* second = host().allocate(kLarge - 5000);
  EXPECT_EQ(second, first);
  host().free(second, kLarge - 5000);
}

TEST_F(MemoryTest, AThousandTensorsOfOneSizeReserveItOnce) {
  { const Tensor warm = empty({1 << 20}); }
  const uint64_t reserved = memory_stats().reserved;
  for (int i = 0; i < 1000; ++i) {
    const Tensor x = empty({1 << 20});
    ASSERT_EQ(memory_stats().reserved, reserved);
  }
}

TEST_F(MemoryTest, StatisticsFollowLiveBlocks) {
  const MemoryStats before = host().stats();
  void* a = host().allocate(kLarge);
  void* b = host().allocate(kLarge);
  const MemoryStats both = host().stats();
  EXPECT_GE(both.allocated, before.allocated + 2 * kLarge);
  EXPECT_LE(both.allocated, before.allocated + 2 * kLarge * 9 / 8);  // at most 12.5 % is lost
  EXPECT_GE(both.peak_allocated, both.allocated);
  host().free(a, kLarge);
  host().free(b, kLarge);
  const MemoryStats after = host().stats();
  EXPECT_EQ(after.allocated, before.allocated);
  EXPECT_EQ(after.peak_allocated, both.peak_allocated);
  EXPECT_GE(after.largest_free, kLarge);
  host().reset_peaks();
  EXPECT_EQ(host().stats().peak_allocated, after.allocated);
}

TEST_F(MemoryTest, EmptyCacheGivesEverythingFreeBack) {
  void* kept = host().allocate(kLarge);
  void* freed = host().allocate(kLarge);
  host().free(freed, kLarge);
  host().empty_cache();
  const MemoryStats stats = host().stats();
  EXPECT_EQ(stats.reserved, stats.allocated);
  EXPECT_EQ(stats.largest_free, 0u);
  host().free(kept, kLarge);
}

/// Pages of this process that are in memory, in bytes.
uint64_t resident() {
  uint64_t all = 0, in_memory = 0;
  std::ifstream("/proc/self/statm") >> all >> in_memory;
  return in_memory * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

void* allocate_and_touch(size_t bytes) {
  void* const block = host().allocate(bytes);
  std::memset(block, 1, bytes);
  return block;
}

TEST_F(MemoryTest, TheCacheKeepsNoMoreThanItsLimit) {
  const uint64_t before = host().stats().returned;
  set_cache_limit(DeviceType::cpu, 3 * kLarge);
  EXPECT_EQ(memory_stats().cache_limit, 3 * kLarge);
  std::vector<void*> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(host().allocate(kLarge));
  for (void* block : blocks) host().free(block, kLarge);
  const MemoryStats stats = host().stats();
  EXPECT_EQ(stats.reserved - stats.allocated, 3 * kLarge);
  EXPECT_EQ(stats.returned, before + 3 * kLarge);
  // Those freed last were kept.
  EXPECT_EQ(host().allocate(kLarge), blocks[5]);
  host().free(blocks[5], kLarge);
  host().set_cache_limit(kLarge);
  EXPECT_EQ(host().stats().reserved - host().stats().allocated, kLarge);
  // A block larger than the limit is not kept, nor is anything with a limit of 0.
  host().free(host().allocate(2 * kLarge), 2 * kLarge);
  EXPECT_LE(host().stats().reserved - host().stats().allocated, kLarge);
  host().set_cache_limit(0);
  host().free(host().allocate(5000), 5000);
  EXPECT_EQ(host().stats().reserved, host().stats().allocated);
}

TEST_F(MemoryTest, WhatWasFreedLongestAgoGoesFirst) {
  void* const small = host().allocate(kLarge);
  void* const large = host().allocate(2 * kLarge);
  host().free(small, kLarge);
  host().free(large, 2 * kLarge);
  host().set_cache_limit(2 * kLarge);
  EXPECT_EQ(host().stats().reserved - host().stats().allocated, 2 * kLarge);
  EXPECT_EQ(host().allocate(2 * kLarge), large);
  host().free(large, 2 * kLarge);
}

TEST_F(MemoryTest, TheDefaultIsAShareOfTheMachine) {
  const uint64_t limit = memory_stats().cache_limit;
  const uint64_t machine =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  EXPECT_GT(limit, 0u);
  EXPECT_LE(limit, machine / 4);
}

TEST_F(MemoryTest, MemoryThatIsGivenBackLeavesTheProcess) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers keep freed memory";
#endif
  constexpr size_t kBytes = size_t{256} << 20;
  const uint64_t before = resident();
  // One large block, and many that come from the heap.
  std::vector<void*> blocks;
  for (int i = 0; i < 128; ++i) blocks.push_back(allocate_and_touch(kBytes / 256));
  void* const large = allocate_and_touch(kBytes / 2);
  EXPECT_GT(resident(), before + kBytes * 9 / 10);
  host().free(large, kBytes / 2);
  for (void* block : blocks) host().free(block, kBytes / 256);
  host().empty_cache();
  EXPECT_LT(resident(), before + kBytes / 10);
}

// Blocks up to 1 KiB come from the pool of small objects, with the heap's alignment.
TEST_F(MemoryTest, AlignedForVectorsAndHugePages) {
  const auto require_aligned = [](size_t bytes, size_t alignment) {
    void* blocks[5];
    for (void*& block : blocks) {
      block = host().allocate(bytes);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % alignment, 0u) << bytes;
      std::memset(block, 1, bytes);
    }
    for (void* block : blocks) host().free(block, bytes);
  };
  for (const size_t bytes : {size_t{1}, size_t{63}, size_t{100}, size_t{1024}})
    require_aligned(bytes, 16);
  for (const size_t bytes : {size_t{1025}, size_t{5000}, size_t{1} << 20})
    require_aligned(bytes, 64);
  require_aligned(kLarge, size_t{2} << 20);
}

TEST_F(MemoryTest, NothingCostsNothing) {
  EXPECT_EQ(host().allocate(0), nullptr);
  host().free(nullptr, 0);
  EXPECT_EQ(zeros({0, 5}).numel(), 0);
}

TEST_F(MemoryTest, LimitIsKeptAndCanBeLifted) {
  const uint64_t used = host().stats().reserved;
  set_memory_limit(DeviceType::cpu, used + kLarge);
  EXPECT_THROW(host().allocate(4 * kLarge), OutOfMemoryError);
  const std::string message = error_of([] { empty({int64_t(4 * kLarge)}); });
  for (const char* part :
       {"out of memory", "configured limit", "allocated", "reserved", "set_memory_limit"})
    EXPECT_TRUE(contains(message, part)) << message;
  set_memory_limit(DeviceType::cpu, 0);
  void* block = host().allocate(4 * kLarge);
  EXPECT_NE(block, nullptr);
  host().free(block, 4 * kLarge);
}

TEST_F(MemoryTest, RunningOutTellsWhatIsThereAndWhatToDo) {
  const auto mebibytes = [](int64_t count) { return empty({count << 20}, {.dtype = kUInt8}); };
  const uint64_t used = host().stats().reserved;
  std::vector<Tensor> live;
  for (int i = 0; i < 3; ++i) live.push_back(mebibytes(16));
  live.push_back(mebibytes(64));
  (void)mebibytes(32);                                              // stays in the cache
  set_memory_limit(DeviceType::cpu, used + (uint64_t{115} << 20));  // 3 MiB above the live ones
  const std::string message = error_of([&] { mebibytes(4); });
  for (const char* part :
       {"4 MiB (4194304 bytes) do not fit into the configured limit", "allocated 112",
        "reserved 112", "limit 115", "largest free block 3",
        "Largest live tensors: 64 MiB, 3 x 16 MiB", "smaller batch", "set_memory_limit"})
    EXPECT_TRUE(contains(message, part)) << part << " is not in: " << message;
  const std::string impossible = error_of([&] { mebibytes(int64_t{1} << 40); });
  EXPECT_TRUE(contains(impossible, "any machine's address space")) << impossible;
  // With the advice followed, the process goes on.
  live.pop_back();
  EXPECT_NO_THROW(mebibytes(4));
}

TEST_F(MemoryTest, SmallBlocksAreCountedWhoeverFreesThem) {
  const MemoryStats before = host().stats();
  constexpr size_t kBytes = 100;
  std::vector<void*> blocks(50);
  for (void*& block : blocks) block = host().allocate(kBytes);
  std::vector<void*> others(30);
  std::thread([&] {
    for (void*& block : others) block = host().allocate(kBytes);
    for (size_t i = 0; i < 20; ++i) host().free(blocks[i], kBytes);
  }).join();
  // The thread is gone, what it counted is not.
  const MemoryStats during = host().stats();
  EXPECT_EQ(during.allocated, before.allocated + 60 * kBytes);
  EXPECT_EQ(during.reserved, before.reserved + 60 * kBytes);
  EXPECT_EQ(during.allocations, before.allocations + 80);
  EXPECT_GE(during.peak_allocated, during.allocated);
  for (size_t i = 20; i < blocks.size(); ++i) host().free(blocks[i], kBytes);
  std::thread([&] {
    for (void* block : others) host().free(block, kBytes);
  }).join();
  EXPECT_EQ(host().stats().allocated, before.allocated);
}

TEST_F(MemoryTest, SmallTensorsShowInTheStatistics) {
  const uint64_t before = memory_stats().allocated;
  std::vector<Tensor> kept;
  for (int i = 0; i < 10; ++i) kept.push_back(ones({16}));
  EXPECT_EQ(memory_stats().allocated, before + 10 * 64);
  kept.clear();
  EXPECT_EQ(memory_stats().allocated, before);
}

TEST_F(MemoryTest, TheCacheIsGivenUpBeforeTheLimitStrikes) {
  const uint64_t used = host().stats().reserved;
  void* cached = host().allocate(kLarge);
  host().free(cached, kLarge);
  host().set_limit(used + 2 * kLarge + kLarge / 2);
  void* larger = nullptr;
  EXPECT_NO_THROW(larger = host().allocate(2 * kLarge));
  host().free(larger, 2 * kLarge);
}

TEST_F(MemoryTest, ImpossibleSizesThrowAndTheProcessGoesOn) {
  EXPECT_THROW(empty({int64_t{1} << 60}, {.dtype = kUInt8}), OutOfMemoryError);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // What only the system refuses; the sanitizers' own allocators end the process there.
  EXPECT_THROW(empty({int64_t{1} << 47}, {.dtype = kUInt8}), OutOfMemoryError);
#endif
  EXPECT_TRUE(contains(error_of([] {
                         empty({int64_t{1} << 62, int64_t{1} << 62});
                       }),
                       "too many elements"));
  EXPECT_TRUE(contains(error_of([] { empty({int64_t{1} << 61}, {.dtype = kFloat64}); }),
                       "too many elements"));
  EXPECT_THROW(host().allocate(SIZE_MAX), OutOfMemoryError);
  EXPECT_EQ(to_vector<float>(ones({1000}) + 1), std::vector<float>(1000, 2));
}

TEST_F(MemoryTest, ThreadsDoNotDisturbOneAnother) {
  std::vector<std::thread> threads;
  std::atomic<int> spoiled = 0;
  for (unsigned seed = 0; seed < 4; ++seed)
    threads.emplace_back([seed, &spoiled] {
      std::mt19937 random(seed);
      struct Block {
        unsigned char* data;
        size_t bytes;
      };
      std::vector<Block> live;
      const auto release = [&](size_t i) {
        const Block block = live[i];
        for (size_t k = 0; k < block.bytes; k += 509)
          if (block.data[k] != static_cast<unsigned char>(seed)) ++spoiled;
        host().free(block.data, block.bytes);
        live[i] = live.back();
        live.pop_back();
      };
      for (int step = 0; step < 3000; ++step) {
        if (live.size() > 30 || (!live.empty() && random() % 2 == 0)) {
          release(random() % live.size());
          continue;
        }
        const size_t bytes = 1 + random() % (random() % 8 == 0 ? 300'000 : 3000);
        auto* data = static_cast<unsigned char*>(host().allocate(bytes));
        std::memset(data, static_cast<int>(seed), bytes);
        live.push_back({data, bytes});
        if (step % 500 == 0) host().empty_cache();
      }
      while (!live.empty()) release(0);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(spoiled, 0);
}

TEST_F(MemoryTest, BlocksMayBeFreedByAnotherThread) {
  const uint64_t before = host().stats().allocated;
  for (const size_t bytes : {size_t{64}, size_t{800}, size_t{40'000}}) {
    std::vector<void*> blocks;
    for (int i = 0; i < 100; ++i) blocks.push_back(host().allocate(bytes));
    std::thread([&] {
      for (void* block : blocks) host().free(block, bytes);
    }).join();
  }
  EXPECT_EQ(host().stats().allocated, before);
}

TEST_F(MemoryTest, RedZonesTellOfWritesOutside) {
  for (const size_t bytes : {size_t{24}, size_t{1000}, size_t{40'000}, kLarge}) {
    void* const plain = host().allocate(bytes);
    cpu::set_red_zones(true);
    auto* const block = static_cast<unsigned char*>(host().allocate(bytes));
    EXPECT_EQ(block[0] & block[bytes - 1], 0xff);
    std::memset(block, 0, bytes);
    EXPECT_EQ(error_of([] { cpu::check_red_zones(); }), "");
    block[bytes + 3] = 0;
    EXPECT_TRUE(contains(error_of([] { cpu::check_red_zones(); }),
                         concat("3 bytes behind the end of a tensor of ", bytes, " bytes")));
    EXPECT_EQ(error_of([] { cpu::check_red_zones(); }), "");
    block[-5] = 0;
    // Blocks are freed as they were allocated, whatever holds by then.
    host().free(plain, bytes);
    cpu::set_red_zones(false);
    host().free(block, bytes);
    EXPECT_TRUE(contains(error_of([] { cpu::check_red_zones(); }), "5 bytes before a tensor of"));
  }
}

}  // namespace
}  // namespace tensora
