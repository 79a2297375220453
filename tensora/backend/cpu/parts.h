#pragma once

// Parts of arrays moved as bytes: what joining, slicing and scattering ops are made of.

#include <algorithm>
#include <cstring>

#include "tensora/backend/cpu/copy.h"
#include "tensora/base/thread_pool.h"

namespace tensora::cpu::TENSORA_ISA {

inline constexpr int64_t kBytesPerPart = 128 * 1024;

/// How many items of `bytes` each make a task of a sensible size.
inline int64_t items_per_task(int64_t bytes) {
  return std::max<int64_t>(1, kBytesPerPart / std::max<int64_t>(1, bytes));
}

/// `count` elements along one dim: `start`, `start + step`, …
inline View part_of(View view, int dim, int64_t start, int64_t step, int64_t count) {
  const auto bytes = static_cast<int64_t>(element_size(view.dtype));
  if (count > 0) view.data = view.as<char>() + start * view.strides[dim] * bytes;
  view.sizes[dim] = count;
  view.strides[dim] *= step;
  view.update();
  return view;
}

inline void zero_elements(const View& target) {
  if (target.numel == 0) return;
  if (is_dense(target.sizes, target.strides)) {
    parallel_for(static_cast<int64_t>(target.bytes()), kBytesPerPart,
                 [&](int64_t begin, int64_t end) {
                   std::memset(target.as<char>() + begin, 0, static_cast<size_t>(end - begin));
                 });
    return;
  }
  alignas(kMaxElementSize) char nothing[kMaxElementSize] = {};
  View source = target;
  source.data = nothing;
  source.strides = Strides::filled(target.dim(), 0);
  source.update();
  copy_elements(source, target);
}

/// Copies `rows` runs of `bytes` each, `from_step` and `to_step` bytes apart.
inline void copy_rows(const char* from, int64_t from_step, char* to, int64_t to_step, int64_t rows,
                      int64_t bytes) {
  const auto copy_each = [&](auto fixed) {
    parallel_for(rows, items_per_task(bytes), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        std::memcpy(to + row * to_step, from + row * from_step, fixed());
    });
  };
  switch (bytes) {  // a known length is a plain load and store
    case 4:
      return copy_each([] { return size_t{4}; });
    case 8:
      return copy_each([] { return size_t{8}; });
    case 16:
      return copy_each([] { return size_t{16}; });
    case 32:
      return copy_each([] { return size_t{32}; });
    case 64:
      return copy_each([] { return size_t{64}; });
  }
  if (bytes <= kBytesPerPart) return copy_each([&] { return static_cast<size_t>(bytes); });
  // Long rows are divided among threads too.
  parallel_for(rows * bytes, kBytesPerPart, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t row = begin / bytes, skipped = begin % bytes;
      const int64_t count = std::min(end - begin, bytes - skipped);
      std::memcpy(to + row * to_step + skipped, from + row * from_step + skipped,
                  static_cast<size_t>(count));
      begin += count;
    }
  });
}

}  // namespace tensora::cpu::TENSORA_ISA
