#include "tensora/backend/cuda/memory/red_zones.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "tensora/backend/cuda/memory/allocator.h"
#include "tensora/backend/cuda/runtime/capture.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/backend/cuda/runtime/wait.h"
#include "tensora/base/check.h"

namespace tensora::cuda {
namespace {

constexpr unsigned char kPattern = 0xa5;
constexpr int kUnwritten = 0xff;

std::atomic<bool> wanted{false};

// After the tensor come the rest of its last granule and one whole zone.
size_t bytes_behind(const Block& block) {
  const size_t over = block.requested % kRedZone;
  return kRedZone + (over == 0 ? 0 : kRedZone - over);
}

}  // namespace

bool has_red_zones() noexcept { return wanted.load(std::memory_order_relaxed); }
void set_red_zones(bool on) noexcept { wanted.store(on, std::memory_order_relaxed); }

void check_red_zones(int device) {
  if (has_red_zones() && !current_capture()) caching_allocator(device).check_red_zones();
}

void CachingAllocator::fill_red_zones(const Block& block) {
  const DeviceGuard guard(device_);
  const cudaStream_t stream = block.pool->stream;
  char* const tensor = block.address + kRedZone;
  check_cuda(cudaMemsetAsync(block.address, kPattern, kRedZone, stream), "filling a red zone");
  check_cuda(cudaMemsetAsync(tensor, kUnwritten, block.requested, stream), "filling a block");
  check_cuda(cudaMemsetAsync(tensor + block.requested, kPattern, bytes_behind(block), stream),
             "filling a red zone");
}

// The first damage is kept until it can be thrown; an error of the device itself takes precedence.
void CachingAllocator::look_at_red_zones(const Block& block) noexcept {
  if (!damage_.empty()) return;
  std::array<unsigned char, 3 * kRedZone> zones;
  const cudaStream_t stream = block.pool->stream;
  const size_t behind = bytes_behind(block);
  if (cudaMemcpyAsync(zones.data(), block.address, kRedZone, cudaMemcpyDeviceToHost, stream) !=
          cudaSuccess ||
      cudaMemcpyAsync(zones.data() + kRedZone, block.address + kRedZone + block.requested, behind,
                      cudaMemcpyDeviceToHost, stream) != cudaSuccess ||
      wait_for_stream(stream) != cudaSuccess)
    return;
  const auto end = zones.begin() + static_cast<ptrdiff_t>(kRedZone + behind);
  const auto wrong =
      std::find_if(zones.begin(), end, [](unsigned char byte) { return byte != kPattern; });
  if (wrong == end) return;
  const auto at = static_cast<size_t>(wrong - zones.begin());
  const std::string recent = recent_launches();
  damage_ = concat("cuda:", device_, ": a kernel wrote outside its memory: ",
                   at < kRedZone ? concat(kRedZone - at, " bytes before")
                                 : concat(at - kRedZone, " bytes behind the end of"),
                   " a tensor of ", block.requested, " bytes",
                   recent.empty() ? std::string() : concat("; last ops launched: ", recent));
}

void CachingAllocator::check_red_zones() {
  std::lock_guard lock(mutex_);
  const DeviceGuard guard(device_);
  check_cuda(wait_for_device(), "cudaDeviceSynchronize");
  blocks_.each([&](const Block& block) {
    if (block.guarded && block.state == Block::State::live) look_at_red_zones(block);
  });
  const std::string found = std::exchange(damage_, {});
  check(found.empty(), found);
}

}  // namespace tensora::cuda
