#include "tensora/serve/anthropic_fields.h"

#include "tensora/base/check.h"
#include "tensora/serve/dialect.h"
#include "tensora/serve/sampling_fields.h"

namespace tensora::serve {
namespace {

constexpr size_t kMostMessages = 100'000, kMostBlocks = 100'000, kMostTools = 1024;

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw ApiError(400, concat(path, ": ", what), path);
}

void add_text(std::string& text, const std::string& more) {
  if (!text.empty() && !more.empty()) text += '\n';
  text += more;
}

// A string, or blocks of text.
std::string read_text(Fields& fields, const std::string& name) {
  const Json& content = fields.at(name);
  const std::string path = fields.path_of(name);
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array())
    refuse(path, concat("expected a string or a list of blocks, got ", kind_of(content)));
  if (content.size() > kMostBlocks) refuse(path, "too many blocks");
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    Fields block = fields.below(content[i], concat(path, "[", i, "]"));
    const std::string type = block.required_text("type");
    block.accept({"cache_control", "citations"});
    if (type != "text")
      block.fail("type", concat("only text is supported here, got '", type.substr(0, 64), "'"));
    add_text(text, block.required_text("text"));
  }
  return text;
}

// One message may become several: results of tools are messages of their own.
class MessageReader {
 public:
  std::vector<llm::Message> read(Fields& body) {
    const Json& list = body.at("messages");
    if (!list.is_array() || list.empty())
      refuse("messages", "expected a list with at least one message");
    if (list.size() > kMostMessages) refuse("messages", "too many messages");
    for (size_t i = 0; i < list.size(); ++i)
      message(body.below(list[i], concat("messages[", i, "]")));
    if (!messages_.back().tool_calls.empty())
      refuse(concat("messages[", list.size() - 1, "]"),
             "the calls of tools must be followed by their results");
    return std::move(messages_);
  }

 private:
  void message(Fields fields) {
    if (!fields.has("role")) fields.fail("role", "is required");
    const std::string role = *fields.choice("role", {"user", "assistant", "system"});
    const Json& content = fields.at("content");
    const std::string at = fields.path_of("content");
    if (content.is_string() || role == "system") {
      messages_.push_back({.role = role, .content = read_text(fields, "content")});
      return;
    }
    if (!content.is_array())
      refuse(at, concat("expected a string or a list of blocks, got ", kind_of(content)));
    if (content.size() > kMostBlocks) refuse(at, "too many blocks");
    llm::Message rest{.role = role};
    const size_t before = messages_.size();
    for (size_t i = 0; i < content.size(); ++i)
      block(fields.below(content[i], concat(at, "[", i, "]")), rest);
    const bool is_empty = rest.content.empty() && rest.tool_calls.empty() && rest.reasoning.empty();
    if (!is_empty || messages_.size() == before) messages_.push_back(std::move(rest));
  }

  void block(Fields block, llm::Message& rest) {
    const std::string type = block.required_text("type");
    // The cache finds prefixes by itself; the others are of an answer that comes back.
    block.accept({"cache_control", "citations", "signature", "data", "caller"});
    const bool is_assistant = rest.role == "assistant";
    if (type == "text") {
      add_text(rest.content, block.required_text("text"));
    } else if (type == "tool_result" && !is_assistant) {
      llm::Message result{.role = "tool"};
      result.tool_call_id = block.required_text("tool_use_id");
      if (block.has("content")) result.content = read_text(block, "content");
      if (block.boolean("is_error").value_or(false)) result.content = "Error: " + result.content;
      messages_.push_back(std::move(result));
    } else if (type == "tool_use" && is_assistant) {
      const Json& input = block.at("input");
      if (!input.is_object())
        block.fail("input", concat("expected an object, got ", kind_of(input)));
      rest.tool_calls.push_back({.id = block.required_text("id"),
                                 .name = block.required_text("name"),
                                 .arguments = input.dump()});
    } else if (type == "thinking" && is_assistant) {
      add_text(rest.reasoning, block.required_text("thinking"));
    } else if (type != "redacted_thinking" || !is_assistant) {
      block.fail("type", concat("expected text, tool_use, tool_result or thinking where it may "
                                "stand, got '",
                                type.substr(0, 64), "'"));
    }
  }

