#pragma once

#include <string>
#include <vector>

#include "tensora/llm/chat/chat_template.h"

namespace tensora::serve {

/// For templates that do not know tools: describes the tools (a JSON list, perhaps empty) and how
/// to call them in the system message, or in the first message where the template refuses one; and
/// writes the calls and results of earlier turns as text, in the same way.
void describe_tools(const llm::ChatTemplate& chat, const std::string& tools,
                    std::vector<llm::Message>& messages);

/// For templates that demand ids of nine letters and digits: replaces others by hashes of them.
void shorten_ids(std::vector<llm::Message>& messages);

}  // namespace tensora::serve
