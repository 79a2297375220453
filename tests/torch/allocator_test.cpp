// LibTorch with memory of Tensora's allocator. It keeps that for the rest of the process: this is
// the last file of the program.
#include "tensora/torch/allocator.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>

#include <ctime>
#include <limits>

#include "../helpers.h"
#include "tensora/core/backend.h"
#include "tensora/ops.h"
#include "tensora/torch/bridge.h"
#include "tensora/torch/errors.h"

namespace tensora::torch {
namespace {

using tensora::testing::error_of;

uint64_t allocated() { return memory_stats(Device()).allocated; }

// Processor time of making, touching and freeing a tensor.
double nanoseconds_of(int64_t bytes) {
  const int times = bytes < 1 << 20 ? 100 : 3;
  constexpr int kRounds = 5;
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
  };
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    const double began = now();
    for (int i = 0; i < times; ++i) {
      const at::Tensor one = at::empty({bytes}, at::kByte);
      for (int64_t at = 0; at < bytes; at += 4096) one.data_ptr<uint8_t>()[at] = 1;
    }
    best = std::min(best, (now() - began) / times);
  }
  return best;
}

TEST(TorchSharedAllocator, TakesAndGivesBackMemoryOfTensora) {
  at::Tensor before = at::ones({1000});
  void* const raw = c10::GetCPUAllocator()->raw_allocate(100);
  EXPECT_EQ(shared_bytes(), 0);
  constexpr int64_t kSizes[] = {64, 4 << 10, 256 << 10, 4 << 20, 32 << 20};
  std::vector<double> alone;
  for (const int64_t size : kSizes) alone.push_back(nanoseconds_of(size));
  share_allocator();
  share_allocator();
  for (size_t i = 0; i < alone.size(); ++i)
    std::cout << kSizes[i] << " bytes: LibTorch's " << alone[i] << " ns, Tensora's "
              << nanoseconds_of(kSizes[i]) << " ns\n";
  // Blocks of the system's allocator are still that one's.
  c10::GetCPUAllocator()->raw_deallocate(raw);
  before.reset();
  const uint64_t at_first = allocated();
  {
    const at::Tensor theirs = at::ones({1 << 20});
    EXPECT_GE(shared_bytes(), 4 << 20);
    EXPECT_GE(allocated(), at_first + (4 << 20));
    EXPECT_EQ(theirs.sum().item<double>(), 1 << 20);
    const Tensor ours = from_torch(theirs);
    EXPECT_EQ(ours.data_ptr(), theirs.data_ptr());
  }
  EXPECT_EQ(shared_bytes(), 0);
  EXPECT_EQ(allocated(), at_first);
  for (const int64_t size : {0, 1, 3, 17, 100, 5000, 70001}) {
    const at::Tensor one = at::empty({size}, at::kByte);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(one.data_ptr()) % 64, 0u) << size;
  }
  void* const other = c10::GetCPUAllocator()->raw_allocate(100);
  EXPECT_EQ(shared_bytes(), 100);
  c10::GetCPUAllocator()->raw_deallocate(other);
  EXPECT_EQ(shared_bytes(), 0);
}

// oneDNN and OpenMP's threads take memory, too.
TEST(TorchSharedAllocator, ServesConvolutionsAndProducts) {
  share_allocator();
  at::manual_seed(1);
  for (int i = 0; i < 3; ++i) {
    const at::Tensor image = at::randn({2, 8, 32, 32}), kernel = at::randn({16, 8, 3, 3});
    const at::Tensor product = at::conv2d(image, kernel).flatten(1);
    const at::Tensor square = product.mm(product.t());
    EXPECT_GT(square[0][0].item<double>(), 0);
    EXPECT_TRUE(at::cat({image, image}).to(at::kBFloat16).sum().isfinite().item<bool>());
  }
}

TEST(TorchSharedAllocator, ObeysTheLimit) {
  share_allocator();
  set_memory_limit(Device(), memory_stats(Device()).reserved + (8 << 20));
  const std::string error = error_of([] { translated([] { at::empty({64 << 20}); }); });
  set_memory_limit(Device(), 0);
  EXPECT_FALSE(error.empty());
  EXPECT_EQ(at::ones({1 << 20}).sum().item<double>(), 1 << 20);
}

}  // namespace
}  // namespace tensora::torch