  std::vector<llm::Message> messages_;
};

void read_tools(Fields& body, AnthropicCall& call) {
  const Json* list = body.list("tools", kMostTools);
  if (!list) return;
  Json tools = Json::array();
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string path = concat("tools[", i, "]");
    // Tools that Anthropic runs itself have types with a date: web_search_20250305.
    if (Fields((*list)[i], path).text("type").value_or("custom") != "custom") {
      call.ignored.push_back(path);
      continue;
    }
    Fields tool = body.below((*list)[i], path);
    tool.accept({"type", "strict", "cache_control"});
    Json function = {{"name", tool.required_text("name")}};
    if (auto description = tool.text("description")) function["description"] = *description;
    function["parameters"] = tool.at("input_schema");
    const std::string known = concat("tools[", tools.size(), "].function");
    call.paths.emplace_back(known + ".parameters", path + ".input_schema");
    call.paths.emplace_back(known, path);
    tools.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  if (!tools.empty()) call.request.tools.tools = tools.dump();
}

void read_tool_choice(Fields& body, ToolUse& use) {
  auto choice = body.object("tool_choice");
  if (!choice) return;
  using Choice = ToolUse::Choice;
  if (!choice->has("type")) choice->fail("type", "is required");
  const std::string type = *choice->choice("type", {"auto", "any", "tool", "none"});
  use.choice = type == "auto"   ? Choice::automatic
               : type == "any"  ? Choice::required
               : type == "none" ? Choice::none
                                : Choice::named;
  if (type == "tool") use.name = choice->required_text("name");
  use.parallel = !choice->boolean("disable_parallel_tool_use").value_or(false);
}

void read_thinking(Fields& body, llm::ChatOptions& chat) {
  auto thinking = body.object("thinking");
  if (!thinking) return;
  if (!thinking->has("type")) thinking->fail("type", "is required");
  const std::string type = *thinking->choice("type", {"enabled", "disabled", "adaptive"});
  set_template_variable(chat, "enable_thinking", type != "disabled");
  thinking->accept({"budget_tokens", "display"});
}

void read_output_format(Fields& body, AnthropicCall& call) {
  auto format = body.object("output_format");
  if (auto config = body.object("output_config"); config && !format)
    format = config->object("format");
  if (!format) return;
  format->choice("type", {"json_schema"});
  call.request.request.sampling.json_schema = format->at("schema").dump();
  call.paths.emplace_back("response_format.json_schema.schema", format->path_of("schema"));
}

}  // namespace

AnthropicCall read_anthropic(const Json& json, const llm::SamplingOptions& defaults, bool counts) {
  Fields body(json);
  AnthropicCall call;
  llm::Request& wanted = call.request.request;
  wanted.sampling = defaults;
  call.request.model = body.text("model").value_or("");
  if (!counts && !body.has("max_tokens")) body.fail("max_tokens", "is required");
  wanted.max_tokens = read_token_count(body, "max_tokens", 1).value_or(-1);
  wanted.messages = MessageReader().read(body);
  continue_assistant(wanted);
  if (body.has("system"))
    if (std::string text = read_text(body, "system"); !text.empty())
      wanted.messages.insert(wanted.messages.begin(),
                             {.role = "system", .content = std::move(text)});
  read_sampling(body, wanted);
  if (const Json* stops = body.list("stop_sequences", 64))
    for (size_t i = 0; i < stops->size(); ++i) {
      const std::string path = concat("stop_sequences[", i, "]");
      if (!(*stops)[i].is_string() || (*stops)[i].get_ref<const std::string&>().empty())
        refuse(path, "expected a string that is not empty");
      wanted.stop.push_back((*stops)[i].get<std::string>());
    }
  read_tools(body, call);
  read_tool_choice(body, call.request.tools);
  read_thinking(body, wanted.chat);
  read_output_format(body, call);
  call.request.wants_parts = body.boolean("stream").value_or(false);
  body.accept({"metadata", "service_tier", "betas", "cache_control", "inference_geo"});
  for (std::string& name : body.unread()) call.ignored.push_back(std::move(name));
  return call;
}

}  // namespace tensora::serve
