#include "tensora/serve/responses_fields.h"

#include "tensora/base/check.h"
#include "tensora/serve/openai_fields.h"
#include "tensora/serve/sampling_fields.h"

namespace tensora::serve {
namespace {

constexpr size_t kMostItems = 100'000, kMostTools = 1024;

// The input as messages. What an assistant thought, said and called is one message.
class InputReader {
 public:
  std::vector<llm::Message> read(Fields& body) {
    const Json& input = body.at("input");
    if (input.is_string()) return {{.role = "user", .content = input.get<std::string>()}};
    if (!input.is_array() || input.empty())
      throw ApiError(400, "input: expected a string or a list of items that is not empty", "input");
    if (input.size() > kMostItems) throw ApiError(400, "input: too many items", "input");
    for (size_t i = 0; i < input.size(); ++i) item(body.below(input[i], concat("input[", i, "]")));
    return std::move(messages_);
  }

 private:
  llm::Message& assistant() {
    if (messages_.empty() || messages_.back().role != "assistant")
      messages_.push_back({.role = "assistant"});
    return messages_.back();
  }

  void item(Fields fields) {
    const std::string type = fields.text("type").value_or("message");
    fields.accept({"id", "status", "encrypted_content"});  // of an answer that comes back
    if (type == "message") return message(fields);
    if (type == "reasoning") return reasoning(fields);
    if (type == "function_call") {
      llm::ToolCall call{.id = fields.required_text("call_id"),
                         .name = fields.required_text("name"),
                         .arguments = fields.required_text("arguments")};
      if (call.arguments.empty()) call.arguments = "{}";
      if (!Json::accept(call.arguments)) fields.fail("arguments", "is not valid JSON");
      assistant().tool_calls.push_back(std::move(call));
      return;
    }
    if (type != "function_call_output")
      fields.fail("type",
                  concat("expected message, reasoning, function_call or function_call_output, "
                         "got '",
                         type.substr(0, 64), "'"));
    messages_.push_back({.role = "tool",
                         .content = read_content(fields, "output"),
                         .tool_call_id = fields.required_text("call_id")});
  }

  void message(Fields& fields) {
    if (!fields.has("role")) fields.fail("role", "is required");
    std::string role = *fields.choice("role", {"user", "assistant", "system", "developer"});
    std::string content = read_content(fields, "content");
    if (role == "assistant") {
      assistant().content += content;
      return;
    }
    if (role == "developer") role = "system";
    messages_.push_back({.role = std::move(role), .content = std::move(content)});
  }

  void reasoning(Fields& fields) {
    fields.accept({"content", "summary"});
    for (const char* name : {"content", "summary"}) {
      const Json* parts = fields.list(name, kMostItems);
      if (!parts || parts->empty()) continue;
      for (size_t i = 0; i < parts->size(); ++i) {
        Fields part = fields.below((*parts)[i], concat(fields.path_of(name), "[", i, "]"));
        part.accept({"type"});
        assistant().reasoning += part.required_text("text");
      }
      return;
    }
  }

