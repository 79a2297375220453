#include "tensora/llm/chat/chat_template.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "tensora/base/check.h"
#include "tensora/llm/chat/jinja/evaluator.h"
#include "tensora/llm/chat/jinja/parser.h"

namespace tensora::llm {
namespace {

using jinja::Dict;
using jinja::List;
using jinja::Value;

struct Builtin {
  std::string_view name;
  std::string_view source;
};

constexpr std::array<Builtin, 1> kBuiltins = {{
    {"chatml",
     "{% for message in messages %}"
     "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
     "{% endfor %}"
     "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"},
}};

// U+FDD1, a noncharacter.
constexpr std::string_view kContentEnd = "\xEF\xB7\x91";

// Arguments are seen as values where they are JSON, as templates expect them.
Value tool_call(const ToolCall& call) {
  Dict function;
  function.set("name", call.name);
  function.set("arguments", call.arguments.empty()
                                ? Value::dict({})
                                : jinja::from_json(call.arguments, "a tool call's arguments"));
  Dict out;
  if (!call.id.empty()) out.set("id", call.id);
  out.set("type", "function");
  out.set("function", Value::dict(std::move(function)));
  return Value::dict(std::move(out));
}

Value message_value(const Message& message) {
  Dict out;
  out.set("role", message.role);
  out.set("content", message.content);
  if (!message.name.empty()) out.set("name", message.name);
  if (!message.reasoning.empty()) out.set("reasoning_content", message.reasoning);
  if (!message.tool_call_id.empty()) out.set("tool_call_id", message.tool_call_id);
  if (!message.tool_calls.empty()) {
    List calls;
    for (const ToolCall& call : message.tool_calls) calls.push_back(tool_call(call));
    out.set("tool_calls", Value::list(std::move(calls)));
  }
  return Value::dict(std::move(out));
}

Value json_list(const std::string& text, std::string_view what) {
  if (text.empty()) return Value::none();
  Value out = jinja::from_json(text, what);
  check(out.is_sequence(), what, ": expected a list, got a ", out.type_name());
  return out;
}

int64_t current_time() {
  using namespace std::chrono;
  return duration_cast<seconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace

struct ChatTemplate::Parsed {
  std::string source, bos, eos;
  jinja::Body body;

  std::string render(Value messages, const ChatOptions& options) const {
    Dict variables;
    if (!options.variables.empty()) {
      const Value given = jinja::from_json(options.variables, "a template's variables");
      check(given.is_dict(), "a template's variables: expected an object, got a ",
            given.type_name());
      variables = given.pairs();
    }
    variables.set("messages", std::move(messages));
    variables.set("tools", json_list(options.tools, "tools"));
    variables.set("documents", json_list(options.documents, "documents"));
    variables.set("add_generation_prompt", options.add_generation_prompt);
    variables.set("bos_token", bos);
    variables.set("eos_token", eos);
    return jinja::Evaluator({}, options.now ? *options.now : current_time()).run(body, variables);
  }
};

ChatTemplate::ChatTemplate(std::string source, std::string bos, std::string eos) {
  jinja::Body body = jinja::parse(source);
  parsed_ = std::make_shared<const Parsed>(
      Parsed{std::move(source), std::move(bos), std::move(eos), std::move(body)});
}

ChatTemplate ChatTemplate::builtin(std::string_view name, std::string bos, std::string eos) {
  const auto found = std::find_if(kBuiltins.begin(), kBuiltins.end(),
                                  [&](const Builtin& builtin) { return builtin.name == name; });
  check(found != kBuiltins.end(), "chat template: expected chatml, got ", name);
  return ChatTemplate(std::string(found->source), std::move(bos), std::move(eos));
}

std::vector<std::string> ChatTemplate::builtin_names() {
  std::vector<std::string> out;
  for (const Builtin& builtin : kBuiltins) out.emplace_back(builtin.name);
  return out;
}

ChatTemplate ChatTemplate::of_model(std::string source, std::string bos, std::string eos) {
  if (!source.empty()) return ChatTemplate(std::move(source), std::move(bos), std::move(eos));
  ChatTemplate out = builtin("chatml", std::move(bos), std::move(eos));
  out.notice_ =
      "the model has no chat template; chatml is used, which the model may not have been trained "
      "on";
  return out;
}

std::string ChatTemplate::render(std::span<const Message> messages,
                                 const ChatOptions& options) const {
  List list;
  for (const Message& message : messages) list.push_back(message_value(message));
  if (!options.continue_final_message)
    return parsed_->render(Value::list(std::move(list)), options);
  check(!options.add_generation_prompt,
        "chat: a final message is continued without a generation prompt");
  check(!messages.empty(), "chat: there is no final message to continue");
  // A mark keeps templates from trimming the content, and shows where it ends.
  Message last = messages.back();
  last.content += kContentEnd;
  list.back() = message_value(last);
  std::string text = parsed_->render(Value::list(std::move(list)), options);
  const size_t end = text.rfind(kContentEnd);
  check(end != text.npos, "chat: the template does not write the content of a final message by ",
        last.role, ", so it cannot be continued");
  text.resize(end);
  return text;
}

std::string ChatTemplate::render_json(std::string_view messages, const ChatOptions& options) const {
  Value list = jinja::from_json(messages, "messages");
  check(list.is_sequence(), "messages: expected a list, got a ", list.type_name());
  return parsed_->render(std::move(list), options);
}

const std::string& ChatTemplate::source() const { return parsed_->source; }

}  // namespace tensora::llm
