#include "tensora/serve/openai_fields.h"

#include <algorithm>
#include <array>

#include "tensora/base/check.h"

namespace tensora::serve {
namespace {

constexpr size_t kMostMessages = 10000, kMostParts = 10000, kMostTools = 1024;
constexpr size_t kMostVariables = 64, kMostCalls = 1024;

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw ApiError(400, concat(path, ": ", what), path);
}

bool is_function_name(const std::string& name) {
  return !name.empty() && name.size() <= 64 &&
         std::all_of(name.begin(), name.end(), [](char letter) {
           return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                  (letter >= '0' && letter <= '9') || letter == '_' || letter == '-';
         });
}

std::string read_function_name(Fields& function) {
  std::string name = function.required_text("name");
  if (!is_function_name(name))
    function.fail("name", "expected from 1 to 64 letters, digits, '_' and '-'");
  return name;
}

std::vector<llm::ToolCall> read_calls(Fields& message) {
  const Json& list = message.at("tool_calls");
  const std::string path = message.path_of("tool_calls");
  if (!list.is_array()) refuse(path, concat("expected a list, got ", kind_of(list)));
  if (list.size() > kMostCalls)
    refuse(path, concat("expected at most ", kMostCalls, " calls, got ", list.size()));
  std::vector<llm::ToolCall> calls;
  for (size_t i = 0; i < list.size(); ++i) {
    Fields call = message.below(list[i], concat(path, "[", i, "]"));
    call.choice("type", {"function"});
    call.accept({"index"});
    Fields function = call.below(call.at("function"), call.path_of("function"));
    llm::ToolCall read{.id = call.text("id").value_or(""), .name = read_function_name(function)};
    const Json* arguments = function.find("arguments");
    // A string in OpenAI's dialect; what other clients send as an object means the same.
    if (arguments && arguments->is_string())
      read.arguments = arguments->get<std::string>();
    else if (arguments && arguments->is_object())
      read.arguments = arguments->dump();
    else if (arguments)
      function.fail("arguments", concat("expected a string with JSON, got ", kind_of(*arguments)));
    if (read.arguments.empty()) read.arguments = "{}";
    if (!Json::accept(read.arguments)) function.fail("arguments", "is not valid JSON");
    calls.push_back(std::move(read));
  }
  return calls;
}

llm::Message read_message(Fields fields) {
  llm::Message message;
  if (!fields.has("role")) fields.fail("role", "is required");
  message.role =
      *fields.choice("role", {"system", "developer", "user", "assistant", "tool", "function"});
  if (message.role == "developer") message.role = "system";
  if (message.role == "function") message.role = "tool";
  const bool is_assistant = message.role == "assistant";
  if (fields.has("content"))
    message.content = read_content(fields, "content");
  else if (!is_assistant)
    fields.fail("content", "is required");
  message.name = fields.text("name").value_or("");
  if (fields.has("tool_calls")) {
    if (!is_assistant) fields.fail("tool_calls", "only an assistant calls tools");
    message.tool_calls = read_calls(fields);
  }
  if (fields.has("function_call")) fields.fail("function_call", "is not supported; use tool_calls");
  fields.accept({"annotations"});  // of an answer that comes back
  message.tool_call_id = fields.text("tool_call_id").value_or("");
  for (const char* name : {"reasoning_content", "reasoning"})
    if (auto reasoning = fields.text(name)) message.reasoning = std::move(*reasoning);
  if (const auto refusal = fields.text("refusal"); refusal && message.content.empty())
    message.content = *refusal;
  return message;
}

}  // namespace

std::string read_content(Fields& fields, const std::string& name) {
  const Json& content = fields.at(name);
  const std::string path = fields.path_of(name);
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array())
    refuse(path, concat("expected a string or a list of parts, got ", kind_of(content)));
  if (content.size() > kMostParts)
    refuse(path, concat("expected at most ", kMostParts, " parts, got ", content.size()));
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    Fields part = fields.below(content[i], concat(path, "[", i, "]"));
    const std::string type = part.required_text("type");
    part.accept({"annotations", "logprobs", "cache_control"});
    if (type != "text" && type != "input_text" && type != "output_text" && type != "refusal")
      part.fail("type", concat("only text is supported, got '", type.substr(0, 64), "'"));
    text += part.required_text(type == "refusal" ? "refusal" : "text");
  }
  return text;
}

std::vector<llm::Message> read_messages(Fields& body) {
  const Json& list = body.at("messages");
  if (!list.is_array()) body.fail("messages", concat("expected a list, got ", kind_of(list)));
  if (list.empty()) body.fail("messages", "expected at least one message");
  if (list.size() > kMostMessages)
    body.fail("messages",
              concat("expected at most ", kMostMessages, " messages, got ", list.size()));
  std::vector<llm::Message> messages;
  for (size_t i = 0; i < list.size(); ++i)
    messages.push_back(read_message(body.below(list[i], concat("messages[", i, "]"))));
  return messages;
}

