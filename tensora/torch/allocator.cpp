#include "tensora/torch/allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstring>
#include <mutex>

#include "tensora/base/check.h"
#include "tensora/core/backend.h"

namespace tensora::torch {
namespace {

// LibTorch wants this alignment; Tensora gives small blocks less.
constexpr size_t kAlignment = 64;
// Before a block, beside the room that aligns it. In front of a block of the system's allocator are
// that allocator's own figures, which are never kMagic.
constexpr uint64_t kMagic = 0xa5e17e5024c0ffeeu;
struct Mark {
  uint64_t bytes_and_room, magic;

  size_t bytes() const { return static_cast<size_t>(bytes_and_room >> 8); }
  size_t room() const { return static_cast<size_t>(bytes_and_room & 255); }
};
constexpr size_t kMostRoom = kAlignment + sizeof(Mark);

std::atomic<int64_t> bytes_in_use{0};

Mark mark_of(const void* block) {
  Mark mark{};
  std::memcpy(&mark, static_cast<const char*>(block) - sizeof(Mark), sizeof(Mark));
  return mark;
}

void free_block(void* block) {
  if (!block) return;
  const Mark mark = mark_of(block);
  if (mark.magic != kMagic) return c10::GetDefaultCPUAllocator()->raw_deallocate(block);
  char* const start = static_cast<char*>(block) - mark.room();
  std::memset(static_cast<char*>(block) - sizeof(Mark), 0, sizeof(Mark));
  bytes_in_use.fetch_sub(static_cast<int64_t>(mark.bytes()), std::memory_order_relaxed);
  allocator(Device()).free(start, mark.bytes() + kMostRoom);
}

struct SharedAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    const at::Device device(at::kCPU);
    if (bytes == 0) return {nullptr, nullptr, free_block, device};
    check(bytes < size_t{1} << 48, "LibTorch: a tensor of ", bytes, " bytes is too large");
    char* const start = static_cast<char*>(allocator(Device()).allocate(bytes + kMostRoom));
    const auto place = reinterpret_cast<uintptr_t>(start) + sizeof(Mark);
    const size_t room = (place + kAlignment - 1) / kAlignment * kAlignment - place + sizeof(Mark);
    char* const block = start + room;
    const Mark mark{uint64_t{bytes} << 8 | room, kMagic};
    std::memcpy(block - sizeof(Mark), &mark, sizeof(Mark));
    bytes_in_use.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
    return {block, block, free_block, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return free_block; }
  void copy_data(void* to, const void* from, size_t count) const override {
    default_copy_data(to, from, count);
  }
};

}  // namespace

void share_allocator() {
  static std::once_flag once;
  std::call_once(once, [] {
    // LibTorch never lets it go.
    static SharedAllocator* const shared = new SharedAllocator();
    c10::SetCPUAllocator(shared, /*priority=*/255);
  });
}

int64_t shared_bytes() { return bytes_in_use.load(std::memory_order_relaxed); }

}  // namespace tensora::torch
