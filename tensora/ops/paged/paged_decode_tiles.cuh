#pragma once

// Internal header
// How a warp of paged_decode.cuh gets its keys and values.

#include "tensora/ops/paged/paged_decode_work.cuh"

namespace tensora::cuda {

inline constexpr int kWarpKeys = 16, kDecodeWarps = kPagedThreads / 32;

/// What a cache may be. plain: numbers of the queries' dtype; bytes: float8 or q8_0, which are
/// copied as they are and converted when they are used. Both in blocks of a multiple of 16 keys, so
/// that 16 keys lie one behind the other. any: converted on the way to shared memory.
enum class DecodeCache : uint8_t { plain, bytes, any };

/// Bytes of 16 keys and 16 values of 16-bit numbers.
template <int width>
inline constexpr int kWarpTile = 2 * kWarpKeys * width * 2;
/// Of a head's numbers in a cache of bytes, at most: those of q8_0.
template <int width>
inline constexpr int kRowBytes = width / 32 * static_cast<int>(sizeof(BlockQ8_0));
/// Bytes of one request.
template <int width, DecodeCache cache>
inline constexpr int kDecodeTile =
    cache == DecodeCache::bytes ? 2 * kWarpKeys * kRowBytes<width> : kWarpTile<width>;
/// Shared memory of a warp.
template <int width, DecodeCache cache>
__host__ __device__ constexpr int decode_warp_bytes(int stages) {
  return stages * kDecodeTile<width, cache> + (cache == DecodeCache::bytes ? kWarpTile<width> : 0);
}

/// Of a head's numbers in a cache of bytes.
__device__ inline int row_bytes_of(const PagedCall& call) {
  return call.cache_dtype == DType::q8_0 ? call.size / 32 * static_cast<int>(sizeof(BlockQ8_0))
                                         : call.size;
}

/// Eight numbers of a cache of float8.
struct Float8Chunk {
  uint2 words;

  __device__ void read(const char* row, int chunk) {
    words = *reinterpret_cast<const uint2*>(row + chunk * 8);
  }
  template <class T>
  __device__ uint4 widened() const {
    float numbers[8];
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const auto pair = static_cast<unsigned short>((i < 2 ? words.x : words.y) >> i % 2 * 16);
      unsigned halves;
      asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(pair));
      numbers[2 * i] =
          static_cast<float>(__builtin_bit_cast(Half, static_cast<unsigned short>(halves)));
      numbers[2 * i + 1] =
          static_cast<float>(__builtin_bit_cast(Half, static_cast<unsigned short>(halves >> 16)));
    }
#else
    widen<Float8E4M3, 8>(words, numbers);
#endif
    return {round_pair<T>(numbers[0], numbers[1]), round_pair<T>(numbers[2], numbers[3]),
            round_pair<T>(numbers[4], numbers[5]), round_pair<T>(numbers[6], numbers[7])};
  }
};

/// Eight numbers of a cache of q8_0. A byte becomes a float as the low bits of 2^23: conversions of
/// integers are slow.
struct Q8Chunk {
  unsigned words[2];
  Half scale;

  __device__ void read(const char* row, int chunk) {
    const char* const block = row + chunk / 4 * static_cast<int>(sizeof(BlockQ8_0));
    const auto* const pairs = reinterpret_cast<const unsigned short*>(block + 2) + chunk % 4 * 4;
    scale = *reinterpret_cast<const Half*>(block);
#pragma unroll
    for (int i = 0; i < 2; ++i)
      words[i] = pairs[2 * i] | static_cast<unsigned>(pairs[2 * i + 1]) << 16;
  }
  template <class T>
  __device__ uint4 widened() const {
    const auto factor = static_cast<float>(scale);
    float numbers[8];
#pragma unroll
    for (unsigned i = 0; i < 8; ++i) {
      const unsigned bits = __byte_perm(words[i / 4] ^ 0x80808080u, 0x4B000000u, 0x7650u + i % 4);
      numbers[i] = (__builtin_bit_cast(float, bits) - 8388736.0f) * factor;
    }
    return {round_pair<T>(numbers[0], numbers[1]), round_pair<T>(numbers[2], numbers[3]),
            round_pair<T>(numbers[4], numbers[5]), round_pair<T>(numbers[6], numbers[7])};
  }
};

/// Converts 16 keys and values of a cache of bytes; those from `count` on become zero. Loads some
/// chunks before it converts the first, so as to wait for shared memory once.
template <class T, int width, class Chunk>
__device__ inline void convert_runs(const PagedCall& call, const char* from, int count, char* to) {
  constexpr int kChunks = width / 8, kAtOnce = 8;
  static_assert(2 * kWarpKeys * kChunks % (32 * kAtOnce) == 0);
  constexpr int kRounds = 2 * kWarpKeys * kChunks / (32 * kAtOnce);
  const int lane = static_cast<int>(threadIdx.x) % 32, bytes = row_bytes_of(call);
  const auto place = [&](int number, int& value, int& r, int& chunk) {
    const int i = number * 32 + lane;
    value = i / (kWarpKeys * kChunks), r = i / kChunks % kWarpKeys, chunk = i % kChunks;
  };
#pragma unroll 1
  for (int round = 0; round < kRounds; ++round) {
    Chunk chunks[kAtOnce];
    int value, r, chunk;
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      place(round * kAtOnce + j, value, r, chunk);
      chunks[j] = {};
      if (r < count && chunk * 8 < call.size)
        chunks[j].read(from + value * kWarpKeys * kRowBytes<width> + r * bytes, chunk);
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      place(round * kAtOnce + j, value, r, chunk);
      *reinterpret_cast<uint4*>(
          to + value * kWarpKeys * width * 2 +
          chunk_at<width>(static_cast<unsigned>(r), static_cast<unsigned>(chunk))) =
          chunks[j].template widened<T>();
    }
  }
}

