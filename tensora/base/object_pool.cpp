#include "tensora/base/object_pool.h"

#include <array>
#include <cstdint>
#include <new>

namespace tensora {
namespace {

constexpr std::size_t kGranule = 64;
constexpr std::size_t kClasses = 16;         // up to 1 KiB; larger requests go to the heap
constexpr uint32_t kMaxFreePerClass = 4096;  // bounds what an idle thread can hold

// AddressSanitizer detects a buffer overflow or a use after free only if each block comes from the
// heap with exactly the requested size.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kReusesBlocks = false;
#else
constexpr bool kReusesBlocks = true;
#endif

struct FreeBlock {
  FreeBlock* next;
};

struct ThreadPoolOfBlocks {
  std::array<FreeBlock*, kClasses> head{};
  // How many more blocks each list accepts: none before the sentinel below is armed, nor after it
  // ran, so that freeing a block needs only one comparison.
  std::array<uint32_t, kClasses> room{};
};

// See Note [Thread-local state without guards]: plain data, zero-initialised, reached without a
// constructor check; the sentinel below returns the blocks when the thread ends.
thread_local constinit ThreadPoolOfBlocks blocks;
thread_local constinit bool sentinel_armed = false;

struct ReturnBlocksAtThreadEnd {
  // Called once per thread: the first use of a thread-local registers its destructor.
  void arm() {
    sentinel_armed = true;
    blocks.room.fill(kMaxFreePerClass);
  }
  ~ReturnBlocksAtThreadEnd() {
    for (std::size_t index = 0; index < kClasses; ++index) {
      while (FreeBlock* block = blocks.head[index]) {
        blocks.head[index] = block->next;
        ::operator delete(block);
      }
      blocks.room[index] = 0;
    }
  }
};
thread_local ReturnBlocksAtThreadEnd return_blocks;

constexpr std::size_t class_of(std::size_t bytes) { return (bytes + kGranule - 1) / kGranule - 1; }

}  // namespace

void* pool_allocate(std::size_t bytes) {
  const std::size_t index = class_of(bytes);
  if (!kReusesBlocks || index >= kClasses) return ::operator new(bytes);
  if (FreeBlock* block = blocks.head[index]) [[likely]] {
    blocks.head[index] = block->next;
    ++blocks.room[index];
    return block;
  }
  return ::operator new((index + 1) * kGranule);
}

void pool_free(void* memory, std::size_t bytes) noexcept {
  const std::size_t index = class_of(bytes);
  if (!kReusesBlocks || index >= kClasses) {
    ::operator delete(memory);
    return;
  }
  if (blocks.room[index] == 0) [[unlikely]] {
    if (sentinel_armed) return ::operator delete(memory);  // full, or the thread is ending
    return_blocks.arm();
  }
  auto* block = static_cast<FreeBlock*>(memory);
  block->next = blocks.head[index];
  blocks.head[index] = block;
  --blocks.room[index];
}

}  // namespace tensora
