#pragma once

#include <span>
#include <string>
#include <utility>

namespace tensora::cuda {

/// A file that the compiled text may include.
struct VirtualFile {
  const char* name;
  const char* text;
};

/// Compiles CUDA C++ for one architecture ("sm_90") and returns the machine code. Works without a
/// device. Throws with the compiler's messages, or when NVRTC is not installed.
std::string compile_cuda(const std::string& source, std::span<const VirtualFile> files,
                         const std::string& architecture, std::span<const std::string> options);
/// "13.0"; throws when NVRTC is not installed.
std::string nvrtc_version();

}  // namespace tensora::cuda
