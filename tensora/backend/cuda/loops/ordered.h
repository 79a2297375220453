#pragma once

// Writing and adding to locations that may occur more than once, in an order that does not depend
// on timing. See Note [Order of colliding writes].

#include <cstdint>
#include <string_view>

#include "tensora/backend/cuda/loops/sort.h"
#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/base/check.h"
#include "tensora/core/determinism.h"
#include "tensora/core/view.h"

namespace tensora::cuda {

// Note [Order of colliding writes]
// Several values may go to one location. By default each value has its own thread, and which comes
// last, or in which order floats are added, depends on timing. If the user asked for determinism,
// the values are first sorted by location with a stable sort: then the values of a location are
// adjacent and in their original order, and the last of them is written, or a segmented scan adds
// them up. Sums of integers are the same in any order and are never sorted.

/// Values that go to places of an array, for each of several lines: value number v of a line, at
/// `plain[line][v]`, goes to `data[line]` + the byte offset that is its key.
struct OrderedWrite {
  std::string_view op;
  int device = 0;
  SortPairs pairs;   // byte offsets, and the numbers of the values 0 … count - 1
  SortPairs sorted;  // memory for as many
  int64_t count = 0;
  uint64_t nowhere = 0;          // a key above all others: of values that go to no place
  View values;                   // of a line, in the shape in which they are numbered, row-major
  View plain_lines, data_lines;  // both in the shape of the lines, at value 0 and offset 0
};

/// Memory for an OrderedWrite's pairs.
class PairMemory {
 public:
  PairMemory(std::string_view op, int device, int64_t count)
      : count_(checked_count(op, count)), scratch_(device, 2 * count_ * kPairBytes) {}
  /// Number 0 or 1.
  SortPairs pairs(size_t number) const {
    auto* const keys = reinterpret_cast<uint64_t*>(scratch_.data());
    auto* const values = reinterpret_cast<uint32_t*>(keys + 2 * count_);
    return {keys + number * count_, values + number * count_};
  }

 private:
  static constexpr size_t kPairBytes = sizeof(uint64_t) + sizeof(uint32_t);
  static size_t checked_count(std::string_view op, int64_t count) {
    check(count < int64_t{1} << 31, op, ": ", count,
          " values cannot be sorted on cuda, at most 2^31 - 1 can",
          is_deterministic() ? "; without set_deterministic no sort is needed" : "");
    return static_cast<size_t>(count);
  }
  size_t count_;
  Scratch scratch_;
};

/// The last of the values of a location is written.
void write_in_order(const OrderedWrite& job);
/// The values of a location are added to it, or multiplied with it, in their order; floating
/// dtypes.
void add_in_order(const OrderedWrite& job);
void multiply_in_order(const OrderedWrite& job);

}  // namespace tensora::cuda
