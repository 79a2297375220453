#pragma once

// Writing large results past the cache: they would only evict what is still needed, and a store
// that goes through the cache first reads the line that it overwrites.

#include <cstdint>
#include <cstring>

#include "tensora/core/view.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace tensora::cpu::TENSORA_ISA {

inline constexpr size_t kStreamBytes = size_t{16} << 20;
inline constexpr size_t kStreamUnit = 64;

/// Whether a dense result in runs of `run` elements is large, and its runs consist of whole units.
inline bool streams(const View& out, int64_t run) {
  return out.bytes() >= kStreamBytes && is_dense(out.sizes, out.strides) &&
         static_cast<size_t>(run) * element_size(out.dtype) % kStreamUnit == 0 &&
         reinterpret_cast<uintptr_t>(out.data) % kStreamUnit == 0;
}

/// `to` is aligned to a unit, and `bytes` a multiple of it.
inline void copy_streaming(char* to, const char* from, size_t bytes) {
#if defined(__AVX512F__)
  for (size_t i = 0; i < bytes; i += 64)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i),
                        _mm512_loadu_si512(reinterpret_cast<const void*>(from + i)));
#elif defined(__AVX2__)
  for (size_t i = 0; i < bytes; i += 32)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i)));
#else
  std::memcpy(to, from, bytes);
#endif
}

/// What a thread streamed is ordered before what it writes next.
inline void finish_streaming() {
#if defined(__AVX2__)
  _mm_sfence();
#endif
}

}  // namespace tensora::cpu::TENSORA_ISA
