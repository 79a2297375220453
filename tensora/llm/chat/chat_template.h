#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tensora::llm {

struct ToolCall {
  std::string id = {};
  std::string name = {};
  std::string arguments = {};  // JSON
};

/// One turn of a conversation.
struct Message {
  std::string role = {};  // system, user, assistant, tool; what else the template knows
  std::string content = {};
  std::string name = {};
  std::string reasoning = {};  // what an assistant thought; templates know it as reasoning_content
  std::vector<ToolCall> tool_calls = {};
  std::string tool_call_id = {};  // whose result a tool's message is
};

struct ChatOptions {
  bool add_generation_prompt = true;  // ends with the beginning of the assistant's turn
  /// Ends with the content of the last message, so that the answer continues it. The generation
  /// prompt must be off.
  bool continue_final_message = false;
  std::string tools = {};      // a JSON list of tools; empty: none
  std::string documents = {};  // a JSON list; empty: none
  /// Further variables for the template, as a JSON object: {"enable_thinking": false}.
  std::string variables = {};
  /// Seconds since 1970, for templates that write the date; now if not given.
  std::optional<int64_t> now = {};
};

/// How a model wants a conversation to be written: a Jinja template, which runs in an interpreter
/// of its own that reads nothing but its variables and that bounds depth, steps and output.
/// Constant functions may be called from several threads.
class ChatTemplate {
 public:
  /// Throws, with line and column, if the source is not a template.
  ChatTemplate(std::string source, std::string bos, std::string eos);

  /// A template that is built in: "chatml".
  static ChatTemplate builtin(std::string_view name, std::string bos, std::string eos);
  static std::vector<std::string> builtin_names();
  /// The template of a model, or ChatML if `source` is empty; then `notice` says so.
  static ChatTemplate of_model(std::string source, std::string bos, std::string eos);

  /// The conversation as text, special tokens included.
  std::string render(std::span<const Message> messages, const ChatOptions& options = {}) const;
  /// The same for messages as a JSON list, whose fields the template sees as they are. Does not
  /// continue the final message.
  std::string render_json(std::string_view messages, const ChatOptions& options = {}) const;

  const std::string& source() const;
  /// What the user should be told about the choice of this template; empty: nothing.
  const std::string& notice() const { return notice_; }

 private:
  struct Parsed;
  std::shared_ptr<const Parsed> parsed_;
  std::string notice_;
};

}  // namespace tensora::llm
