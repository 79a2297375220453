#pragma once

// Internal header: CPU loops over a whole list of dense tensors.

#include <algorithm>
#include <span>
#include <vector>

#include "tensora/backend/cpu/convert.h"
#include "tensora/base/thread_pool.h"
#include "tensora/core/view.h"

namespace tensora::cpu::TENSORA_ISA {

inline constexpr int64_t kTile = 1024;
inline constexpr int64_t kTaskTiles = 16;

// The tiles of all tensors, numbered through, so that threads share small and large ones evenly.
class TileList {
 public:
  explicit TileList(std::span<const int64_t> sizes) : sizes_(sizes), starts_{0} {
    for (int64_t size : sizes) starts_.push_back(starts_.back() + (size + kTile - 1) / kTile);
  }
  // body(tensor, first element, count, number of the tile)
  template <class Body>
  void each(const Body& body) const {
    parallel_for(starts_.back(), kTaskTiles, [&](int64_t begin, int64_t end) {
      auto at = static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), begin) -
                                    starts_.begin()) -
                1;
      for (int64_t tile = begin; tile < end; ++tile) {
        while (tile >= starts_[at + 1]) ++at;
        const int64_t first = (tile - starts_[at]) * kTile;
        body(at, first, std::min(kTile, sizes_[at] - first), tile);
      }
    });
  }
  int64_t tiles() const { return starts_.back(); }

 private:
  std::span<const int64_t> sizes_;
  std::vector<int64_t> starts_;
};

// One array of a list: elements in memory order.
template <class C>
struct Column {
  char* data;
  int64_t bytes;
  LoadFn load;
  StoreFn store;

  explicit Column(const View& view)
      : data(view.as<char>()),
        bytes(static_cast<int64_t>(element_size(view.dtype))),
        load(load_fn<C>(view.dtype)),
        store(store_fn<C>(view.dtype)) {}
  void read(int64_t first, int64_t n, C* to) const { load(data + first * bytes, 1, n, to); }
  void write(int64_t first, int64_t n, const C* from) const {
    store(from, data + first * bytes, 1, n);
  }
};

// A part of such an array for a loop that changes it in place: the array's own memory where that is
// of the type of the loop, else a copy. Tiles side by side lie more than a multiple of 4096 bytes
// apart, which would make the load of one wait for the store of another.
template <class C>
class StepTile {
 public:
  C* read(const View& view, int64_t first, int64_t n) {
    view_ = &view;
    if (view.dtype == dtype_of<C>) return view.as<C>() + first;
    Column<C>(view).read(first, n, copy_);
    return copy_;
  }
  void write(int64_t first, int64_t n) const {
    if (view_->dtype != dtype_of<C>) Column<C>(*view_).write(first, n, copy_);
  }

 private:
  const View* view_ = nullptr;
  alignas(64) C copy_[kTile];
  char gap_[64];
};

}  // namespace tensora::cpu::TENSORA_ISA
