"""Writes the tables of Unicode that the tokenizers need, as C++.

usage: python3 make_unicode_tables.py classes > unicode_classes.cpp
       python3 make_unicode_tables.py forms > unicode_tables.cpp
       python3 make_unicode_tables.py compatible > unicode_compatible.cpp

The classes are those of the Unicode version of the regular expressions in Hugging Face's tokenizers,
16.0, which is newer than Python's: with the package unicodedata2 installed, they are taken from there.
"""

import sys
import unicodedata

try:
    import unicodedata2
except ImportError:
    unicodedata2 = unicodedata

LAST = 0x10FFFF
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()


def filled(rows):
    """The rows in lines of a hundred columns."""
    lines, line = [], "    "
    for row in rows:
        if len(line) + len(row) + 1 > 100:
            lines.append(line)
            line = "    "
        line += f"{row},"
    lines.append(line)
    return "\n".join(lines)


def header(include, source=unicodedata):
    return f"""// Written by make_unicode_tables.py from Unicode {source.unidata_version}.
#include "tensora/llm/tokenizer/{include}"
"""


def classes():
    rows, current = [], None
    for code in range(LAST + 1):
        category = unicodedata2.category(chr(code))
        if category != current:
            rows.append(f"0x{code << 5 | CATEGORIES.index(category):X}")
            current = category
    return f"""{header("unicode_classes.h", unicodedata2)}
#include <algorithm>
#include <iterator>

namespace tensora::llm {{
namespace {{

// The first code point of a range, times 32, and the number of its category.
// clang-format off
constexpr uint32_t ranges[] = {{
{filled(rows)}
}};
// clang-format on

}}  // namespace

std::span<const uint32_t> unicode_ranges() {{ return ranges; }}

UnicodeCategory unicode_category(uint32_t code) {{
  if (code > 0x10FFFF) return UnicodeCategory::Cn;
  const uint32_t* after = std::upper_bound(std::begin(ranges), std::end(ranges), code << 5 | 31);
  return static_cast<UnicodeCategory>(after[-1] & 31);
}}

}}  // namespace tensora::llm
"""


def lower_runs():
    """Runs of code points with the same distance to their lower-case form: (first, last, step, distance)."""
    runs = []
    for code in range(LAST + 1):
        low = chr(code).lower()
        if len(low) != 1 or ord(low) == code:
            continue
        distance = ord(low) - code
        if runs and runs[-1][3] == distance and code - runs[-1][1] in (1, 2):
            gap = code - runs[-1][1]
            first, last, step, _ = runs[-1]
            if first == last or step == gap:
                runs[-1] = (first, code, gap, distance)
                continue
        runs.append((code, code, 1, distance))
    return runs


def decompositions(compatible):
    for code in range(LAST + 1):
        text = unicodedata.decomposition(chr(code))
        if text and text.startswith("<") == compatible:
            yield code, [int(part, 16) for part in text.split() if not part.startswith("<")]


def canonical_rows():
    for code, parts in decompositions(compatible=False):
        torn = len(parts) == 2 and unicodedata.normalize("NFC", chr(code)) != chr(code)
        yield f"{{{','.join(map(str, [code, *parts]))}" + (",0}" if torn else "}")


def combining_rows():
    current = 0
    for code in range(LAST + 1):
        kind = unicodedata.combining(chr(code))
        if kind != current:
            yield f"{{{code},{kind}}}"
            current = kind


def forms():
    lower = [f"{{{first},{last},{step},{distance}}}" for first, last, step, distance in lower_runs()]
    return f"""{header("unicode_tables.h")}
namespace tensora::llm::unicode {{
namespace {{

// clang-format off
constexpr Decomposition canonical_table[] = {{
{filled(canonical_rows())}
}};
constexpr Combining combining_table[] = {{
{filled(combining_rows())}
}};
constexpr LowerRun lower_table[] = {{
{filled(lower)}
}};
// clang-format on

}}  // namespace

std::span<const Decomposition> canonical() {{ return canonical_table; }}
std::span<const Combining> combining() {{ return combining_table; }}
std::span<const LowerRun> lower_runs() {{ return lower_table; }}

}}  // namespace tensora::llm::unicode
"""


def compatible():
    rows = (",".join(map(str, [code, len(parts), *parts])) for code, parts in decompositions(compatible=True))
    return f"""{header("unicode_tables.h")}
namespace tensora::llm::unicode {{
namespace {{

// clang-format off
constexpr uint32_t compatible_table[] = {{
{filled(rows)}
}};
// clang-format on

}}  // namespace

std::span<const uint32_t> compatible() {{ return compatible_table; }}

}}  // namespace tensora::llm::unicode
"""


if __name__ == "__main__":
    sys.stdout.write({"classes": classes, "forms": forms, "compatible": compatible}[sys.argv[1]]())
