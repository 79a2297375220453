#pragma once

// Selection on the device.
//
// Note [Selection by digits]
// The item of a given rank is found without sorting: the items are counted by the highest digit of
// their key, the bin in which the item lies is kept, and the items in that bin are counted by the
// next digit. Items are keys and positions, compared by both, so the digits of the key are followed
// by those of the position, and no two items are equal; in most lines few of the digits are needed.

#include <bit>

#include "tensora/ops/sort/sort_lines.cuh"

namespace tensora::cuda {

inline constexpr unsigned kSelectThreads = 512, kSelectBins = 256;
inline constexpr int kSelectBits = 8;

/// The items that have not been excluded yet.
template <class Key>
struct Bin {
  Key low, high;  // bounds, inclusive
  unsigned index_low, index_high;
  unsigned rank;   // of the wanted item among them, counted from 1
  unsigned count;  // of them

  __device__ static Bin all(unsigned rank, unsigned count) {
    return {Key(0), static_cast<Key>(~Key(0)), 0, ~0u, rank, count};
  }
  __device__ bool contains(Key key, unsigned index) const {
    return key >= low && key <= high && index >= index_low && index <= index_high;
  }
  /// Whether an item is in the bin or before it.
  __device__ bool reaches(Key key, unsigned index) const {
    return key < low || (key <= high && index <= index_high);
  }
};

/// How many bits the keys and the positions of items have.
struct ItemBits {
  int key, index;

  __host__ __device__ static int digits_of(int bits) {
    return (bits + kSelectBits - 1) / kSelectBits;
  }
  __host__ __device__ int digits() const { return digits_of(key) + digits_of(index); }
};

/// Of the positions in a row.
inline int index_bits(int64_t length) { return std::bit_width(static_cast<uint64_t>(length - 1)); }

/// A digit of items, number 0 being the highest of the key.
template <class Key>
struct ItemDigit {
  int shift;
  bool of_index;

  __host__ __device__ ItemDigit(int number, const ItemBits& bits) {
    const int of_key = ItemBits::digits_of(bits.key);
    of_index = number >= of_key;
    shift = kSelectBits * ((of_index ? bits.digits() : of_key) - number - 1);
  }
  __device__ unsigned operator()(Key key, unsigned index) const {
    return (of_index ? index >> shift : static_cast<unsigned>(key >> shift)) & (kSelectBins - 1);
  }
};

/// Keeps the part of `bin`, in shared memory, in which the wanted item lies. Called by all threads
/// of the block, which are synchronized afterwards.
template <class Key>
__device__ inline void narrow(Bin<Key>& bin, const unsigned* counts, const ItemDigit<Key>& digit) {
  __shared__ unsigned warps[kSelectBins / 32];
  __syncthreads();
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned rank = bin.rank, mine = threadIdx.x < kSelectBins ? counts[threadIdx.x] : 0;
  unsigned through = mine;
#pragma unroll
  for (unsigned delta = 1; delta < 32; delta *= 2) {
    const unsigned below = __shfl_up_sync(kWholeWarp, through, delta);
    if (lane >= delta) through += below;
  }
  if (lane == 31 && threadIdx.x < kSelectBins) warps[warp] = through;
  __syncthreads();
  if (threadIdx.x < kSelectBins) {
    for (unsigned w = 0; w < warp; ++w) through += warps[w];
    if (through - mine < rank && rank <= through) {  // one thread
      bin.rank = rank - (through - mine);
      bin.count = mine;
      if (digit.of_index) {
        bin.index_low |= threadIdx.x << digit.shift;
        bin.index_high = bin.index_low | ((1u << digit.shift) - 1);
      } else {
        bin.low |= static_cast<Key>(threadIdx.x) << digit.shift;
        bin.high = bin.low | ((Key(1) << digit.shift) - 1);
      }
    }
  }
  __syncthreads();
}

/// Where items come from: elements of an array, or items that were selected before.
template <class Key>
struct ItemSource {
  const char* data;
  const KeyedItem<Key>* items;  // or null
  DType dtype;
  bool descending;
  ItemBits bits;

  /// Calls body(key, index) for the items [begin, end) of the row that starts at element
  /// `row_start`, shared among the block's threads.
  template <class Body>
  __device__ void each(long long row_start, unsigned begin, unsigned end, Body&& body) const {
    const unsigned stride = blockDim.x;
    if (items) {
      for (unsigned i = begin + threadIdx.x; i < end; i += stride) {
        const KeyedItem<Key> item = items[row_start + i];
        body(item.key, item.index);
      }
      return;
    }
    visit_keyed<Key>(dtype, [&]<class T>() {
      constexpr unsigned kTogether = 16 / sizeof(T);  // what can be loaded at once
      const T* const from = reinterpret_cast<const T*>(data) + row_start;
      const Key flip = descending ? kKeyMask<T> : 0;
      unsigned rest = begin;
      if (reinterpret_cast<uintptr_t>(from + begin) % 16 == 0) {
        rest = end - (end - begin) % kTogether;
        for (unsigned i = begin + threadIdx.x * kTogether; i < rest; i += stride * kTogether) {
          const uint4 word = __ldg(reinterpret_cast<const uint4*>(from + i));
          T loaded[kTogether];
          __builtin_memcpy(loaded, &word, sizeof loaded);
#pragma unroll
          for (unsigned u = 0; u < kTogether; ++u) body(sort_key(loaded[u]) ^ flip, i + u);
        }
      }
      for (unsigned i = rest + threadIdx.x; i < end; i += stride) body(sort_key(from[i]) ^ flip, i);
    });
  }
};

/// Narrows `bin`, in shared memory, until `is_enough(bin)`. Called by all threads of the block,
/// which are synchronized afterwards.
template <class Key, class Enough>
__device__ inline void find_bin(const ItemSource<Key>& source, long long row_start, unsigned begin,
                                unsigned end, Bin<Key>& bin, Enough is_enough) {
  __shared__ unsigned counts[kSelectBins];
  __syncthreads();
  const int digits = source.bits.digits();
  for (int number = 0; number < digits && !is_enough(bin); ++number) {
    const ItemDigit<Key> digit(number, source.bits);
    if (threadIdx.x < kSelectBins) counts[threadIdx.x] = 0;
    __syncthreads();
    source.each(row_start, begin, end, [&, bin = bin](Key key, unsigned index) {
      if (bin.contains(key, index)) atomicAdd(&counts[digit(key, index)], 1u);
    });
    narrow(bin, counts, digit);
  }
}

}  // namespace tensora::cuda
