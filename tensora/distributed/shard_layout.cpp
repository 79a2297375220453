#include "tensora/distributed/shard_layout.h"

#include <algorithm>
#include <utility>

#include "tensora/base/check.h"

namespace tensora::distributed {
namespace {

constexpr int64_t kTile = 64;

}  // namespace

ShardRange shard_range(int64_t numel, int ranks, int rank, int turn) {
  ensure(ranks > 0 && rank >= 0 && rank < ranks, "rank ", rank, " of ", ranks);
  const int64_t tile = numel < kTile * ranks ? 1 : kTile;
  const int64_t tiles = (numel + tile - 1) / tile;
  const int64_t place = tiles % ranks == 0 ? rank : (rank + turn % ranks) % ranks;
  const auto start_of = [&](int64_t part) { return std::min(numel, tiles * part / ranks * tile); };
  return {start_of(place), start_of(place + 1)};
}

std::vector<std::vector<size_t>> plan_buckets(std::span<const BucketItem> items,
                                              int64_t first_bytes, int64_t bytes) {
  struct Open {
    DType dtype;
    Device device;
    std::vector<size_t> members;
    int64_t filled = 0, limit = 0;
  };
  std::vector<Open> open;
  std::vector<std::vector<size_t>> buckets;
  for (size_t i = 0; i < items.size(); ++i) {
    const BucketItem& item = items[i];
    auto bucket = std::find_if(open.begin(), open.end(), [&](const Open& other) {
      return other.dtype == item.dtype && other.device == item.device;
    });
    if (bucket == open.end())
      bucket = open.insert(open.end(), {item.dtype, item.device, {}, 0, first_bytes});
    if (item.bytes >= bucket->limit && item.bytes >= bytes) {
      buckets.push_back({i});
      continue;
    }
    bucket->members.push_back(i);
    bucket->filled += item.bytes;
    if (bucket->filled < bucket->limit) continue;
    buckets.push_back(std::exchange(bucket->members, {}));
    bucket->filled = 0;
    bucket->limit = bytes;
  }
  for (Open& rest : open)
    if (!rest.members.empty()) buckets.push_back(std::move(rest.members));
  std::sort(buckets.begin(), buckets.end(),
            [](const auto& a, const auto& b) { return a.back() < b.back(); });
  return buckets;
}

ChunkLayout::ChunkLayout(std::span<const Array> arrays, int ranks) : ranks_(ranks) {
  std::vector<int64_t> filled(static_cast<size_t>(ranks), 0);
  for (const Array& array : arrays) {
    for (int rank = 0; rank < ranks; ++rank) {
      const ShardRange range = shard_range(array.numel, ranks, rank, array.turn);
      int64_t& end = filled[static_cast<size_t>(rank)];
      pieces_.push_back({range, end});
      end += range.size();
    }
  }
  for (const int64_t size : filled) chunk_ = std::max(chunk_, size);
}

bool ChunkLayout::is_array() const {
  if (std::ssize(pieces_) != ranks_) return false;
  for (int rank = 0; rank < ranks_; ++rank)
    if (piece(0, rank).range != ShardRange{rank * chunk_, (rank + 1) * chunk_}) return false;
  return true;
}

}  // namespace tensora::distributed
