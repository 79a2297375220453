#pragma once

// Internal header: from a kernel's text to code on a device.

#include <string>

namespace tensora::jit {

/// A kernel as the driver knows it.
struct LoadedKernel {
  const void* kernel = nullptr;
  int registers = 0;
  int spilled_bytes = 0;  // per thread
};

/// The kernel of that name in a text, for a device. Compiled once per process and architecture, or
/// found in the kernel store; threads that ask for the same text wait for one of them.
LoadedKernel load_kernel(const std::string& text, int device, const std::string& name = "tile");

/// The machine code of a text for an architecture such as "sm_90"; works without a device.
std::string compile_text(const std::string& text, const std::string& architecture);

}  // namespace tensora::jit
