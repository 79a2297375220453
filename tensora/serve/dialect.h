#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensora/serve/answer.h"
#include "tensora/serve/json_fields.h"
#include "tensora/serve/service.h"

namespace tensora::serve {

// What the dialects beside OpenAI's chat share.

/// Appends a server-sent event with a name.
void append_event(std::string& out, std::string_view name, std::string_view data);

/// The head of a stream of server-sent events.
HttpResponse event_stream_head(Headers headers);

/// JSON as text; what is not UTF-8 becomes U+FFFD.
std::string dumped(const Json& json);

/// The arguments of a call as a value; an object that is empty where a call was cut off.
Json arguments_of(const llm::ToolCall& call);

/// Paths of fields as chat completions name them, and as a dialect does.
using PathNames = std::vector<std::pair<std::string, std::string>>;
/// Throws the error with the dialect's paths in its message and its `param`.
[[noreturn]] void throw_renamed(const ApiError& error, const PathNames& names);

/// Hands the request to the service; errors name fields as the dialect does.
void answer_renamed(Service& service, AnswerRequest request, std::shared_ptr<AnswerSink> sink,
                    const PathNames& names);
/// How many tokens the prompt of a request with messages has, tools included.
int64_t count_prompt(Service& service, AnswerRequest request, const PathNames& names);

/// The answer continues a last message that is the assistant's, unless that calls tools.
void continue_assistant(llm::Request& request);
/// Adds a variable for the chat template.
void set_template_variable(llm::ChatOptions& chat, const std::string& name, const Json& value);

}  // namespace tensora::serve
