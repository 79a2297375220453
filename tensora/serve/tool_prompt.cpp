#include "tensora/serve/tool_prompt.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tensora/base/check.h"

namespace tensora::serve {
namespace {

using Json = nlohmann::ordered_json;

std::string description(const std::string& tools) {
  std::string out =
      "You can call functions. Each line between <tools> and </tools> describes one of them, with "
      "a JSON schema of its arguments:\n<tools>\n";
  for (const Json& tool : Json::parse(tools)) out += tool.dump() + "\n";
  return out +
         "</tools>\nTo call a function, write a JSON object with its name and its arguments "
         "between <tool_call> and </tool_call>:\n<tool_call>\n"
         "{\"name\": \"function\", \"arguments\": {}}\n</tool_call>\n"
         "The result comes back between <tool_response> and </tool_response>.";
}

bool takes_system(const llm::ChatTemplate& chat) {
  const std::vector<llm::Message> probe = {{.role = "system", .content = "x"},
                                           {.role = "user", .content = "y"}};
  try {
    chat.render(probe);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::string written(const llm::ToolCall& call) {
  return concat("<tool_call>\n{\"name\": ", Json(call.name).dump(),
                ", \"arguments\": ", call.arguments.empty() ? "{}" : call.arguments,
                "}\n</tool_call>");
}

// Calls become text of the assistant, results text of the user; neighbours become one message,
// since templates often demand that the roles alternate.
void write_calls(std::vector<llm::Message>& messages) {
  std::vector<llm::Message> out;
  bool follows_result = false;
  for (llm::Message& message : messages) {
    for (const llm::ToolCall& call : message.tool_calls)
      message.content += concat(message.content.empty() ? "" : "\n", written(call));
    message.tool_calls.clear();
    const bool is_result = message.role == "tool";
    if (is_result) {
      message = {.role = "user",
                 .content = concat("<tool_response>\n", message.content, "\n</tool_response>")};
      if (!out.empty() && out.back().role == "user") {
        out.back().content += "\n" + message.content;
        follows_result = true;
        continue;
      }
    } else if (follows_result && message.role == "user") {
      out.back().content += "\n\n" + message.content;
      follows_result = false;
      continue;
    }
    follows_result = is_result;
    out.push_back(std::move(message));
  }
  messages = std::move(out);
}

}  // namespace

void describe_tools(const llm::ChatTemplate& chat, const std::string& tools,
                    std::vector<llm::Message>& messages) {
  write_calls(messages);
  if (tools.empty() || messages.empty()) return;
  const std::string words = description(tools);
  if (messages.front().role == "system" || messages.front().role == "developer")
    messages.front().content += concat(messages.front().content.empty() ? "" : "\n\n", words);
  else if (takes_system(chat))
    messages.insert(messages.begin(), llm::Message{.role = "system", .content = words});
  else
    messages.front().content = concat(words, "\n\n", messages.front().content);
}

void shorten_ids(std::vector<llm::Message>& messages) {
  const auto shorten = [](std::string& id) {
    const auto is_plain = [](unsigned char c) { return c < 128 && std::isalnum(c) != 0; };
    if (id.empty() || (id.size() == 9 && std::all_of(id.begin(), id.end(), is_plain))) return;
    uint64_t hash = 1469598103934665603u;
    for (const char c : id) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
    id.clear();
    for (int i = 0; i < 9; ++i, hash /= 36) id += "0123456789abcdefghijklmnopqrstuvwxyz"[hash % 36];
  };
  for (llm::Message& message : messages) {
    shorten(message.tool_call_id);
    for (llm::ToolCall& call : message.tool_calls) shorten(call.id);
  }
}

}  // namespace tensora::serve
