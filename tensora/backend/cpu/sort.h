#pragma once

// Sorting on the CPU. See Note [Sort keys] in core/sort_key.h.
//
// Note [Items]
// What is sorted are pairs of a key and the element's position, compared by both: no two are equal,
// so any correct sort by comparison is stable. Sorts by digits look at the keys alone and keep the
// order of equal ones: they expect the items in the order of their positions. Keys of 32 bits and
// positions below 2^32 share a word.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "tensora/base/thread_pool.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tensora::cpu::TENSORA_ISA {

using PackedItem = uint64_t;
struct WideItem {
  uint64_t key, index;
  bool operator<(const WideItem& other) const {
    return key != other.key ? key < other.key : index < other.index;
  }
};

template <class Item>
inline Item make_item(uint64_t key, int64_t index) {
  if constexpr (std::is_same_v<Item, PackedItem>)
    return key << 32 | static_cast<uint64_t>(index);
  else
    return {key, static_cast<uint64_t>(index)};
}
inline uint64_t key_of(PackedItem item) { return item >> 32; }
inline uint64_t key_of(const WideItem& item) { return item.key; }
inline int64_t index_of(PackedItem item) { return static_cast<int64_t>(item & 0xffffffffu); }
inline int64_t index_of(const WideItem& item) { return static_cast<int64_t>(item.index); }

inline constexpr int kDigitBits = 8;
inline constexpr int kBins = 1 << kDigitBits;

template <class Item>
inline int digit_of(const Item& item, int shift) {
  return static_cast<int>(key_of(item) >> shift & (kBins - 1));
}

/// Few enough to compare.
template <class Item>
void sort_few(Item* items, int64_t n) {
  constexpr int64_t kInsertion = 24;
  if (n > kInsertion) return std::sort(items, items + n);
  for (int64_t i = 1; i < n; ++i) {
    const Item item = items[i];
    int64_t to = i;
    for (; to > 0 && item < items[to - 1]; --to) items[to] = items[to - 1];
    items[to] = item;
  }
}

template <int kPasses, class Item>
void count_digits(const Item* items, int64_t n, uint32_t (*counts)[kBins]) {
  for (int64_t i = 0; i < n; ++i)
    for (int p = 0; p < kPasses; ++p) ++counts[p][digit_of(items[i], p * kDigitBits)];
}

/// In the cache of one core: distributed by eight bits of the key at a time, the lowest first. A
/// digit that all keys share is skipped. Returns the array that holds the result.
template <class Item>
Item* sort_in_cache(Item* items, Item* spare, int64_t n, int key_bits) {
  constexpr int64_t kFew = 160;
  if (n <= kFew) {
    sort_few(items, n);
    return items;
  }
  constexpr int kMaxPasses = std::is_same_v<Item, PackedItem> ? 4 : 8;
  const int passes = (key_bits + kDigitBits - 1) / kDigitBits;
  uint32_t counts[kMaxPasses][kBins] = {};
  if (passes == 1) count_digits<1>(items, n, counts);
  if (passes == 2) count_digits<2>(items, n, counts);
  if (passes == 4) count_digits<4>(items, n, counts);
  if constexpr (kMaxPasses == 8)
    if (passes == 8) count_digits<8>(items, n, counts);
  for (int p = 0; p < passes; ++p) {
    const int shift = p * kDigitBits;
    uint32_t* const starts = counts[p];
    if (starts[digit_of(items[0], shift)] == n) continue;
    uint32_t before = 0;
    for (int b = 0; b < kBins; ++b) before += std::exchange(starts[b], before);
    for (int64_t i = 0; i < n; ++i) spare[starts[digit_of(items[i], shift)]++] = items[i];
    std::swap(items, spare);
  }
  return items;
}

// Note [Write combining]
// Distributed over 256 bins, single items would be written to 256 places of a large array in turn,
// each of which first has to be read into the cache. So a thread collects a cache line per bin, and
// writes whole lines past the cache.
template <class Item>
class CombiningWriter {
 public:
  static constexpr int64_t kPerLine = 64 / static_cast<int64_t>(sizeof(Item));

  /// `next`: where each bin continues; advanced.
  CombiningWriter(Item* to, int64_t* next) : to_(to), next_(next) {
    for (int b = 0; b < kBins; ++b) first_[b] = next[b];
  }
  void put(int bin, const Item& item) {
    const int64_t at = next_[bin]++;
    lines_[bin][at % kPerLine] = item;
    if (at % kPerLine == kPerLine - 1) flush(bin, at + 1);
  }
  void finish() {
    for (int b = 0; b < kBins; ++b)
      if (next_[b] % kPerLine != 0) flush(b, next_[b]);
#if defined(__SSE2__)
    _mm_sfence();
#endif
  }

 private:
  // The items of the line that ends at `end`, as far as they are this bin's.
  void flush(int bin, int64_t end) {
    const int64_t line = (end - 1) / kPerLine * kPerLine, begin = std::max(line, first_[bin]);
    Item* const target = to_ + begin;
#if defined(__SSE2__)
    if (end - begin == kPerLine && reinterpret_cast<uintptr_t>(target) % 16 == 0) {
      const auto* const from = reinterpret_cast<const __m128i*>(lines_[bin]);
      for (int w = 0; w < 4; ++w)
        _mm_stream_si128(reinterpret_cast<__m128i*>(target) + w, _mm_load_si128(from + w));
      return;
    }
#endif
    std::copy_n(lines_[bin] + begin - line, end - begin, target);
  }

  Item* to_;
  int64_t* next_;
  int64_t first_[kBins];
  alignas(64) Item lines_[kBins][kPerLine];
};

/// A long array, on all threads. A pass counts the digits of each thread's part, which gives where
/// each part's share of each bin begins.
template <class Item>
Item* sort_long(Item* items, Item* spare, int64_t n, int key_bits) {
  const int64_t parts = std::clamp<int64_t>(n / 32768, 1, get_num_threads());
  const auto begin_of = [&](int64_t part) { return n * part / parts; };
  std::vector<int64_t> starts(static_cast<size_t>(parts * kBins));
  for (int shift = 0; shift < key_bits; shift += kDigitBits) {
    parallel_for(parts, 1, [&](int64_t first, int64_t last) {
      for (int64_t part = first; part < last; ++part) {
        int64_t counts[kBins] = {};
        for (int64_t i = begin_of(part); i < begin_of(part + 1); ++i)
          ++counts[digit_of(items[i], shift)];
        std::copy_n(counts, kBins, starts.data() + part * kBins);
      }
    });
    int64_t before = 0, largest = 0;
    for (int b = 0; b < kBins; ++b) {
      const int64_t start = before;
      for (int64_t part = 0; part < parts; ++part)
        before += std::exchange(starts[static_cast<size_t>(part * kBins + b)], before);
      largest = std::max(largest, before - start);
    }
    if (largest == n) continue;
    parallel_for(parts, 1, [&](int64_t first, int64_t last) {
      for (int64_t part = first; part < last; ++part) {
        CombiningWriter<Item> writer(spare, starts.data() + part * kBins);
        for (int64_t i = begin_of(part); i < begin_of(part + 1); ++i)
          writer.put(digit_of(items[i], shift), items[i]);
        writer.finish();
      }
    });
    std::swap(items, spare);
  }
  return items;
}

/// Beyond this, one line is sorted by all threads.
inline constexpr int64_t kLongLine = 128 * 1024;

}  // namespace tensora::cpu::TENSORA_ISA
