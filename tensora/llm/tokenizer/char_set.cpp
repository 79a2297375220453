#include "tensora/llm/tokenizer/char_set.h"

#include <algorithm>
#include <array>

#include "tensora/base/check.h"
#include "tensora/llm/tokenizer/unicode_classes.h"

namespace tensora::llm {
namespace {

constexpr std::array<std::string_view, 30> kNames = {
    "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"};

}  // namespace

CharSet CharSet::property(std::string_view name) {
  uint32_t wanted = 0;
  for (size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name || (name.size() == 1 && kNames[i][0] == name[0])) wanted |= 1u << i;
  check(wanted != 0, "the property '", name,
        "' is not known; general categories are (L, Lu, N, …)");
  const std::span<const uint32_t> table = unicode_ranges();
  CharSet out;
  for (size_t i = 0; i < table.size(); ++i) {
    if (!(wanted >> (table[i] & 31) & 1)) continue;
    const uint32_t end = i + 1 < table.size() ? table[i + 1] >> 5 : kInvalid;
    out.ranges_.push_back({table[i] >> 5, end - 1});
  }
  if (wanted >> static_cast<int>(UnicodeCategory::Cn) & 1)
    out.ranges_.push_back({kInvalid, kInvalid});
  out.normalize();
  return out;
}

CharSet CharSet::spaces() {
  CharSet out;
  for (const Range range : {Range{9, 13}, Range{0x20, 0x20}, Range{0x85, 0x85}, Range{0xA0, 0xA0},
                            Range{0x1680, 0x1680}, Range{0x2000, 0x200A}, Range{0x2028, 0x2029},
                            Range{0x202F, 0x202F}, Range{0x205F, 0x205F}, Range{0x3000, 0x3000}})
    out.ranges_.push_back(range);
  return out;
}

CharSet CharSet::word() {
  CharSet out;
  for (const std::string_view name : {"L", "M", "Nd", "Nl", "Pc"}) out.add(property(name));
  // Letters in circles and squares; and, as in Oniguruma, superscript digits and fractions of
  // Latin-1.
  for (const Range range :
       {Range{0x24B6, 0x24E9}, Range{0x1F130, 0x1F149}, Range{0x1F150, 0x1F169},
        Range{0x1F170, 0x1F189}, Range{0xB2, 0xB3}, Range{0xB9, 0xB9}, Range{0xBC, 0xBE}})
    out.ranges_.push_back(range);
  out.normalize();
  return out;
}

CharSet& CharSet::add(const CharSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  normalize();
  return *this;
}

void CharSet::normalize() {
  std::sort(ranges_.begin(), ranges_.end(),
            [](const Range& a, const Range& b) { return a.first < b.first; });
  size_t kept = 0;
  for (const Range& range : ranges_) {
    if (kept > 0 && range.first <= ranges_[kept - 1].last + 1)
      ranges_[kept - 1].last = std::max(ranges_[kept - 1].last, range.last);
    else
      ranges_[kept++] = range;
  }
  ranges_.resize(kept);
}

CharSet CharSet::complement() const {
  CharSet out;
  uint32_t next = 0;
  for (const Range& range : ranges_) {
    if (range.first > next) out.ranges_.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kInvalid) out.ranges_.push_back({next, kInvalid});
  return out;
}

CharSet CharSet::any_case() const {
  CharSet out = *this;
  const auto has = [&](uint32_t code) { return meets({code, code}); };
  for (uint32_t low = 'a'; low <= 'z'; ++low) {
    const uint32_t up = low - 'a' + 'A';
    const uint32_t sign = low == 's' ? 0x17F : low == 'k' ? 0x212A : low;
    if (!has(low) && !has(up) && !has(sign)) continue;
    for (const uint32_t code : {low, up, sign}) out.add({code, code});
  }
  return out;
}

bool CharSet::meets(const CharSet& other) const {
  auto a = ranges_.begin(), b = other.ranges_.begin();
  while (a != ranges_.end() && b != other.ranges_.end()) {
    if (a->last < b->first)
      ++a;
    else if (b->last < a->first)
      ++b;
    else
      return true;
  }
  return false;
}

}  // namespace tensora::llm
