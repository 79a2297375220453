#pragma once

#include <cstdint>
#include <string_view>

namespace tensora::cuda {

/// Keys, and a value that moves with each.
struct SortPairs {
  uint64_t* keys = nullptr;
  uint32_t* values = nullptr;
};

/// Sorts n < 2^31 pairs by the bits [first_bit, end_bit) of their keys; equal ones keep their
/// order. Both arrays are overwritten; returns the one that holds the result. Queued on the current
/// stream.
SortPairs sort_pairs(std::string_view op, int device, SortPairs pairs, SortPairs spare, int64_t n,
                     int first_bit, int end_bit);

}  // namespace tensora::cuda
