#pragma once

#include <string>
#include <vector>

#include "tensora/jit/fusion.h"

namespace tensora::jit {

/// How the arrays of a launch are accessed. The kernel text depends on it.
struct FusedLayout {
  enum class Input : char { vector = 'v', repeat = 'r', element = 'e', constant = 'c' };
  std::vector<Input> inputs;
  int group = 1;  // elements per thread
  bool operator<(const FusedLayout& other) const {
    return group != other.group ? group < other.group : inputs < other.inputs;
  }
};

/// The text of one fused kernel, an `extern "C"` function called `fused`.
std::string cuda_source(const Program& program, const FusedLayout& layout);
/// Its machine code for an architecture such as "sm_90"; works without a device.
std::string cuda_machine_code(const std::string& source, const std::string& architecture);

}  // namespace tensora::jit
