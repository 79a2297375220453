#include "tensora/serve/answer_format.h"

namespace tensora::serve {
namespace {

// The whole answer is text.
class PlainParser final : public AnswerParser {
 public:
  void push(llm::Piece piece, const Give& give) override {
    if (piece.text.empty() && piece.tokens.empty()) return;
    give({.text = std::move(piece.text), .tokens = std::move(piece.tokens)});
  }
  AnswerEnd finish(const llm::Completion& completion, const Give&) override {
    switch (completion.reason) {
      case llm::FinishReason::stop:
        return AnswerEnd::stop;
      case llm::FinishReason::length:
        return AnswerEnd::length;
      case llm::FinishReason::cancelled:
        return AnswerEnd::cancelled;
      case llm::FinishReason::deadline:
        return AnswerEnd::deadline;
    }
    return AnswerEnd::stop;
  }
};

}  // namespace

AnswerFormat::AnswerFormat(const llm::ChatTemplate* chat, const llm::TokenizerPtr&,
                           AnswerRequest& request)
    : splits_reasoning_(chat && request.splits_reasoning) {
  if (!request.tools.tools.empty()) throw ApiError(400, "tools: are not supported", "tools");
}

std::unique_ptr<AnswerParser> AnswerFormat::parser() const {
  return std::make_unique<PlainParser>();
}

}  // namespace tensora::serve
