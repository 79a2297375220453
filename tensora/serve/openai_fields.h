#pragma once

#include <string>
#include <vector>

#include "tensora/serve/answer.h"
#include "tensora/serve/json_fields.h"

namespace tensora::serve {

/// The messages of a chat: roles, content as a string or a list of text parts, tool calls and their
/// results. Throws ApiError naming the path of what is wrong.
std::vector<llm::Message> read_messages(Fields& body);
/// The text of a field that is a string or a list of parts {"type": "text", "text": …}.
std::string read_content(Fields& fields, const std::string& name);

/// tools, tool_choice and parallel_tool_calls.
ToolUse read_tool_use(Fields& body);
/// response_format: text, json_object or json_schema. llama.cpp's field json_schema is refused.
void read_response_format(Fields& body, llm::SamplingOptions& sampling);
/// chat_template_kwargs and reasoning_effort: variables of the template. Values are strings,
/// numbers and booleans; names that the template gets from elsewhere are refused.
void read_template_variables(Fields& body, llm::ChatOptions& chat);
/// continue_final_message and add_generation_prompt: where the answer begins.
void read_continuation(Fields& body, llm::ChatOptions& chat);

}  // namespace tensora::serve
