#include "tensora/models/head_split.h"

#include <algorithm>

#include "tensora/base/check.h"

namespace tensora::models {

IndexRange balanced_part(int64_t size, int64_t parts, int64_t part) {
  ensure(parts > 0 && part >= 0 && part < parts, "part ", part, " of ", parts);
  const int64_t least = size / parts, larger = size % parts;
  const int64_t begin = part * least + std::min(part, larger);
  return {begin, begin + least + (part < larger ? 1 : 0)};
}

HeadPart head_part(int64_t heads, int64_t kv_heads, int64_t ranks, int64_t rank, int64_t unit) {
  check(kv_heads > 0 && heads % kv_heads == 0, "head_part: ", heads,
        " query heads do not form groups for ", kv_heads, " key/value heads");
  check(unit > 0 && heads % unit == 0 && ranks <= heads / unit, "a model with ", heads,
        " attention heads, of which ", unit, " stay together, cannot be divided over ", ranks,
        " ranks");
  const int64_t group = heads / kv_heads;
  HeadPart part{.query = balanced_part(heads / unit, ranks, rank), .kv = {}, .repeat = {}};
  part.query = {part.query.begin * unit, part.query.end * unit};
  part.kv = {part.query.begin / group, (part.query.end - 1) / group + 1};
  const int64_t readers = part.query.size() / part.kv.size();
  bool even = part.query.size() % part.kv.size() == 0;
  for (int64_t i = 0; i < part.query.size(); ++i)
    even = even && (part.query.begin + i) / group - part.kv.begin == i / readers;
  if (even) return part;
  for (int64_t head = part.query.begin; head < part.query.end; ++head)
    part.repeat.push_back(head / group - part.kv.begin);
  return part;
}

}  // namespace tensora::models
