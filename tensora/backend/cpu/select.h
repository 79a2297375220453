#pragma once

// The least items of a line, without sorting it. See Note [Items] in backend/cpu/sort.h.

#include "tensora/backend/cpu/sort_lines.h"

namespace tensora::cpu::TENSORA_ISA {

/// Collects the `wanted` least items of those that it is shown in the order of their positions.
///
/// When its buffer is full it drops all but the wanted ones; from then on only keys below the
/// largest of those are taken, which few are: most blocks of elements are compared and passed over.
template <class T, class Item>
class LeastItems {
 public:
  LeastItems(Item* buffer, int64_t capacity, int64_t wanted)
      : items_(buffer), capacity_(capacity), wanted_(wanted) {}

  static int64_t capacity_for(int64_t wanted) { return 2 * wanted + 512; }

  void look_at(const T* from, int64_t step, bool descending, int64_t begin, int64_t end) {
    const SortKey<T> flip = descending ? kKeyMask<T> : 0;
    if (step == 1 && open_ && wanted_ > 0 && end - begin >= 4 * wanted_ * kBlock)
      return look_at_blocks(from, flip, begin, end);
    SortKey<T> keys[kBlock];
    for (int64_t first = begin; first < end; first += kBlock) {
      const int64_t count = std::min(kBlock, end - first);
      int below = open_;
      if (step == 1) {
#pragma omp simd reduction(| : below)
        for (int64_t i = 0; i < count; ++i) {
          keys[i] = sort_key(from[first + i]) ^ flip;
          below |= keys[i] < limit_;
        }
      } else {
        for (int64_t i = 0; i < count; ++i) {
          keys[i] = sort_key(from[(first + i) * step]) ^ flip;
          below |= keys[i] < limit_;
        }
      }
      if (!below) continue;
      for (int64_t i = 0; i < count; ++i)
        if (open_ || keys[i] < limit_) take(make_item<Item>(keys[i], first + i));
    }
  }
  void take(const Item& item) {
    items_[count_++] = item;
    if (count_ == capacity_) drop();
  }
  /// How many items the buffer holds in the end, in no order: what was wanted, or all there were.
  int64_t finish() {
    if (count_ > wanted_) drop();
    return count_;
  }

 private:
  static constexpr int64_t kBlock = 128;

  // The wanted items are among the blocks whose least keys are least: of those, the key of block
  // number `wanted` is a bound, and few blocks have anything up to it.
  [[gnu::noinline]] void look_at_blocks(const T* from, SortKey<T> flip, int64_t begin,
                                        int64_t end) {
    const int64_t blocks = (end - begin + kBlock - 1) / kBlock;
    const HostScratch<SortKey<T>> least(blocks), ordered(blocks);
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t first = begin + block * kBlock, last = std::min(end, first + kBlock);
      SortKey<T> key = kKeyMask<T>;
#pragma omp simd reduction(min : key)
      for (int64_t i = first; i < last; ++i) key = std::min(key, sort_key(from[i]) ^ flip);
      least.data()[block] = ordered.data()[block] = key;
    }
    std::nth_element(ordered.data(), ordered.data() + wanted_ - 1, ordered.data() + blocks);
    const SortKey<T> bound = ordered.data()[wanted_ - 1];
    int64_t equal = 0;  // to the bound: of those the first ones are enough
    for (int64_t block = 0; block < blocks; ++block) {
      const SortKey<T> key = least.data()[block];
      if (key > bound || (key == bound && equal == wanted_)) continue;
      const int64_t first = begin + block * kBlock, last = std::min(end, first + kBlock);
      for (int64_t i = first; i < last; ++i) equal += take_up_to(bound, equal, from[i], flip, i);
    }
  }
  // Whether an element was taken that equals the bound.
  bool take_up_to(SortKey<T> bound, int64_t equal, T element, SortKey<T> flip, int64_t i) {
    const SortKey<T> key = sort_key(element) ^ flip;
    if (key > bound || (key == bound && equal == wanted_) || (!open_ && key >= limit_))
      return false;
    take(make_item<Item>(key, i));
    return key == bound;
  }
  void drop() {
    if (wanted_ > 0) {
      std::nth_element(items_, items_ + wanted_ - 1, items_ + count_);
      limit_ = static_cast<SortKey<T>>(key_of(items_[wanted_ - 1]));
    }
    count_ = wanted_;
    open_ = false;
  }

  Item* items_;
  int64_t capacity_, wanted_, count_ = 0;
  SortKey<T> limit_ = 0;
  bool open_ = true;  // everything is taken
};

/// Item number `rank` of a long array in the order of items, by all threads: the bin of the highest
/// digit in which it lies is kept, then that of the next digit. Both arrays are overwritten.
template <class Item>
Item select_long(Item* items, Item* spare, int64_t n, int64_t rank, int key_bits) {
  constexpr int64_t kFew = 32 * 1024;
  for (int shift = key_bits - kDigitBits; shift >= 0 && n > kFew; shift -= kDigitBits) {
    const int64_t parts = std::clamp<int64_t>(n / kFew, 1, get_num_threads());
    const auto begin_of = [&](int64_t part) { return n * part / parts; };
    std::vector<int64_t> counts(static_cast<size_t>(parts * kBins));
    parallel_for(parts, 1, [&](int64_t first, int64_t last) {
      for (int64_t part = first; part < last; ++part)
        for (int64_t i = begin_of(part); i < begin_of(part + 1); ++i)
          ++counts[static_cast<size_t>(part * kBins + digit_of(items[i], shift))];
    });
    int bin = -1;
    int64_t count = 0;
    while (rank >= count) {
      rank -= count;
      count = 0;
      ++bin;
      for (int64_t part = 0; part < parts; ++part)
        count += counts[static_cast<size_t>(part * kBins + bin)];
    }
    if (count == n) continue;
    parallel_for(parts, 1, [&](int64_t first, int64_t last) {
      int64_t to = 0;
      for (int64_t part = 0; part < first; ++part)
        to += counts[static_cast<size_t>(part * kBins + bin)];
      for (int64_t i = begin_of(first); i < begin_of(last); ++i)
        if (digit_of(items[i], shift) == bin) spare[to++] = items[i];
    });
    std::swap(items, spare);
    n = count;
  }
  std::nth_element(items, items + rank, items + n);
  return items[rank];
}

}  // namespace tensora::cpu::TENSORA_ISA
