#include "tensora/base/object_pool.h"

#include <array>
#include <cstdint>
#include <new>

namespace tensora {
namespace {

constexpr std::size_t kGranule = 64;
constexpr std::size_t kClasses = 16;         // up to 1 KiB; larger requests go to the heap
constexpr uint32_t kMaxFreePerClass = 4096;  // bounds what an idle thread can hold

// AddressSanitizer sees an overrun or a use after free only if each block is the heap's own, of
// exactly the size asked for.
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
  std::array<uint32_t, kClasses> count{};
};

// See Note [Thread-local state without guards]: plain data, zero-initialised, reached without a
// constructor check; the sentinel below returns the blocks when the thread ends.
thread_local constinit ThreadPoolOfBlocks blocks;
thread_local constinit bool thread_is_ending = false;
thread_local constinit bool sentinel_armed = false;

struct ReturnBlocksAtThreadEnd {
  // Called once per thread: the first use of a thread-local registers its destructor.
  void arm() { sentinel_armed = true; }
  ~ReturnBlocksAtThreadEnd() {
    thread_is_ending = true;
    for (std::size_t index = 0; index < kClasses; ++index) {
      while (FreeBlock* block = blocks.head[index]) {
        blocks.head[index] = block->next;
        ::operator delete(block);
      }
      blocks.count[index] = 0;
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
    --blocks.count[index];
    return block;
  }
  return ::operator new((index + 1) * kGranule);
}

void pool_free(void* memory, std::size_t bytes) noexcept {
  const std::size_t index = class_of(bytes);
  if (!kReusesBlocks || index >= kClasses || thread_is_ending ||
      blocks.count[index] >= kMaxFreePerClass) {
    ::operator delete(memory);
    return;
  }
  if (!sentinel_armed) [[unlikely]]
    return_blocks.arm();
  auto* block = static_cast<FreeBlock*>(memory);
  block->next = blocks.head[index];
  blocks.head[index] = block;
  ++blocks.count[index];
}

}  // namespace tensora
