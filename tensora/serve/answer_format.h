#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tensora/llm/chat/chat_template.h"
#include "tensora/llm/tokenizer/tokenizer.h"
#include "tensora/serve/answer.h"

namespace tensora::serve {

struct ParserOptions;

/// Takes an answer apart while it is written: text, reasoning, calls of tools. One per answer.
class AnswerParser {
 public:
  using Give = std::function<void(AnswerEvent&& event)>;
  virtual ~AnswerParser() = default;
  /// Text and tokens that have come; they are taken out of the piece. Gives events as soon as it is
  /// certain what the text is; they carry the tokens.
  virtual void push(llm::Piece&& piece, const Give& give) = 0;
  /// The answer has ended: gives what was held back. Returns why it ended for the client.
  virtual AnswerEnd finish(const llm::Completion& completion, const Give& give) = 0;
};

/// How a model writes reasoning and calls of tools, found from its chat template, and what a
/// request asks for: it sets up the engine's request (template variables, grammar, stops) and makes
/// the parsers of the answers. Made on the pool; throws an ApiError naming path and keyword for a
/// schema that cannot be enforced.
class AnswerFormat {
 public:
  /// `chat` is null for requests without messages.
  AnswerFormat(const llm::ChatTemplate* chat, const llm::TokenizerPtr& tokenizer,
               AnswerRequest& request);
  std::unique_ptr<AnswerParser> parser() const;

 private:
  std::shared_ptr<const ParserOptions> options_;
  llm::TokenizerPtr tokenizer_;
};

}  // namespace tensora::serve
