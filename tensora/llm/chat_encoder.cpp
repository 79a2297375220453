#include "tensora/llm/chat_encoder.h"

#include <functional>
#include <nlohmann/json.hpp>

#include "tensora/base/check.h"

namespace tensora::llm {
namespace {

// Note [Words of control tokens]
// A conversation is one text when it has left the template, so a control token that the template
// wrote looks like one that a user wrote. Before that, a mark is put into every control token's
// text in the messages. It is a noncharacter, which no text has, and templates treat it as a
// letter. The result is cut at the marks, and neither half is a control token.
constexpr std::string_view kMark = "\xEF\xB7\x90";  // U+FDD0

void erase_marks(std::string& text) {
  for (size_t at = text.find(kMark); at != text.npos; at = text.find(kMark, at))
    text.erase(at, kMark.size());
}

using Json = nlohmann::ordered_json;

constexpr int kMostLevels = 500;

void change_texts(Json& json, const std::function<void(std::string&)>& change) {
  if (json.is_string()) change(json.get_ref<std::string&>());
  if (json.is_structured())
    for (Json& part : json) change_texts(part, change);
}

// Changes the strings of a JSON text. They are looked at without their escapes, as the template
// sees them. What is not JSON is left to the template, which says so.
void change_json(std::string& text, const std::function<void(std::string&)>& change) {
  if (text.empty()) return;
  Json json = Json::parse(
      text,
      [](int depth, Json::parse_event_t, Json&) {
        check(depth <= kMostLevels, "chat: tools and arguments of calls must have at most ",
              kMostLevels, " levels of JSON");
        return true;
      },
      false);
  if (json.is_discarded()) return;
  change_texts(json, change);
  text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

ChatEncoder::ChatEncoder(TokenizerPtr tokenizer, ChatTemplate chat)
    : tokenizer_(std::move(tokenizer)), chat_(std::move(chat)) {}

void ChatEncoder::find_controls() const {
  // Not by std::call_once: the C++ library's variables of a thread, which it uses, cannot be
  // reached by code that is compiled for fast ones where a program loaded that library late, as
  // Python does.
  const std::lock_guard lock(mutex_);
  if (found_) return;
  for (int64_t token = 0; token < tokenizer_->vocab_size(); ++token) {
    const auto id = static_cast<int32_t>(token);
    if (!tokenizer_->is_control(id)) continue;
    const std::string& name = tokenizer_->bytes_of(id, {.special = true});
    if (name.size() > 1) controls_.push_back(name);
  }
  found_ = true;
}

void ChatEncoder::break_controls(std::string& text) const {
  find_controls();
  erase_marks(text);
  for (const std::string& control : controls_)
    for (size_t at = text.find(control); at != text.npos; at = text.find(control, at + 1))
      text.insert(at + 1, kMark);
}

std::vector<int32_t> ChatEncoder::encode(std::span<const Message> messages,
                                         const ChatOptions& options) const {
  std::vector<Message> safe(messages.begin(), messages.end());
  const auto break_text = [this](std::string& text) { break_controls(text); };
  for (Message& message : safe) {
    for (std::string* text :
         {&message.content, &message.reasoning, &message.name, &message.tool_call_id})
      break_controls(*text);
    for (ToolCall& call : message.tool_calls) {
      break_controls(call.id);
      break_controls(call.name);
      change_json(call.arguments, break_text);
    }
  }
  ChatOptions safe_options = options;
  change_json(safe_options.tools, break_text);
  change_json(safe_options.documents, break_text);
  const std::string text = chat_.render(safe, safe_options);
  std::vector<int32_t> tokens;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(kMark, begin), text.size());
    // The template writes BOS itself where the model wants it.
    const auto part = tokenizer_->encode(std::string_view(text).substr(begin, end - begin),
                                         {.add_special = false, .parse_special = true});
    tokens.insert(tokens.end(), part.begin(), part.end());
    begin = end + kMark.size();
  }
  return tokens;
}

}  // namespace tensora::llm
