#pragma once

// Internal header
// How weights come to shared memory in Note [One row times quantized weights].

#include <algorithm>

#include "tensora/backend/cuda/loops/barriers.cuh"
#include "tensora/ops/quant/quant_row_parts.cuh"

// Note [Copies by the run]
// To copy packed weights in pieces of 16 bytes takes a warp as many instructions as to multiply
// them. Hopper copies a run of bytes of any length by one instruction of one thread, and counts
// them on a barrier in shared memory. So some warps of a block do nothing but request runs: from
// each of 16 rows a chunk for each of the other warps. They are several, because a warp's lanes do
// it one after the other. Runs begin and end at multiples of 16 bytes: what a row shares these with
// comes along (of a page that is there in any case).

namespace tensora::cuda {

template <class Tile>
struct OneRowShape {
  static constexpr int kWarps = 8, kThreads = kWarps * 32;  // that multiply
  static constexpr int kCopyWarps = 4, kCopyRows = kTileWeights / kCopyWarps;
  static constexpr int kAllThreads = kThreads + kCopyWarps * 32;
  static constexpr int kSpanBytes = kWarps * Tile::kBytes;  // of a row in a stage
  /// From row to row of a stage. Rows lie in different banks as those of a tile do.
  static constexpr int pitch() {
    int pitch = (kSpanBytes + 31 - Tile::kAlign) / 16 * 16;
    while (pitch % 128 != Tile::kPitch % 128) pitch += 16;
    return pitch;
  }
  static constexpr int kPitch = pitch();
  static constexpr int kStageBytes = kTileWeights * kPitch;
  /// With so many attention's blocks fit beside; with more of them long products are faster.
  static constexpr int kStages = std::clamp((88 << 10) / kStageBytes, 2, 8);
  static constexpr int kMostStages = std::max((112 << 10) / kStageBytes, kStages);
};

/// The stages of a block, one after the other, as one of its warps goes through them.
template <class Tile>
class RowStages {
 public:
  using Shape = OneRowShape<Tile>;
  struct Barriers {
    uint64_t full[Shape::kMostStages], empty[Shape::kMostStages];
  };

  __device__ RowStages(char* memory, const Barriers& barriers, int count)
      : memory_(memory),
        count_(count),
        full_(static_cast<unsigned>(__cvta_generic_to_shared(barriers.full))),
        empty_(static_cast<unsigned>(__cvta_generic_to_shared(barriers.empty))) {}
  /// By one thread, before all others see them.
  __device__ void init() const {
#pragma unroll 1
    for (unsigned i = 0; i < static_cast<unsigned>(count_); ++i) {
      init_barrier(full_ + 8 * i, kCopyArrivals);
      init_barrier(empty_ + 8 * i, Shape::kWarps);
    }
    fence_barriers();
  }
  __device__ void advance() {
    if (++stage_ == count_) stage_ = 0, parity_ ^= 1;
  }

  /// A copying warp: bytes [at, at + kSpanBytes) of its rows, as far as they are there, into the
  /// stage, as soon as it is free.
  __device__ void request(const RowsPlace& place, int at) const {
    wait_for_barrier(empty_ + 8 * stage_, parity_ ^ 1);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int first = (static_cast<int>(threadIdx.x) / 32 - Shape::kWarps) * Shape::kCopyRows;
    const int there = min(place.row_bytes - at, Shape::kSpanBytes);
    const auto to =
        static_cast<unsigned>(__cvta_generic_to_shared(memory_ + stage_ * Shape::kStageBytes));
    const unsigned full = full_ + 8 * stage_;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (lane < Shape::kCopyRows) {
      const int row = first + lane;
      const char* const from = place.row(row / 8, row % 8) + at;
      const int lead = lead_of<Tile>(from);
      const unsigned bytes = static_cast<unsigned>(lead + there + 15) & ~15u;
      expect_bytes(full, bytes);
      copy_run(to + static_cast<unsigned>(row * Shape::kPitch), from - lead, bytes, full);
    }
#else
    constexpr int kPieces = Shape::kPitch / 16;
#pragma unroll 1
    for (int i = lane; i < Shape::kCopyRows * kPieces; i += 32) {
      const int row = first + i / kPieces, piece = i % kPieces;
      const char* const from = place.row(row / 8, row % 8) + at;
      const int lead = lead_of<Tile>(from), left = there + lead - 16 * piece;
      if (left > 0)
        copy_piece(to + static_cast<unsigned>(row * Shape::kPitch + 16 * piece),
                   from - lead + 16 * piece, min(left, 16));
    }
    arrive_after_copies(full);
#endif
  }

  /// A multiplying warp: the stage, when it is there.
  __device__ char* wait() const {
    wait_for_barrier(full_ + 8 * stage_, parity_);
    return memory_ + stage_ * Shape::kStageBytes;
  }
  /// It needs the stage no longer.
  __device__ void release() const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(empty_ + 8 * stage_);
  }

 private:
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  static constexpr unsigned kCopyArrivals = kTileWeights;
#else
  static constexpr unsigned kCopyArrivals = Shape::kCopyWarps * 32;
#endif
  char* memory_;
  int count_;
  unsigned full_, empty_;
  int stage_ = 0;
  unsigned parity_ = 0;
};

/// Makes bytes from `there` on of a warp's chunk zero: they are not of its row.
template <class Tile>
__device__ inline void clear_behind(char* chunk, const RowsPlace& place, int at, int there) {
  const int behind = Tile::kBytes - there;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x) % 32; i < kTileWeights * behind; i += 32) {
    const int row = i / behind;
    chunk[row * OneRowShape<Tile>::kPitch + lead_of<Tile>(place.row(row / 8, row % 8) + at) +
          there + i % behind] = 0;
  }
  fence_copies();
  __syncwarp();
}

}  // namespace tensora::cuda
