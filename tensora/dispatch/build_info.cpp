#include "tensora/dispatch/build_info.h"

#include "tensora/backend/cpu/gemm_library.h"
#include "tensora/backend/cpu/isa.h"
#include "tensora/base/check.h"
#include "tensora/base/thread_pool.h"
#include "tensora/core/backend.h"

namespace tensora {
namespace {

std::string compiler() {
#if defined(__clang__)
  return "Clang " __clang_version__;
#else
  return "GCC " __VERSION__;
#endif
}

std::string instruction_set() {
  std::string text(cpu::name(cpu::cpu_isa()));
  if (cpu::multiplies_tiles()) text += ", amx";
  return text;
}

}  // namespace

BuildInfo build_info() {
  BuildInfo info{.version = TENSORA_VERSION,
                 .compiler = compiler(),
                 .instruction_set = instruction_set(),
                 .matrix_libraries = cpu::gemm_libraries(),
                 .missing_libraries = cpu::refused_gemm_libraries(),
                 .threads = get_num_threads(),
                 .devices = {}};
  for (const DeviceType type : {DeviceType::cpu, DeviceType::cuda}) {
    const bool there = is_available(type);
    info.devices.push_back({.name = std::string(name(type)),
                            .count = there ? backend(type).device_count() : 0,
                            .unavailable_reason = unavailable_reason(type)});
  }
  return info;
}

std::string BuildInfo::to_string() const {
  std::string text =
      concat("Tensora ", version, "\ncompiler: ", compiler, "\ninstruction set: ", instruction_set,
             "\nthreads: ", threads, "\nmatrix libraries: ", matrix_libraries);
  if (!missing_libraries.empty()) text += concat(" (", missing_libraries, ")");
  for (const DeviceKind& kind : devices) {
    const std::string label = kind.name + ": ";
    if (kind.count > 0) {
      text += concat("\n", label, kind.count, kind.count == 1 ? " device" : " devices");
      continue;
    }
    // Most reasons begin with the kind, which stands there already.
    std::string_view reason = kind.unavailable_reason;
    if (reason.starts_with(label)) reason.remove_prefix(label.size());
    text += concat("\n", label, "no device; ", reason);
  }
  return text + "\n";
}

}  // namespace tensora
