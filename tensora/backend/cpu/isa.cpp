#include "tensora/backend/cpu/isa.h"

#include <algorithm>

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
