#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tensora/llm/tokenizer/tokenizer.h"
#include "tensora/serve/tool_format.h"

namespace tensora::serve {

/// A tool that may be called.
struct Tool {
  std::string name;
  std::string schema;  // of its arguments: a JSON schema
  std::string path;    // of the schema in the request, for messages: "tools[0].function.parameters"
};

/// What an answer may be.
struct AnswerShape {
  ReasoningFormat reasoning = {};
  bool is_thinking = false;  // the prompt has begun the reasoning
  ToolFormat format = {};
  std::vector<Tool> tools = {};  // empty: no calls
  bool must_call = false;
  bool may_repeat = true;   // more than one call
  std::string schema = {};  // of the text; empty: any text
};

/// One grammar (GBNF) for all of an answer: reasoning, text without a marker of calls, and calls
/// whose arguments fit their schemas. Throws ApiError 400 with path and keyword for a schema that
/// cannot be enforced.
std::string answer_grammar(const AnswerShape& shape, const llm::Tokenizer& tokenizer);

/// The path and the problem of a schema that was refused: "#/properties/x: the keyword ..." below
/// `path` becomes "tools[0].function.parameters.properties.x: the keyword ...".
[[noreturn]] void refuse_schema(std::string_view problem, const std::string& path);

}  // namespace tensora::serve
