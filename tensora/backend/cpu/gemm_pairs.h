#pragma once

// What the kernels share that multiply pairs of bfloat16.
//
// Note [Pairs along k]
// Their instructions need the elements of two consecutive steps of k next to each other. A panel
// holds them as 32-bit words, [k / 2][width], with an odd last step padded with zeros. Buffers are
// those of the float kernels, of which half is used.

#include <immintrin.h>

#include "tensora/backend/cpu/gemm_tile.h"

namespace tensora::cpu::TENSORA_ISA {

using Word = uint32_t;  // the elements of steps k and k + 1
inline constexpr int W = kLanes<float>;

template <class T>
[[gnu::always_inline]] inline Word word_of(const T* low, const T* high) {
  return low->bits | (high ? static_cast<Word>(high->bits) << 16 : 0u);
}

/// Lines (rows of a, columns of b) as a panel of words, [ceil(k / 2)][width].
template <class T>
void pack_pairs(const T* src, int64_t line_stride, int64_t k_stride, int64_t count, int64_t k,
                int64_t width, Word* dst) {
  const int64_t whole = k / 2;
  int64_t pair = 0;
  if (k_stride == 1) {
    const Word* lines[Tile<float>::kWidth + 4];
    for (int64_t i = 0; i < width + 3; ++i)
      lines[i] = reinterpret_cast<const Word*>(src + min_of(i, count - 1) * line_stride);
    pack_lines<Word>(lines, whole, width, dst);
    pair = whole;
  } else if (line_stride == 1) {
    for (; pair < whole; ++pair) {
      const T* const low = src + 2 * pair * k_stride;
      const T* const high = low + k_stride;
      Word* const to = dst + pair * width;
      int64_t i = 0;
      for (; i + W <= count; i += W) {
        const auto even =
            __builtin_convertvector(load<VectorN<uint16_t, W>>(low + i), Vector<Word>);
        const auto odd =
            __builtin_convertvector(load<VectorN<uint16_t, W>>(high + i), Vector<Word>);
        store(to + i, even | (odd << 16));
      }
      for (; i < count; ++i) to[i] = word_of(low + i, high + i);
      for (; i < width; ++i) to[i] = 0;
    }
  }
  for (; pair < (k + 1) / 2; ++pair)
    for (int64_t i = 0; i < width; ++i) {
      const T* const low = src + min_of(i, count - 1) * line_stride + 2 * pair * k_stride;
      dst[pair * width + i] = word_of<T>(low, 2 * pair + 1 < k ? low + k_stride : nullptr);
    }
}

}  // namespace tensora::cpu::TENSORA_ISA
