#include "tensora/serve/dialect.h"

#include "tensora/base/check.h"
#include "tensora/serve/answer_format.h"

namespace tensora::serve {

void append_event(std::string& out, std::string_view name, std::string_view data) {
  out += "event: ";
  out += name;
  out += "\ndata: ";
  out += data;
  out += "\n\n";
}

HttpResponse event_stream_head(Headers headers) {
  return {.content_type = "text/event-stream", .headers = std::move(headers)};
}

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json arguments_of(const llm::ToolCall& call) {
  const Json value = Json::parse(call.arguments, nullptr, false);
  return value.is_object() ? value : Json::object();
}

void throw_renamed(const ApiError& error, const PathNames& names) {
  std::string message = error.what(), param = error.param;
  for (const auto& [from, to] : names) {
    if (!param.starts_with(from)) continue;
    param.replace(0, from.size(), to);
    if (message.starts_with(from)) message.replace(0, from.size(), to);
    break;
  }
  ApiError renamed(error.status, message, param, error.code);
  renamed.headers = error.headers;
  throw renamed;
}

void answer_renamed(Service& service, AnswerRequest request, std::shared_ptr<AnswerSink> sink,
                    const PathNames& names) {
  try {
    service.answer(std::move(request), std::move(sink));
  } catch (const ApiError& error) {
    throw_renamed(error, names);
  }
}

int64_t count_prompt(Service& service, AnswerRequest request, const PathNames& names) {
  const ServedModelPtr model = service.model(request.model);
  try {
    const AnswerFormat format(model->backend->chat_template(), model->backend->tokenizer(),
                              request);
    return static_cast<int64_t>(model->backend->tokens_of(request.request).size());
  } catch (const ApiError& error) {
    throw_renamed(error, names);
  } catch (const Error& error) {
    throw ApiError(400, error.what());
  }
}

void set_template_variable(llm::ChatOptions& chat, const std::string& name, const Json& value) {
  Json variables = chat.variables.empty() ? Json::object() : Json::parse(chat.variables);
  variables[name] = value;
  chat.variables = variables.dump();
}

void continue_assistant(llm::Request& request) {
  if (request.messages.empty()) return;
  const llm::Message& last = request.messages.back();
  if (last.role != "assistant" || !last.tool_calls.empty()) return;
  request.chat.continue_final_message = true;
  request.chat.add_generation_prompt = false;
}

}  // namespace tensora::serve
