#pragma once

// How arrays are split over ranks, and gradients over buckets.

#include <cstdint>
#include <span>
#include <vector>

#include "tensora/core/device.h"
#include "tensora/core/dtype.h"

namespace tensora::distributed {

/// The elements [begin, end) of an array, in the order of memory.
struct ShardRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const ShardRange&) const = default;
};

/// The part of `numel` elements that rank `rank` of `ranks` has. Parts begin at multiples of 64
/// elements and differ by at most one such tile (the last may be short), unless there are fewer
/// tiles than ranks: then parts differ by one element, and a rank has none if there are fewer
/// elements than ranks. `turn` rotates parts that are not equally long, so that such arrays go to
/// all ranks by turns.
ShardRange shard_range(int64_t numel, int ranks, int rank, int turn);

/// One array to be put into a bucket.
struct BucketItem {
  int64_t bytes;
  DType dtype;
  Device device;
};
/// Puts the items, in their order, into buckets of one dtype and device: the first of each kind
/// of at least `first_bytes`, the others of `bytes`, unless the items run out. An item that fills a
/// bucket has one of its own. Buckets come in the order of their last items. The result are
/// positions in `items`.
std::vector<std::vector<size_t>> plan_buckets(std::span<const BucketItem> items,
                                              int64_t first_bytes, int64_t bytes);

/// How the parts of several arrays lie in a buffer of one chunk per rank: the parts of a rank are
/// side by side in its chunk, and all chunks have the length of the longest.
class ChunkLayout {
 public:
  struct Array {
    int64_t numel;
    int turn;  // see shard_range
  };
  ChunkLayout(std::span<const Array> arrays, int ranks);

  struct Piece {
    ShardRange range;  // in the array
    int64_t at = 0;    // in the chunk
  };
  const Piece& piece(size_t array, int rank) const {
    return pieces_[array * static_cast<size_t>(ranks_) + static_cast<size_t>(rank)];
  }
  int64_t chunk() const { return chunk_; }
  /// Whether the chunks are one array as it is: no element has to be moved.
  bool is_array() const;
  int ranks() const { return ranks_; }

 private:
  int ranks_;
  int64_t chunk_ = 0;
  std::vector<Piece> pieces_;
};

}  // namespace tensora::distributed
