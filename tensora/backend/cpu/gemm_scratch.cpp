#include "tensora/backend/cpu/gemm_scratch.h"

#include <pthread.h>

#include <new>

#include "tensora/base/check.h"
#include "tensora/base/fork.h"

namespace tensora::cpu {

namespace {
constexpr std::align_val_t kAlignment{64};
}

// Note [Scratch that outlives destructors]
// Destructors of thread_local objects may multiply, in any order, and those of static objects may
// after all of them. So the scratch itself has no destructor. A thread's is released by a
// thread-specific key of POSIX, whose destructors run after those of C++; the main thread, for
// which they do not run, keeps its scratch to the end of the process.
void GemmScratch::release(void* scratch) {
  for (Piece& piece : static_cast<GemmScratch*>(scratch)->pieces_) {
    ::operator delete(piece.data, kAlignment);
    piece = {};
  }
}

void* GemmScratch::bytes(Purpose purpose, size_t size) {
  Piece& piece = pieces_[static_cast<size_t>(purpose)];
  if (piece.size < size) {
    struct Key {
      pthread_key_t key = 0;
      Key() { ensure(pthread_key_create(&key, release) == 0, "GemmScratch: no key is left"); }
    };
    static constinit MadeOnce<Key> key;
    // Again after a release: destructors of other keys may multiply, too.
    pthread_setspecific(key.get().key, this);
    ::operator delete(piece.data, kAlignment);
    piece = {};
    // Some room to grow, so that slowly growing sizes do not allocate every time.
    const size_t roomy = size + size / 8;
    piece.data = ::operator new(roomy, kAlignment);
    piece.size = roomy;
  }
  return piece.data;
}

GemmScratch& GemmScratch::of_this_thread() {
  thread_local constinit GemmScratch scratch;
  return scratch;
}

}  // namespace tensora::cpu
