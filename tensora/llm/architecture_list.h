#pragma once

// Internal header: the list that cmake/generate.py makes of the files in tensora/llm/models.

#include <span>

#include "tensora/llm/architecture.h"

namespace tensora::llm {

struct NamedArchitecture {
  std::string_view name;
  const Architecture* architecture;
};
std::span<const NamedArchitecture> all_architectures();  // sorted by name

}  // namespace tensora::llm
