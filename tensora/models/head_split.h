#pragma once

#include <cstdint>
#include <vector>

namespace tensora::models {

/// The items [begin, end).
struct IndexRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const IndexRange&) const = default;
};

/// Part `part` of `size` items that are divided into `parts` parts. The sizes of the parts differ
/// by at most one; the larger ones come first.
IndexRange balanced_part(int64_t size, int64_t parts, int64_t part);

/// The attention heads of one rank of a tensor-parallel model.
struct HeadPart {
  IndexRange query;
  IndexRange kv;  // the key/value heads that these query heads read
  /// Places in `kv` of the key/value heads, in the order in which grouped attention needs them:
  /// one for each query head where the query heads do not form groups of one size. Empty: `kv`
  /// itself.
  std::vector<int64_t> repeat;

  int64_t kv_slots() const {
    return repeat.empty() ? kv.size() : static_cast<int64_t>(repeat.size());
  }
};
/// Divides the query heads evenly, in units of `unit` heads; a key/value head is on every rank that
/// reads it. Throws where there are more ranks than units.
HeadPart head_part(int64_t heads, int64_t kv_heads, int64_t ranks, int64_t rank, int64_t unit = 1);

}  // namespace tensora::models
