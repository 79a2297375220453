#include "tensora/base/object_pool.h"

#include <array>
#include <cstdint>
#include <new>

namespace tensora {
namespace {

constexpr std::size_t kGranule = 64;
constexpr std::size_t kClasses = 16;         // up to 1 KiB; larger requests go to the heap
constexpr uint64_t kMaxFreePerClass = 4096;  // bounds what an idle thread can hold

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

struct FreeList {
  FreeBlock* head = nullptr;
  // How many more blocks the list accepts: none before the sentinel below is armed, nor after it
  // ran, so that freeing a block needs only one comparison.
  uint64_t room = 0;

  void put(void* memory) {
    auto* block = static_cast<FreeBlock*>(memory);
    block->next = head;
    head = block;
    --room;
  }
};
using ThreadPoolOfBlocks = std::array<FreeList, kClasses>;

// See Note [Thread-local state without guards]: plain data, zero-initialised, reached without a
// constructor check; the sentinel below returns the blocks when the thread ends.
thread_local constinit ThreadPoolOfBlocks blocks;
thread_local constinit bool sentinel_armed = false;

struct ReturnBlocksAtThreadEnd {
  // Called once per thread: the first use of a thread-local registers its destructor.
  void arm() {
    sentinel_armed = true;
    for (FreeList& list : blocks) list.room = kMaxFreePerClass;
  }
  ~ReturnBlocksAtThreadEnd() {
    for (FreeList& list : blocks) {
      while (FreeBlock* block = list.head) {
        list.head = block->next;
        ::operator delete(block);
      }
      list.room = 0;
    }
  }
};
thread_local ReturnBlocksAtThreadEnd return_blocks;

// A call of its own: it would cost the common case the saving of registers.
[[gnu::noinline]] void free_without_room(void* memory, std::size_t index) {
  if (sentinel_armed) return ::operator delete(memory);  // full, or the thread is ending
  return_blocks.arm();
  blocks[index].put(memory);
}

constexpr std::size_t class_of(std::size_t bytes) { return (bytes + kGranule - 1) / kGranule - 1; }

}  // namespace

void* pool_allocate(std::size_t bytes) {
  const std::size_t index = class_of(bytes);
  if (!kReusesBlocks || index >= kClasses) return ::operator new(bytes);
  FreeList& list = blocks[index];
  if (FreeBlock* block = list.head) [[likely]] {
    list.head = block->next;
    ++list.room;
    return block;
  }
  return ::operator new((index + 1) * kGranule);
}

void pool_free(void* memory, std::size_t bytes) noexcept {
  const std::size_t index = class_of(bytes);
  if (!kReusesBlocks || index >= kClasses) return ::operator delete(memory);
  FreeList& list = blocks[index];
  if (list.room == 0) [[unlikely]]
    return free_without_room(memory, index);
  list.put(memory);
}

}  // namespace tensora
