#include "tensora/backend/cpu/isa.h"

#include <algorithm>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "tensora/base/settings.h"

namespace tensora::cpu {

namespace {

Isa supported_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  [[maybe_unused]] const bool avx2 = __builtin_cpu_supports("avx2") &&
                                     __builtin_cpu_supports("fma") &&
                                     __builtin_cpu_supports("f16c");
#if defined(TENSORA_HAS_AVX512)
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return Isa::avx512;
#endif
#if defined(TENSORA_HAS_AVX2)
  if (avx2) return Isa::avx2;
#endif
#endif
  return Isa::baseline;
}

Isa chosen_isa() {
  const Isa best = supported_isa();
  const size_t wanted =
      choice_setting("TENSORA_ISA", {"baseline", "avx2", "avx512"}, static_cast<size_t>(best));
  return std::min(static_cast<Isa>(wanted), best);
}

}  // namespace

Isa cpu_isa() {
  static const Isa isa = chosen_isa();
  return isa;
}

bool multiplies_bf16() {
#if defined(__x86_64__)
  return cpu_isa() == Isa::avx512 && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

bool multiplies_bytes() {
#if defined(__x86_64__)
  return cpu_isa() == Isa::avx512 && __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

bool multiplies_tiles() {
#if defined(__x86_64__) && defined(__linux__)
  static const bool allowed = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned kBf16 = 1u << 22, kTiles = 1u << 24;  // of leaf 7, in edx
    if (!multiplies_bf16() || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    if (!(d & kBf16) || !(d & kTiles)) return false;
    // The tiles are 8 KB of state per thread, which Linux saves only for processes that ask.
    constexpr long kRequestPermission = 0x1023, kTileData = 18;
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return allowed;
#else
  return false;
#endif
}

const char* name(Isa isa) {
  switch (isa) {
    case Isa::baseline:
      return "baseline";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
  }
  return "unknown";
}

}  // namespace tensora::cpu
