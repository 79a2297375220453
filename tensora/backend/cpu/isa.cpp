#include "tensora/backend/cpu/isa.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "tensora/base/check.h"

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
  const char* text = std::getenv("TENSORA_ISA");
  if (text == nullptr || *text == '\0') return supported_isa();
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (std::string_view(text) == name(isa)) return std::min(isa, supported_isa());
  }
  fail("TENSORA_ISA: expected baseline, avx2 or avx512, got \"", std::string_view(text), "\"");
}

}  // namespace

Isa cpu_isa() {
  static const Isa isa = chosen_isa();
  return isa;
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
