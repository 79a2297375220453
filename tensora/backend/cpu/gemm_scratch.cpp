#include "tensora/backend/cpu/gemm_scratch.h"

#include <new>

namespace tensora::cpu {

namespace {
constexpr std::align_val_t kAlignment{64};
}

GemmScratch::~GemmScratch() {
  for (Piece& piece : pieces_) ::operator delete(piece.data, kAlignment);
}

void* GemmScratch::bytes(Purpose purpose, size_t size) {
  Piece& piece = pieces_[static_cast<size_t>(purpose)];
  if (piece.size < size) {
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
  thread_local GemmScratch scratch;
  return scratch;
}

}  // namespace tensora::cpu
