#pragma once

#include <cstdint>
#include <string_view>

#include "tensora/core/dtype.h"

namespace tensora::cuda {

/// Lines of elements, one after the other, that are to be sorted.
struct SortJob {
  std::string_view op;
  int device = 0;
  DType dtype = DType::float32;  // a real one
  bool descending = false;
  int64_t lines = 0, length = 0;  // length < 2^31
  const void* from = nullptr;     // is only read
  void* to = nullptr;
  int64_t* indices = nullptr;  // where each element was in its line; null: nobody wants to know
};

/// Sorts each line; equal elements keep their order (Note [Sort keys] in core/sort_key.h). Queued
/// on the current stream.
void sort_lines(const SortJob& job);

/// Keys, and a value that moves with each.
struct SortPairs {
  uint64_t* keys = nullptr;
  uint32_t* values = nullptr;
};

/// Writes n < 2^31 pairs in the order of their keys, all below 2^bits, to `to`; equal ones keep
/// their order. `from` is only read. Queued on the current stream.
void sort_pairs(std::string_view op, int device, SortPairs from, SortPairs to, int64_t n, int bits);

}  // namespace tensora::cuda
