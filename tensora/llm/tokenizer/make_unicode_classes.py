"""Writes unicode_classes.cpp: which code points are letters, numbers and spaces, as ranges.

usage: python3 make_unicode_classes.py > unicode_classes.cpp
"""

import sys
import unicodedata

SPACES = {*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}


def class_of(code):
    if code in SPACES:
        return "space"
    return {"L": "letter", "N": "number"}.get(unicodedata.category(chr(code))[0])


def ranges():
    start, current = 0, None
    for code in range(0x110000 + 1):
        kind = class_of(code) if code < 0x110000 else None
        if kind != current:
            if current:
                yield start, code - 1, current
            start, current = code, kind


def main():
    rows = [f"{{0x{first:X}, 0x{last:X}, {kind}}}" for first, last, kind in ranges()]
    lines, line = [], "   "
    for row in rows:
        if len(line) + len(row) + 2 > 100:
            lines.append(line)
            line = "   "
        line += f" {row},"
    lines.append(line)
    sys.stdout.write(f"""// Written by make_unicode_classes.py from Unicode {unicodedata.unidata_version}.
#include "tensora/llm/tokenizer/unicode_classes.h"

#include <algorithm>
#include <iterator>

namespace tensora::llm {{
namespace {{

struct Range {{
  uint32_t first, last;
  UnicodeClass kind;
}};
constexpr auto letter = UnicodeClass::letter, number = UnicodeClass::number,
               space = UnicodeClass::space;
// clang-format off
constexpr Range ranges[] = {{
{chr(10).join(lines)}
}};
// clang-format on

}}  // namespace

UnicodeClass unicode_class(uint32_t code) {{
  const Range* after = std::upper_bound(
      std::begin(ranges), std::end(ranges), code,
      [](uint32_t value, const Range& range) {{ return value < range.first; }});
  if (after == std::begin(ranges) || code > after[-1].last) return UnicodeClass::other;
  return after[-1].kind;
}}

}}  // namespace tensora::llm
""")


if __name__ == "__main__":
    main()
