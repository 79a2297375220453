#pragma once

#include <cstdint>
#include <string_view>

namespace tensora::cuda {

/// Keys, and a value that moves with each.
template <class Key>
struct Pairs {
  Key* keys = nullptr;
  uint32_t* values = nullptr;
};
using SortPairs = Pairs<uint64_t>;

/// Sorts each of `lines` lines of n < 2^31 pairs by the bits [first_bit, end_bit) of their keys;
/// equal ones keep their order. `first_values` are the values at the beginning, pairs.values or, if
/// null, the positions in the line. Both arrays are overwritten; returns the one that holds the
/// result. Queued on the current stream. Defined for keys of 32 and of 64 bits.
template <class Key>
Pairs<Key> sort_lines_of_pairs(std::string_view op, int device, Pairs<Key> pairs, Pairs<Key> spare,
                               uint32_t* first_values, int64_t lines, int64_t n, int first_bit,
                               int end_bit);

/// One line.
inline SortPairs sort_pairs(std::string_view op, int device, SortPairs pairs, SortPairs spare,
                            int64_t n, int first_bit, int end_bit) {
  return sort_lines_of_pairs(op, device, pairs, spare, pairs.values, 1, n, first_bit, end_bit);
}

}  // namespace tensora::cuda
