#include "tensora/serve/tool_format.h"

#include "tensora/base/check.h"

namespace tensora::serve {
namespace {

using Part = ToolFormat::Part;
using Parts = ToolFormat::Parts;

Part text(std::string_view words) { return {.kind = Part::Kind::text, .text = std::string(words)}; }
Part space() { return {.kind = Part::Kind::space}; }
Part name() { return {.kind = Part::Kind::name}; }
Part tags() { return {.kind = Part::Kind::tags}; }
Part arguments() { return {.kind = Part::Kind::arguments}; }

// {"name": "...", "arguments": {...}}
Parts json_call(std::string_view word) {
  return {text("{"),
          space(),
          text("\"name\""),
          space(),
          text(":"),
          space(),
          text("\""),
          name(),
          text("\""),
          space(),
          text(","),
          space(),
          text(concat("\"", word, "\"")),
          space(),
          text(":"),
          space(),
          arguments(),
          space(),
          text("}")};
}

Parts between(Parts before, const Parts& parts, const Parts& after) {
  before.insert(before.end(), parts.begin(), parts.end());
  before.insert(before.end(), after.begin(), after.end());
  return before;
}

// <tool_call>{"name": ..., "arguments": ...}</tool_call>: Qwen, Hermes and many others.
ToolFormat hermes() {
  return {.name = "hermes",
          .call = between({text("<tool_call>"), space()}, json_call("arguments"),
                          {space(), text("</tool_call>")})};
}

// {"name": ..., "parameters": ...} and nothing else but perhaps text and a control token before it.
ToolFormat llama() {
  return {.name = "llama",
          .call = json_call("parameters"),
          .has_several = false,
          .lead = "<|python_tag|>",
          .is_bare = true};
}

// <function=name>{...}</function>: Functionary 3.1, and Llama 3.1 as its guide describes it.
ToolFormat function_tag() {
  return {.name = "function-tag",
          .call = {text("<function="), name(), text(">"), arguments(), text("</function>")}};
}

// The same with a tag for each parameter: Qwen3-Coder.
ToolFormat parameter_tags() {
  return {.name = "parameter-tags",
          .call = {text("<tool_call>"), space(), text("<function="), name(), text(">"), tags(),
                   text("</function>"), space(), text("</tool_call>")}};
}

// <TOOLCALL>[{"name": ..., "arguments": ...}, ...]</TOOLCALL>: Nemotron.
ToolFormat nemotron() {
  return {.name = "nemotron",
          .section_begin = {text("<TOOLCALL>"), space(), text("["), space()},
          .call = json_call("arguments"),
          .separator = ",",
          .section_end = {text("]"), space(), text("</TOOLCALL>")}};
}

// [TOOL_CALLS][{"name": ..., "arguments": ...}, ...]
ToolFormat mistral_list() {
  return {.name = "mistral-list",
          .section_begin = {text("[TOOL_CALLS]"), space(), text("["), space()},
          .call = json_call("arguments"),
          .separator = ",",
          .section_end = {text("]")},
          .has_short_ids = true};
}

// [TOOL_CALLS]name[ARGS]{...}
ToolFormat mistral() {
  return {.name = "mistral",
          .call = {text("[TOOL_CALLS]"), name(), text("[ARGS]"), arguments()},
          .has_short_ids = true};
}

// Full-width bars and low lines, as DeepSeek's tokens are spelled.
constexpr const char* kCallsBegin = "<\uFF5Ctool\u2581calls\u2581begin\uFF5C>";
constexpr const char* kCallsEnd = "<\uFF5Ctool\u2581calls\u2581end\uFF5C>";
constexpr const char* kCallBegin = "<\uFF5Ctool\u2581call\u2581begin\uFF5C>";
constexpr const char* kCallEnd = "<\uFF5Ctool\u2581call\u2581end\uFF5C>";
constexpr const char* kSeparator = "<\uFF5Ctool\u2581sep\uFF5C>";

// V3 and R1: the name stands behind "function", the arguments in a block of code.
ToolFormat deepseek_block() {
  return {.name = "deepseek-block",
          .section_begin = {text(kCallsBegin)},
          .call = {text(kCallBegin), text("function"), text(kSeparator), name(),
                   text("\n```json\n"), arguments(), text("\n```"), text(kCallEnd)},
          .separator = "\n",
          .section_end = {text(kCallsEnd)}};
}

// V3.1 and later.
ToolFormat deepseek() {
  return {.name = "deepseek",
          .section_begin = {text(kCallsBegin)},
          .call = {text(kCallBegin), name(), text(kSeparator), arguments(), text(kCallEnd)},
          .section_end = {text(kCallsEnd)}};
}

}  // namespace

Parts ToolFormat::parts_of_first() const { return between(section_begin, call, {}); }

const std::string& ToolFormat::marker() const {
  return section_begin.empty() ? call.front().text : section_begin.front().text;
}

ToolFormat tool_format_of(std::string_view source) {
  const auto has = [&](std::string_view words) {
    return source.find(words) != std::string_view::npos;
  };
  ToolFormat format = hermes();
  if (has("<tool_call>"))
    format = has("<function=") && has("<parameter=") ? parameter_tags() : hermes();
  else if (has("<function="))
    format = function_tag();
  else if (has("<TOOLCALL>"))
    format = nemotron();
  else if (has("[TOOL_CALLS]"))
    format = has("[ARGS]") ? mistral() : mistral_list();
  else if (has(kCallBegin))
    format = has("```json") ? deepseek_block() : deepseek();
  else if (has("<|python_tag|>") || (has("\"parameters\"") && has("<|eot_id|>")))
    format = llama();
  else
    format.needs_prompt = true;
  // A template that never names the tools cannot show them.
  if (!has("tools")) {
    format = hermes();
    format.needs_prompt = true;
  }
  return format;
}

ReasoningFormat reasoning_format_of(std::string_view source) {
  constexpr std::pair<std::string_view, std::string_view> kKnown[] = {
      {"<think>", "</think>"}, {"[THINK]", "[/THINK]"}, {"<seed:think>", "</seed:think>"}};
  for (const auto& [begin, end] : kKnown)
    if (source.find(begin) != std::string_view::npos || source.find(end) != std::string_view::npos)
      return {std::string(begin), std::string(end)};
  return {};
}

}  // namespace tensora::serve
