#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "tensora/llm/tokenizer/tokenizer.h"
#include "tensora/serve/answer_format.h"
#include "tensora/serve/tool_format.h"

namespace tensora::serve {

/// What a FormatParser looks for.
struct ParserOptions {
  ReasoningFormat reasoning = {};  // unknown: everything is text
  bool is_thinking = false;        // the answer begins with reasoning
  bool has_calls = false;
  ToolFormat format = {};
  bool shows_special = false;  // control tokens are part of the text
  /// Of each tool the parameters whose values are texts, in a format with tags.
  std::map<std::string, std::set<std::string>> texts = {};
};

/// Takes an answer apart into reasoning, text and calls. Only what might be the beginning of a
/// marker, and white space that may stand before one, is held back: however the answer is cut into
/// pieces, the events put together are the same.
class FormatParser final : public AnswerParser {
 public:
  FormatParser(std::shared_ptr<const ParserOptions> options, llm::TokenizerPtr tokenizer);

  void push(llm::Piece&& piece, const Give& give) override;
  AnswerEnd finish(const llm::Completion& completion, const Give& give) override;

 private:
  enum class State : uint8_t {
    start,             // reasoning may begin
    before_reasoning,  // white space before it
    reasoning,
    before_text,  // white space behind reasoning
    first_text,   // a call without a marker may begin
    text,
    section_begin,
    before_call,  // white space behind a lead
    call,
    after_call,
    section_end,
  };
  using Part = ToolFormat::Part;

  bool advance(bool is_end);
  bool advance_start(bool is_end);
  bool advance_blank(State next, bool is_end);
  bool advance_reasoning(bool is_end);
  bool advance_first_text(bool is_end);
  bool advance_text(bool is_end);
  bool advance_parts(const ToolFormat::Parts& parts, State next, bool is_end);
  bool advance_part(const ToolFormat::Parts& parts);
  bool advance_arguments();
  bool advance_tags();
  bool advance_tag_value();
  void give_arguments(std::string text, size_t size);
  bool advance_after_call(bool is_end);

  void enter(State state) {
    state_ = state;
    part_ = 0;
  }
  bool pass_on(llm::Piece& piece);
  bool emit(AnswerEvent::Kind kind, size_t size);
  void skip(size_t size);
  std::vector<llm::Sampled> take_tokens();

  std::shared_ptr<const ParserOptions> options_;
  llm::TokenizerPtr tokenizer_;
  State state_;
  size_t part_ = 0;                                     // of the call or section
  std::string held_;                                    // text that is not decided yet
  size_t given_ = 0;                                    // bytes of the answer before `held_`
  size_t received_ = 0;                                 // bytes that all tokens so far stand for
  std::deque<std::pair<size_t, llm::Sampled>> tokens_;  // with the place of their first byte
  int64_t calls_ = 0;
  int64_t depth_ = 0;  // in the arguments
  bool in_string_ = false, is_escaped_ = false;
  std::string tool_;                       // that is being called
  size_t tags_ = 0;                        // parameters of the call so far
  bool in_tag_ = false, is_text_ = false;  // in a parameter's value, which is not JSON
  const Give* give_event_ = nullptr;
};

/// `length` random letters and digits.
std::string random_id(size_t length);

}  // namespace tensora::serve
