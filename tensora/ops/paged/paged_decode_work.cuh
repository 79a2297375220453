#pragma once

// Internal header
// How paged_decode.cuh divides a launch's keys among its blocks.

#include "tensora/ops/paged/paged_tiles.cuh"

// Note [Division of decode attention]
// Lengths are known on the device only, and a launch that is part of a CUDA graph keeps its grid
// while sequences grow. So the grid fills the GPU, and each block finds its own share: all tiles of
// 64 keys, of all sequences and key/value heads, stand in one line, which is cut into equal shares.
// A share may begin and end in the middle of a sequence. What the blocks of one sequence and head
// leave is added by join_paged_parts; whatever lies within one share is written at once.

namespace tensora::cuda {

inline constexpr int kDecodeRows = kFewPagedRows;

/// How many rows of queries are in one launch's tiles.
struct DecodeGrid {
  int row_tiles;    // tiles of 16 rows per key/value head
  int rows;         // of a tile that are in use, at most
  int blocks;       // of the launch
  int least_tiles;  // per block
  int stages;       // tiles that a block requests ahead
  bool early;       // keys of earlier steps may be read before the previous kernel has ended
};

/// One sequence of the line.
struct DecodeSequence {
  int queries = 0, first_query = 0, length = 0, first_tile = 0, tiles = 0;
  const int* blocks = nullptr;

  __device__ DecodeSequence(const PagedCall& call, int sequence) {
    first_query = call.starts[sequence];
    queries = call.starts[sequence + 1] - first_query;
    if (queries <= 0) return;
    blocks = call.table + int64_t{sequence} * call.blocks_per_sequence;
    length = max(min(call.lengths[sequence], call.blocks_per_sequence * call.block_size), 0);
    first_tile = first_seen(call, 0) / kPagedKeys;
    // A sequence without keys has a tile, too: its results are zeros.
    tiles = max((length + kPagedKeys - 1) / kPagedKeys - first_tile, 1);
  }
  __device__ int position(int query) const { return length - queries + query; }
  /// The first position that queries from `query` on see.
  __device__ int first_seen(const PagedCall& call, int query) const {
    return call.window > 0 ? max(position(query) - call.window + 1, 0) : 0;
  }
};

/// A place in the line of tiles.
struct DecodeCursor {
  int sequence, head, tile;  // head: of keys and values, times row_tiles, plus the tile of rows
  DecodeSequence of;

  __device__ DecodeCursor(const PagedCall& call, int s, int h, int t)
      : sequence(s), head(h), tile(t), of(call, s) {}
  __device__ int first_key() const { return (of.first_tile + tile) * kPagedKeys; }
  __device__ bool ends_pair() const { return tile + 1 == of.tiles; }
  /// There must be a tile that follows.
  __device__ void advance(const PagedCall& call, const DecodeGrid& grid) {
    if (++tile < of.tiles) return;
    tile = 0;
    if (++head < call.groups * grid.row_tiles) return;
    head = 0;
    do of = DecodeSequence(call, ++sequence);
    while (of.tiles == 0);
  }
};

/// The part of the line that a block takes.
struct DecodeShare {
  int begin, end;            // tiles of the line
  int all, blocks;           // tiles, and blocks that have any
  int sequence, head, tile;  // where it begins

  /// Block b begins at tile b * all / blocks.
  __device__ static int begin_of(int block, int all, int blocks) {
    return static_cast<int>(int64_t{block} * all / blocks);
  }
  __device__ int block_of(int at) const {
    return static_cast<int>((int64_t{at + 1} * blocks - 1) / all);
  }
};

/// All threads of the block take part; each counts a run of sequences.
__device__ inline DecodeShare find_share(const PagedCall& call, const DecodeGrid& grid) {
  __shared__ int sums[kPagedThreads / 32], found[3];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int heads = call.groups * grid.row_tiles;
  const int each = (call.sequences + kPagedThreads - 1) / kPagedThreads;
  const int first = min(thread * each, call.sequences), last = min(first + each, call.sequences);
  int own = 0;
  for (int s = first; s < last; ++s) own += DecodeSequence(call, s).tiles;
  int through = own;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const int before = __shfl_up_sync(kWholeWarp, through, distance);
    if (lane >= distance) through += before;
  }
  if (lane == 31) sums[warp] = through;
  if (thread < 3) found[thread] = 0;
  __syncthreads();
  DecodeShare share{};
#pragma unroll
  for (int w = 0; w < kPagedThreads / 32; ++w) {
    if (w < warp) through += sums[w];
    share.all += sums[w];
  }
  share.all *= heads;
  share.blocks = max(min(grid.blocks, share.all / grid.least_tiles), 1);
  const int block = static_cast<int>(blockIdx.x);
  if (block < share.blocks && share.all > 0) {
    share.begin = DecodeShare::begin_of(block, share.all, share.blocks);
    share.end = DecodeShare::begin_of(block + 1, share.all, share.blocks);
  }
  int before = (through - own) * heads;
  if (before <= share.begin && share.begin < through * heads) {
    int s = first;
    for (;; ++s) {
      const int tiles = DecodeSequence(call, s).tiles;
      if (share.begin < before + tiles * heads) {
        found[0] = s;
        found[1] = (share.begin - before) / tiles;
        found[2] = (share.begin - before) % tiles;
        break;
      }
      before += tiles * heads;
    }
  }
  __syncthreads();
  share.sequence = found[0];
  share.head = found[1];
  share.tile = found[2];
  return share;
}

}  // namespace tensora::cuda