namespace {

void read_tool_choice(Fields& body, ToolUse& use, const std::vector<std::string>& names) {
  const Json* choice = body.find("tool_choice");
  if (!choice) return;
  using Choice = ToolUse::Choice;
  if (choice->is_string()) {
    const std::string word = *body.choice("tool_choice", {"none", "auto", "required"});
    use.choice = word == "none"   ? Choice::none
                 : word == "auto" ? Choice::automatic
                                  : Choice::required;
  } else {
    Fields object = body.below(*choice, "tool_choice");
    object.choice("type", {"function"});
    Fields function = object.below(object.at("function"), "tool_choice.function");
    use.choice = Choice::named;
    use.name = function.required_text("name");
    if (std::find(names.begin(), names.end(), use.name) == names.end())
      function.fail("name", concat("there is no tool '", use.name.substr(0, 64), "'"));
  }
  if (names.empty() && use.choice != Choice::none && use.choice != Choice::automatic)
    body.fail("tool_choice", "needs tools");
}

}  // namespace

ToolUse read_tool_use(Fields& body) {
  ToolUse use;
  for (const char* old : {"functions", "function_call"})
    if (body.has(old)) body.fail(old, "is not supported; use tools and tool_choice");
  std::vector<std::string> names;
  if (const Json* tools = body.list("tools", kMostTools); tools && !tools->empty()) {
    for (size_t i = 0; i < tools->size(); ++i) {
      Fields tool = body.below((*tools)[i], concat("tools[", i, "]"));
      const std::string type = tool.required_text("type");
      if (type != "function")
        tool.fail("type", concat("only 'function' is supported, got '", type.substr(0, 64), "'"));
      Fields function = tool.below(tool.at("function"), tool.path_of("function"));
      names.push_back(read_function_name(function));
      if (std::count(names.begin(), names.end(), names.back()) > 1)
        function.fail("name", concat("two tools are called '", names.back(), "'"));
      function.text("description");
      if (const Json* parameters = function.find("parameters");
          parameters && !parameters->is_object())
        function.fail("parameters", concat("expected an object, got ", kind_of(*parameters)));
      function.accept({"strict"});  // arguments always fit their schema
    }
    use.tools = tools->dump();
  }
  read_tool_choice(body, use, names);
  use.parallel = body.boolean("parallel_tool_calls").value_or(true);
  return use;
}

void read_response_format(Fields& body, llm::SamplingOptions& sampling) {
  // An answer without it would not be what was asked for.
  if (body.has("json_schema")) body.fail("json_schema", "is not supported; use response_format");
  auto format = body.object("response_format");
  if (!format) return;
  const auto type = format->choice("type", {"text", "json_object", "json_schema"});
  if (!type) format->fail("type", "is required");
  if (*type == "text") return;
  if (!sampling.grammar.empty()) format->fail("type", "cannot be combined with grammar");
  if (*type == "json_object") {
    // llama.cpp's clients put a schema beside it.
    const Json* schema = format->find("schema");
    sampling.json_schema = schema ? schema->dump() : R"({"type":"object"})";
    return;
  }
  Fields wrapper = format->below(format->at("json_schema"), "response_format.json_schema");
  wrapper.accept({"name", "strict", "description"});
  const Json& schema = wrapper.at("schema");
  if (!schema.is_object() && !schema.is_boolean())
    wrapper.fail("schema", concat("expected an object, got ", kind_of(schema)));
  sampling.json_schema = schema.dump();
}

void read_template_variables(Fields& body, llm::ChatOptions& chat) {
  constexpr std::array<std::string_view, 9> kOwn = {
      "messages",  "tools",     "documents",       "add_generation_prompt", "bos_token",
      "eos_token", "functions", "raise_exception", "strftime_now"};
  Json variables = Json::object();
  if (auto effort = body.choice("reasoning_effort",
                                {"none", "minimal", "low", "medium", "high", "xhigh", "max"})) {
    variables["reasoning_effort"] = *effort;
    if (*effort == "none") variables["enable_thinking"] = false;
  }
  if (const Json* given = body.find("chat_template_kwargs")) {
    const Json& object = *given;
    if (!object.is_object())
      body.fail("chat_template_kwargs", concat("expected an object, got ", kind_of(object)));
    if (object.size() > kMostVariables)
      body.fail("chat_template_kwargs",
                concat("expected at most ", kMostVariables, " variables, got ", object.size()));
    for (const auto& [name, value] : object.items()) {
      const std::string path = concat("chat_template_kwargs.", name.substr(0, 64));
      if (std::find(kOwn.begin(), kOwn.end(), name) != kOwn.end())
        body.fail(path, "the template gets this from elsewhere");
      if (value.is_structured())
        body.fail(path, concat("expected a string, a number or a boolean, got ", kind_of(value)));
      variables[name] = value;
    }
  }
  if (!variables.empty()) chat.variables = variables.dump();
}

void read_continuation(Fields& body, llm::ChatOptions& chat) {
  chat.continue_final_message = body.boolean("continue_final_message").value_or(false);
  const auto begins = body.boolean("add_generation_prompt");
  if (chat.continue_final_message && begins.value_or(false))
    body.fail("add_generation_prompt", "cannot be combined with continue_final_message");
  chat.add_generation_prompt = begins.value_or(!chat.continue_final_message);
}

}  // namespace tensora::serve