  std::vector<llm::Message> messages_;
};

void read_tools(Fields& body, ResponsesCall& call) {
  Json shown = Json::array(), tools = Json::array();
  if (const Json* list = body.list("tools", kMostTools)) {
    for (size_t i = 0; i < list->size(); ++i) {
      const std::string path = concat("tools[", i, "]");
      if (Fields((*list)[i], path).required_text("type") != "function") {
        call.ignored.push_back(path);
        continue;
      }
      Fields tool = body.below((*list)[i], path);
      tool.accept({"type", "strict"});
      Json function = {{"name", tool.required_text("name")}};
      if (auto description = tool.text("description")) function["description"] = *description;
      if (const Json* parameters = tool.find("parameters")) function["parameters"] = *parameters;
      const std::string known = concat("tools[", tools.size(), "].function");
      call.paths.emplace_back(known, path);
      tools.push_back({{"type", "function"}, {"function", std::move(function)}});
      Json one = (*list)[i];
      if (!one.contains("strict")) one["strict"] = true;
      if (!one.contains("parameters")) one["parameters"] = nullptr;
      shown.push_back(std::move(one));
    }
  }
  if (!tools.empty()) call.request.tools.tools = tools.dump();
  call.echoed["tools"] = std::move(shown);
}

void read_tool_choice(Fields& body, ResponsesCall& call) {
  using Choice = ToolUse::Choice;
  ToolUse& use = call.request.tools;
  use.parallel = body.boolean("parallel_tool_calls").value_or(true);
  call.echoed["parallel_tool_calls"] = use.parallel;
  const Json* choice = body.find("tool_choice");
  call.echoed["tool_choice"] = choice ? *choice : Json("auto");
  if (!choice) return;
  if (choice->is_string()) {
    const std::string word = *body.choice("tool_choice", {"none", "auto", "required"});
    use.choice = word == "none"   ? Choice::none
                 : word == "auto" ? Choice::automatic
                                  : Choice::required;
    return;
  }
  Fields object = body.below(*choice, "tool_choice");
  object.choice("type", {"function"});
  use.choice = Choice::named;
  use.name = object.required_text("name");
}

void read_text_format(Fields& body, ResponsesCall& call) {
  Json shown = {{"format", {{"type", "text"}}}};
  if (auto text = body.object("text")) {
    text->accept({"verbosity"});
    if (auto format = text->object("format")) {
      if (!format->has("type")) format->fail("type", "is required");
      const std::string type = *format->choice("type", {"text", "json_object", "json_schema"});
      std::string& schema = call.request.request.sampling.json_schema;
      if (type == "json_object") schema = R"({"type":"object"})";
      if (type == "json_schema") {
        schema = format->at("schema").dump();
        format->accept({"name", "strict", "description"});
      }
      shown["format"] = *text->find("format");
    }
  }
  call.paths.emplace_back("response_format.json_schema.schema", "text.format.schema");
  call.echoed["text"] = std::move(shown);
}

void read_reasoning(Fields& body, ResponsesCall& call) {
  Json shown = {{"effort", nullptr}, {"summary", nullptr}};
  if (auto reasoning = body.object("reasoning")) {
    if (const auto effort = reasoning->choice(
            "effort", {"none", "minimal", "low", "medium", "high", "xhigh", "max"})) {
      shown["effort"] = *effort;
      set_template_variable(call.request.request.chat, "reasoning_effort", *effort);
      if (*effort == "none")
        set_template_variable(call.request.request.chat, "enable_thinking", false);
    }
    reasoning->accept({"summary", "generate_summary"});
  }
  call.echoed["reasoning"] = std::move(shown);
}

// What would need a memory of earlier responses, or work after the answer.
void refuse_state(Fields& body) {
  for (const char* name : {"previous_response_id", "conversation", "prompt"})
    if (body.has(name))
      body.fail(name, "is not supported: nothing is stored; send the whole input");
  if (body.boolean("background").value_or(false)) body.fail("background", "is not supported");
}

void read_numbers(Fields& body, ResponsesCall& call) {
  llm::Request& wanted = call.request.request;
  const auto most = read_token_count(body, "max_output_tokens", 1);
  wanted.max_tokens = most.value_or(-1);
  call.echoed["max_output_tokens"] = most ? Json(*most) : Json();
  read_sampling(body, wanted);
  call.echoed["temperature"] = wanted.sampling.temperature;
  call.echoed["top_p"] = wanted.sampling.top_p;
  const auto truncation = body.choice("truncation", {"auto", "disabled"});
  if (truncation == "auto") wanted.overflow = llm::Overflow::truncate;
  call.echoed["truncation"] = truncation.value_or("disabled");
  const Json* include = body.list("include", 64);
  for (size_t i = 0; include && i < include->size(); ++i) {
    const bool is_known = (*include)[i] == "message.output_text.logprobs";
    if (!is_known) call.ignored.push_back(concat("include[", i, "]"));
    wanted.sampling.logprobs = wanted.sampling.logprobs || is_known;
  }
  if (const auto top = body.integer("top_logprobs", 0, 20)) {
    wanted.sampling.logprobs = true;
    wanted.sampling.top_logprobs = *top;
  }
}

}  // namespace

ResponsesCall read_responses(const Json& json, const llm::SamplingOptions& defaults) {
  Fields body(json);
  ResponsesCall call;
  llm::Request& wanted = call.request.request;
  wanted.sampling = defaults;
  call.request.model = body.text("model").value_or("");
  refuse_state(body);
  wanted.messages = InputReader().read(body);
  const auto instructions = body.text("instructions");
  if (instructions && !instructions->empty())
    wanted.messages.insert(wanted.messages.begin(), {.role = "system", .content = *instructions});
  call.echoed["instructions"] = instructions ? Json(*instructions) : Json();
  read_numbers(body, call);
  read_tools(body, call);
  read_tool_choice(body, call);
  read_text_format(body, call);
  read_reasoning(body, call);
  const Json* metadata = body.find("metadata");
  call.echoed["metadata"] = metadata ? *metadata : Json::object();
  call.request.wants_parts = body.boolean("stream").value_or(false);
  body.accept({"store", "user", "safety_identifier", "service_tier", "prompt_cache_key",
               "stream_options", "client_metadata"});
  for (std::string& name : body.unread()) call.ignored.push_back(std::move(name));
  return call;
}

}  // namespace tensora::serve
