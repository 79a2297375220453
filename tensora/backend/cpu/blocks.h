#pragma once

// Note [Blocks]
// Tiles (Note [Tiles]) pass over the cache once for every conversion, for the formula and for the
// way past the cache, and while a tile of a thousand elements is streamed out nothing is computed.
// Where it pays, a functor also has a loop over blocks of a few vectors that does all of it: the
// processor then widens one block while it computes another and stores a third. That is so for
// bfloat16, whose conversions cost more than most formulas, and for large float arrays where the
// formula takes about as long as memory does. The results have the same bits as those of tiles.

#include <algorithm>
#include <cstring>
#include <utility>

#include "tensora/backend/cpu/bfloat16.h"
#include "tensora/backend/cpu/stream.h"

namespace tensora::cpu::TENSORA_ISA {

/// out[i] = functor(in[0][i], in[1][i], …) for i < n. If bit k of `single` is set, in[k] is one
/// float for all i; all other arrays are contiguous, of the loop's dtype. With `past_cache`, `out`
/// is aligned to kStreamUnit.
using BlockFn = void (*)(const void* functor, int64_t n, void* out, const void* const* in,
                         unsigned single, bool past_cache);

#if defined(__AVX2__)
inline constexpr int64_t kBlock = 64;

// What is left of the last block: once for all functors, for it is rare and takes much code.
[[gnu::noinline]] inline void load_rest(const BFloat16* from, int64_t count, float* to) {
  load_tile<BFloat16, float>(from, 1, count, to);
}
[[gnu::noinline]] inline void store_rest(const float* from, BFloat16* to, int64_t count) {
  store_tile<BFloat16, float>(from, to, 1, count);
}

// Lines are split: it is all one to a formula in which order its numbers come. What is left of the
// last block is not, but no block is split on one side only.
inline void load_block(const BFloat16* from, int64_t count, float* to) {
  if (count < kBlock) return load_rest(from, count, to);
  for (int64_t k = 0; k < kBlock; k += kLine) {
    __builtin_prefetch(from + k + kAhead);
    split_line(from + k, to + k);
  }
}
inline void load_block(const float* from, int64_t count, float* to) {
  for (int64_t k = 0; k < count; k += kLine / 2) __builtin_prefetch(from + k + kAhead);
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
}

inline void store_block(const float* from, BFloat16* to, int64_t count, bool past_cache) {
  if (count < kBlock) return store_rest(from, to, count);
  alignas(64) BFloat16 narrow[kBlock];
  BFloat16* const target = past_cache ? narrow : to;
  for (int64_t k = 0; k < kBlock; k += kLine) join_line(from + k, target + k);
  if (past_cache)
    copy_streaming(reinterpret_cast<char*>(to), reinterpret_cast<const char*>(narrow),
                   sizeof(narrow));
}
inline void store_block(const float* from, float* to, int64_t count, bool past_cache) {
  const size_t bytes = static_cast<size_t>(count) * sizeof(float);
  if (past_cache && count == kBlock)
    copy_streaming(reinterpret_cast<char*>(to), reinterpret_cast<const char*>(from), bytes);
  else
    std::memcpy(to, from, bytes);
}

/// `value(a, b, …)` is the formula; `T` is the dtype of the arrays.
template <class T, class Value, std::size_t... I>
void block_loop(const Value& value, int64_t n, T* out, const void* const* in, unsigned single,
                bool past_cache, std::index_sequence<I...>) {
  alignas(64) float operands[sizeof...(I)][kBlock] = {}, result[kBlock];
  const auto is_single = [&](std::size_t k) { return (single >> k & 1u) != 0; };
  const auto load = [&](std::size_t k, int64_t at, int64_t count) {
    if (!is_single(k)) load_block(static_cast<const T*>(in[k]) + at, count, operands[k]);
  };
  for (std::size_t k = 0; k < sizeof...(I); ++k)
    if (is_single(k)) std::fill_n(operands[k], kBlock, *static_cast<const float*>(in[k]));
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t count = std::min(kBlock, n - at);
    (load(I, at, count), ...);
#pragma omp simd
    for (int64_t k = 0; k < kBlock; ++k) result[k] = value(operands[I][k]...);
    store_block(result, out + at, count, past_cache);
  }
}
#endif

}  // namespace tensora::cpu::TENSORA_ISA
