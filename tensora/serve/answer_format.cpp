#include "tensora/serve/answer_format.h"

#include <algorithm>
#include <set>

#include "tensora/base/check.h"
#include "tensora/llm/grammar/grammar_cache.h"
#include "tensora/serve/answer_grammar.h"
#include "tensora/serve/answer_parser.h"
#include "tensora/serve/json_fields.h"
#include "tensora/serve/tag_parameters.h"
#include "tensora/serve/tool_prompt.h"

namespace tensora::serve {
namespace {

constexpr size_t kMostTools = 1024;
constexpr size_t kMostSchemaBytes = 4 << 20;

bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= 128 &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return (c < 128 && std::isalnum(c) != 0) || c == '_' || c == '-' || c == '.' || c == ':';
         });
}

// The schema of a tool's arguments, which are always an object.
std::string schema_of(const Json* parameters, const std::string& path) {
  if (!parameters || parameters->is_null())
    return R"({"type":"object","properties":{},"additionalProperties":false})";
  if (!parameters->is_object())
    throw ApiError(400, concat(path, ": expected a JSON schema, got ", kind_of(*parameters)), path);
  const auto type = parameters->find("type");
  if (type != parameters->end() && *type != "object")
    throw ApiError(400, concat(path, ".type: expected object, got ", type->dump().substr(0, 64)),
                   path + ".type");
  Json schema = *parameters;
  const bool says_more =
      std::any_of(schema.items().begin(), schema.items().end(), [](const auto& i) {
        return i.key() == "$ref" || i.key() == "anyOf" || i.key() == "oneOf" || i.key() == "allOf";
      });
  if (type == parameters->end() && !says_more) schema["type"] = "object";
  return schema.dump();
}

// Reads a list of tools in the shape of chat completions.
std::vector<Tool> read_tools(const std::string& text) {
  const Json list = Json::parse(text);
  if (list.size() > kMostTools)
    throw ApiError(400, concat("tools: expected at most ", kMostTools, ", got ", list.size()),
                   "tools");
  std::vector<Tool> tools;
  std::set<std::string> names;
  size_t bytes = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    Fields tool(list[i], concat("tools[", i, "]"));
    tool.choice("type", {"function"});
    Fields function(tool.at("function"), tool.path_of("function"));
    const std::string name = function.required_text("name");
    if (!is_name(name))
      function.fail("name", "expected 1 to 128 letters, digits, '_', '-', '.' or ':'");
    if (!names.insert(name).second) function.fail("name", concat("'", name, "' is there twice"));
    const std::string path = function.path_of("parameters");
    tools.push_back({name, schema_of(function.find("parameters"), path), path});
    bytes += tools.back().schema.size();
  }
  if (bytes > kMostSchemaBytes)
    throw ApiError(
        400, concat("tools: expected schemas of at most ", kMostSchemaBytes, " bytes, got ", bytes),
        "tools");
  return tools;
}

// How the prompt of a request leaves the reasoning: begun, not begun, or switched off.
enum class Thinking : uint8_t { begun, possible, off };

Thinking thinking_of(const llm::ChatTemplate& chat, const ReasoningFormat& reasoning,
                     const llm::ChatOptions& options, const llm::Message& final) {
  if (!reasoning.is_known()) return Thinking::off;
  std::vector<llm::Message> probe = {{.role = "user", .content = "x"}};
  if (options.continue_final_message) probe.push_back(final);
  std::string prompt;
  try {
    prompt = chat.render(probe, options);
  } catch (const Error&) {
    return Thinking::possible;  // the conversation itself may do better, or says what is wrong
  }
  if (options.continue_final_message) {
    const size_t begin = prompt.rfind(reasoning.begin), end = prompt.rfind(reasoning.end);
    const bool is_open = begin != prompt.npos && (end == prompt.npos || begin > end);
    return is_open ? Thinking::begun : Thinking::off;
  }
  while (!prompt.empty() &&
         std::string_view(" \t\r\n").find(prompt.back()) != std::string_view::npos)
    prompt.pop_back();
  if (prompt.ends_with(reasoning.begin)) return Thinking::begun;
  return prompt.ends_with(reasoning.end) ? Thinking::off : Thinking::possible;
}

std::vector<Tool> tools_of(const AnswerRequest& request) {
  using Choice = ToolUse::Choice;
  const ToolUse& use = request.tools;
  std::vector<Tool> tools = use.tools.empty() ? std::vector<Tool>{} : read_tools(use.tools);
  if (use.choice == Choice::required && tools.empty())
    throw ApiError(400, "tool_choice: 'required' needs tools, got none", "tool_choice");
  if (use.choice == Choice::named) {
    std::erase_if(tools, [&](const Tool& tool) { return tool.name != use.name; });
    if (tools.empty())
      throw ApiError(400, concat("tool_choice: there is no tool named '", use.name, "'"),
                     "tool_choice");
  }
  if (use.choice == Choice::none) tools.clear();
  return tools;
}

