#pragma once

#include <cstdint>
#include <span>

namespace tensora::llm {

/// Unicode's general categories: Lu is an upper-case letter, Cn a code point that is not assigned.
// clang-format off
enum class UnicodeCategory : uint8_t {
  Lu, Ll, Lt, Lm, Lo, Mn, Mc, Me, Nd, Nl, No, Pc, Pd, Ps, Pe, Pi, Pf, Po, Sm, Sc, Sk, So, Zs, Zl,
  Zp, Cc, Cf, Cs, Co, Cn
};
// clang-format on

/// Ranges of code points of one category, up to where the next begins, in order. An element is the
/// first code point times 32, plus the number of the category.
std::span<const uint32_t> unicode_ranges();
/// Cn for what is no code point.
UnicodeCategory unicode_category(uint32_t code);

}  // namespace tensora::llm
