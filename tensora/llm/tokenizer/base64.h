#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tensora::llm {

/// The bytes of a text in base 64, with or without padding; none if it is not such a text.
std::optional<std::string> from_base64(std::string_view text);
/// With padding.
std::string to_base64(std::string_view bytes);

}  // namespace tensora::llm