// Tells the template, or the model itself, about the tools.
void show_tools(const llm::ChatTemplate& chat, const ToolFormat& format, bool has_tools,
                llm::Request& request, const std::string& tools) {
  const std::string& shown = has_tools ? tools : std::string();
  const bool has_history = std::any_of(
      request.messages.begin(), request.messages.end(), [](const llm::Message& message) {
        return !message.tool_calls.empty() || message.role == "tool";
      });
  if (format.needs_prompt) {
    if (has_tools || has_history) describe_tools(chat, shown, request.messages);
  } else if (has_tools) {
    request.chat.tools = shown;
  }
  if (format.has_short_ids) shorten_ids(request.messages);
}

// The parameters of each tool that tags hold as they are.
std::map<std::string, std::set<std::string>> tag_texts(const ToolFormat& format,
                                                       const std::vector<Tool>& tools) {
  std::map<std::string, std::set<std::string>> texts;
  if (std::none_of(format.call.begin(), format.call.end(), [](const ToolFormat::Part& part) {
        return part.kind == ToolFormat::Part::Kind::tags;
      }))
    return texts;
  for (const Tool& tool : tools)
    for (const TagParameter& parameter : tag_parameters(tool))
      if (parameter.is_text) texts[tool.name].insert(parameter.name);
  return texts;
}

// Compiles the constraint here, on the thread that reads requests, so that the engine finds it
// compiled; what is wrong with it is the client's mistake. `schemas` is the field that it was made
// of; null: it is a grammar of the client's own.
void compile(const llm::SamplingOptions& sampling, const llm::TokenizerPtr& tokenizer,
             const char* schemas) {
  try {
    if (!sampling.grammar.empty())
      llm::cached_matcher(sampling.grammar, tokenizer);
    else if (!sampling.json_schema.empty())
      llm::cached_schema_matcher(sampling.json_schema, tokenizer);
  } catch (const Error& error) {
    if (schemas) refuse_schema(error.what(), schemas);
    throw ApiError(400, error.what(), "grammar");  // "grammar: line 1, column 5: ..."
  }
}

}  // namespace

AnswerFormat::AnswerFormat(const llm::ChatTemplate* chat, const llm::TokenizerPtr& tokenizer,
                           AnswerRequest& request)
    : tokenizer_(tokenizer) {
  auto options = std::make_shared<ParserOptions>();
  llm::SamplingOptions& sampling = request.request.sampling;
  AnswerShape shape;
  const auto is_control = [&](const std::string& marker) {
    const auto token = marker.empty() ? std::nullopt : tokenizer->find(marker);
    return token && tokenizer->is_control(*token);
  };
  if (chat) {
    options->format = tool_format_of(chat->source());
    if (!is_control(options->format.lead)) options->format.lead.clear();
    shape.tools = tools_of(request);
    options->has_calls = !shape.tools.empty();
    options->texts = tag_texts(options->format, shape.tools);
    show_tools(*chat, options->format, options->has_calls, request.request, request.tools.tools);
    const ReasoningFormat reasoning = reasoning_format_of(chat->source());
    const Thinking thinking =
        thinking_of(*chat, reasoning, request.request.chat, request.request.messages.back());
    if (thinking != Thinking::off) shape.reasoning = reasoning;
    shape.is_thinking = thinking == Thinking::begun;
    if (request.splits_reasoning) options->reasoning = shape.reasoning;
    options->is_thinking = shape.is_thinking;
  } else if (!request.tools.tools.empty()) {
    throw ApiError(400, "tools: need messages and a model with a chat template", "tools");
  }
  const char* const schemas = options->has_calls             ? "tools"
                              : sampling.json_schema.empty() ? nullptr
                                                             : "response_format.json_schema.schema";
  const bool is_plain =
      !options->has_calls && (!shape.reasoning.is_known() || sampling.json_schema.empty());
  if (!is_plain) {
    if (!sampling.grammar.empty())
      throw ApiError(400, "grammar: cannot be combined with tools", "grammar");
    shape.format = options->format;
    shape.must_call = request.tools.choice == ToolUse::Choice::required ||
                      request.tools.choice == ToolUse::Choice::named;
    shape.may_repeat = request.tools.parallel;
    shape.schema = std::exchange(sampling.json_schema, {});
    sampling.grammar = answer_grammar(shape, *tokenizer);
  }
  options->shows_special =
      request.request.shows_special || is_control(options->reasoning.end) ||
      (options->has_calls &&
       is_control(options->format.is_bare ? options->format.lead : options->format.marker()));
  request.request.shows_special = options->shows_special;
  compile(sampling, tokenizer, schemas);
  options_ = std::move(options);
}

std::unique_ptr<AnswerParser> AnswerFormat::parser() const {
  return std::make_unique<FormatParser>(options_, tokenizer_);
}

}  // namespace tensora::serve
