#pragma once

// The lines along one dim of an array, as items that can be sorted. See Note [Items].

#include "tensora/backend/cpu/scratch.h"
#include "tensora/backend/cpu/sort.h"
#include "tensora/core/sort_key.h"
#include "tensora/core/view.h"

namespace tensora::cpu::TENSORA_ISA {

/// Where the lines of an array begin, and how far apart their elements are. A 0-dim array counts
/// as one line of one element.
struct LinesOf {
  Shape sizes;      // of the other dims
  Strides strides;  // of the other dims, in elements
  int64_t step = 1, length = 1, count = 1;

  LinesOf(const View& view, int dim) {
    for (int d = 0; d < view.dim(); ++d) {
      if (d == dim) {
        step = view.strides[d];
        length = view.sizes[d];
      } else {
        sizes.push_back(view.sizes[d]);
        strides.push_back(view.strides[d]);
        count *= view.sizes[d];
      }
    }
  }
  int64_t start(int64_t line) const {
    int64_t offset = 0;
    for (int d = sizes.size() - 1; d >= 0; --d) {
      offset += line % sizes[d] * strides[d];
      line /= sizes[d];
    }
    return offset;
  }
};

/// How many lines a task takes at once. Where the elements of a line are far apart, adjacent lines
/// share cache lines.
inline int64_t lines_per_task(const LinesOf& lines) {
  constexpr int64_t kItemsPerTask = 8192, kAdjacent = 16;
  const int64_t wanted = std::max<int64_t>(1, kItemsPerTask / std::max<int64_t>(1, lines.length));
  return lines.step == 1 ? wanted : std::max(wanted, kAdjacent);
}

template <class T, class Item>
inline Item item_of(const T* from, int64_t step, SortKey<T> flip, int64_t i) {
  return make_item<Item>(sort_key(from[i * step]) ^ flip, i);
}

template <class T, class Item>
void load_items(const T* from, int64_t step, bool descending, int64_t begin, int64_t end,
                Item* to) {
  const SortKey<T> flip = descending ? kKeyMask<T> : 0;
  if (step == 1) {
    for (int64_t i = begin; i < end; ++i) to[i] = item_of<T, Item>(from, 1, flip, i);
    return;
  }
  for (int64_t i = begin; i < end; ++i) to[i] = item_of<T, Item>(from, step, flip, i);
}

/// The element behind an item of a line that begins at `from`.
template <class T, class Item>
inline T element_of(const Item& item, const T* from, int64_t step, bool descending) {
  const auto key = static_cast<SortKey<T>>(key_of(item)) ^ (descending ? kKeyMask<T> : 0);
  return key_tells<T>(key) ? element_of_key<T>(key) : from[index_of(item) * step];
}

/// Calls body.template operator()<Item>() with the narrowest items that serve.
template <class T, class Body>
void visit_item(int64_t length, Body&& body) {
  if constexpr (sizeof(T) < 8) {
    if (length <= int64_t{1} << 32) return body.template operator()<PackedItem>();
  }
  body.template operator()<WideItem>();
}

}  // namespace tensora::cpu::TENSORA_ISA
