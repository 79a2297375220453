#pragma once

#include <cstdint>
#include <span>

// Tables that unicode_forms.cpp works with, written by make_unicode_tables.py.

namespace tensora::llm::unicode {

/// A letter and the one or two that it consists of, by code point; in order.
struct Decomposition {
  uint32_t code, first;
  uint32_t second = 0;   // 0 if there is only one
  bool composes = true;  // whether the two are put together again by NFC
};
std::span<const Decomposition> canonical();
/// Code point, number of parts, parts; and so on: what only looks alike (NFKD, NFKC).
std::span<const uint32_t> compatible();

/// The combining class from this code point up to the next entry.
struct Combining {
  uint32_t first;
  uint8_t kind;
};
std::span<const Combining> combining();

/// first, first + step, …, last: the lower-case form is `distance` away.
struct LowerRun {
  uint32_t first, last;
  int32_t step, distance;
};
std::span<const LowerRun> lower_runs();

}  // namespace tensora::llm::unicode
