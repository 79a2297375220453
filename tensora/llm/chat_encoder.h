#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "tensora/llm/chat/chat_template.h"
#include "tensora/llm/tokenizer/tokenizer.h"

namespace tensora::llm {

/// Turns conversations into tokens. The template's control tokens become tokens; the same words in
/// a message stay words, so that nobody can end his turn and speak as somebody else.
/// Constant functions may be called from several threads.
class ChatEncoder {
 public:
  ChatEncoder(TokenizerPtr tokenizer, ChatTemplate chat);

  std::vector<int32_t> encode(std::span<const Message> messages, const ChatOptions& options) const;
  const ChatTemplate& chat_template() const { return chat_; }

 private:
  void find_controls() const;
  void break_controls(std::string& text) const;

  TokenizerPtr tokenizer_;
  ChatTemplate chat_;
  mutable std::mutex mutex_;
  mutable bool found_ = false;
  mutable std::vector<std::string> controls_;  // texts of control tokens, found when first needed
};

}  // namespace tensora::llm