/// Requests a warp's keys of a tile. The number of the block that holds them is read one tile
/// ahead of its use.
template <class T, int width, DecodeCache cache>
struct DecodeRequests {
  static constexpr int kChunks = width / 8, kCopies = kWarpKeys * kChunks / 32;
  DecodeCursor at;
  int left;   // tiles to request
  int block;  // of the keys at `at`: of this lane's key, or of all

  __device__ DecodeRequests(const PagedCall& call, const DecodeShare& share)
      : at(call, share.sequence, share.head, share.tile), left(share.end - share.begin) {
    read_block(call);
  }
  __device__ int first_key() const {
    return at.first_key() + static_cast<int>(threadIdx.x) / 32 * kWarpKeys;
  }
  __device__ static int block_of(const PagedCall& call, int position) {
    return call.block_shift >= 0 ? position >> call.block_shift : position / call.block_size;
  }
  __device__ void read_block(const PagedCall& call) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpKeys;
    const int position = first_key() + (cache == DecodeCache::any ? lane : 0);
    block = left > 0 && position < at.of.length ? at.of.blocks[block_of(call, position)] : 0;
  }
  /// Whether the tile has keys that are stored by the kernel before.
  __device__ bool is_fresh() const {
    return at.first_key() + kPagedKeys > at.of.length - at.of.queries;
  }
  __device__ void operator()(const PagedCall& call, const DecodeGrid& grid, unsigned tile) {
    if (left > 0) {
      const int group = at.head / grid.row_tiles;
      if constexpr (cache == DecodeCache::plain)
        copy_run(call, group, tile);
      else if constexpr (cache == DecodeCache::bytes)
        copy_bytes(call, group, tile);
      else
        copy_rows(call, group, tile);
      if (--left > 0) at.advance(call, grid);
      read_block(call);
    }
    close_copies();
  }
  /// The row of the first key in the cache, where 16 keys lie one behind the other.
  __device__ int64_t first_row(const PagedCall& call, int group) const {
    const int first = first_key(), place = first - block_of(call, first) * call.block_size;
    return (int64_t{block} * call.groups + group) * call.block_size + place;
  }
  __device__ void copy_run(const PagedCall& call, int group, unsigned tile) const {
    const int first = first_key(), lane = static_cast<int>(threadIdx.x) % 32;
    const int64_t row = first_row(call, group);
    const char* const keys = call.keys + row * call.size * 2;
    const char* const values = call.values + row * call.size * 2;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int number = i * 32 + lane, r = number / kChunks, chunk = number % kChunks;
      const bool inside = first + r < at.of.length && chunk * 8 < call.size;
      const int from = inside ? r * call.size * 2 + chunk * 16 : 0;
      const unsigned to =
          tile + chunk_at<width>(static_cast<unsigned>(r), static_cast<unsigned>(chunk));
      copy_chunk(to, inside ? keys + from : call.keys, inside);
      copy_chunk(to + kWarpKeys * width * 2, inside ? values + from : call.values, inside);
    }
  }
  // As they are, the last of them from places that no key was written to.
  __device__ void copy_bytes(const PagedCall& call, int group, unsigned tile) const {
    if (first_key() >= at.of.length) return;
    const int bytes = row_bytes_of(call);
    const int64_t from = first_row(call, group) * bytes;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x) % 32; i < bytes; i += 32) {
      copy_chunk(tile + static_cast<unsigned>(i * 16), call.keys + from + i * 16, true);
      copy_chunk(tile + static_cast<unsigned>(kWarpKeys * kRowBytes<width> + i * 16),
                 call.values + from + i * 16, true);
    }
  }
  __device__ void copy_rows(const PagedCall& call, int group, unsigned tile) const {
    const int first = first_key(), lane = static_cast<int>(threadIdx.x) % 32;
    const bool same = is_16_bits_of<T>(call.cache_dtype);
    for (int i = 0; i < kCopies; ++i) {
      const int number = i * 32 + lane, r = number / kChunks, chunk = number % kChunks;
      const int position = first + r;
      const int its_block = __shfl_sync(kWholeWarp, block, r);
      const bool inside = position < at.of.length && chunk * 8 < call.size;
      const int place = position - block_of(call, position) * call.block_size;
      const int64_t row = (int64_t{its_block} * call.groups + group) * call.block_size + place;
      const int64_t from = inside ? row * call.size + chunk * 8 : 0;
      const unsigned to =
          tile + chunk_at<width>(static_cast<unsigned>(r), static_cast<unsigned>(chunk));
      if (same) {
        copy_chunk(to, call.keys + from * 2, inside);
        copy_chunk(to + kWarpKeys * width * 2, call.values + from * 2, inside);
      } else {
        convert_chunk<T>(to, call.keys, call.cache_dtype, from, inside);
        convert_chunk<T>(to + kWarpKeys * width * 2, call.values, call.cache_dtype, from, inside);
      }
    }
  }
};

}  // namespace tensora::cuda
