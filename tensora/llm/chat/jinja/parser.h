#pragma once

#include <string_view>

#include "tensora/llm/chat/jinja/ast.h"

namespace tensora::llm::jinja {

/// The statements of a template. Throws, with line and column, for what is not understood; among
/// that is all that reads other templates. Limits: 4 MiB, 100,000 parts, 200 levels.
Body parse(std::string_view source);

}  // namespace tensora::llm::jinja
