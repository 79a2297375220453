#pragma once

#include <cstddef>
#include <cstdint>

namespace tensora::cpu {

/// Memory of the calling thread that grows on demand and is reused, one block per purpose. It stays
/// usable while the destructors of static and thread_local objects run.
class GemmScratch {
 public:
  enum class Purpose { tile, packed_b, sums, cell_sums, dense_a, packed_a };

  constexpr GemmScratch() = default;
  GemmScratch(const GemmScratch&) = delete;
  GemmScratch& operator=(const GemmScratch&) = delete;

  /// Uninitialised, aligned to a cache line, valid until the next call for the same purpose.
  template <class C>
  C* get(Purpose purpose, int64_t count) {
    return static_cast<C*>(bytes(purpose, static_cast<size_t>(count) * sizeof(C)));
  }

  static GemmScratch& of_this_thread();

 private:
  struct Piece {
    void* data = nullptr;
    size_t size = 0;
  };
  void* bytes(Purpose purpose, size_t size);
  static void release(void* scratch);
  Piece pieces_[6];
};

}  // namespace tensora::cpu
