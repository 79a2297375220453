#include "tensora/serve/answer_parser.h"

#include <algorithm>
#include <random>

#include "tensora/base/check.h"
#include "tensora/base/entropy.h"
#include "tensora/serve/json_text.h"
#include "tensora/serve/tag_parameters.h"

namespace tensora::serve {
namespace {

constexpr std::string_view kBlank = " \t\r\n";

size_t blank_before(std::string_view text) {
  const size_t last = text.find_last_not_of(kBlank);
  return last == std::string_view::npos ? 0 : last + 1;
}

// Where the longest end of `text` begins that is the beginning of `marker`.
size_t partial_marker(std::string_view text, std::string_view marker) {
  for (size_t size = std::min(text.size(), marker.size() - 1); size > 0; --size)
    if (text.ends_with(marker.substr(0, size))) return text.size() - size;
  return text.size();
}

// The inside of a JSON string. The text may end in half a character.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (c == '\n')
      out += "\\n";
    else if (code < 0x20 || code == 0x7f)
      out += {'\\', 'u', '0', '0', "0123456789abcdef"[code >> 4], "0123456789abcdef"[code & 15]};
    else
      out += c;
  }
  return out;
}

AnswerEnd end_of(llm::FinishReason reason) {
  switch (reason) {
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

}  // namespace

std::string random_id(size_t length) {
  constexpr std::string_view kLetters =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  thread_local std::mt19937_64 random(entropy_word());
  std::uniform_int_distribution<size_t> letter(0, kLetters.size() - 1);
  std::string id;
  for (size_t i = 0; i < length; ++i) id += kLetters[letter(random)];
  return id;
}

FormatParser::FormatParser(std::shared_ptr<const ParserOptions> options,
                           llm::TokenizerPtr tokenizer)
    : options_(std::move(options)), tokenizer_(std::move(tokenizer)) {
  const ParserOptions& given = *options_;
  state_ = given.reasoning.is_known() ? given.is_thinking ? State::before_reasoning : State::start
                                      : State::first_text;
}

void FormatParser::push(llm::Piece&& piece, const Give& give) {
  give_event_ = &give;
  if (pass_on(piece)) return;
  const llm::DecodeOptions shown{.special = options_->shows_special};
  if (options_->shows_special && !piece.tokens.empty()) {
    // The token that ended the answer is not a part of it.
    const int32_t last = piece.tokens.back().token;
    const std::string& end = tokenizer_->bytes_of(last, shown);
    if (tokenizer_->is_end_of_generation(last) && piece.text.ends_with(end))
      piece.text.resize(piece.text.size() - end.size());
  }
  for (llm::Sampled& token : piece.tokens) {
    const size_t size = tokenizer_->bytes_of(token.token, shown).size();
    tokens_.emplace_back(received_, std::move(token));
    received_ += size;
  }
  held_ += piece.text;
  while (advance(false)) {
  }
}

// Most answers are nothing but text: then a piece is an event. False: it has to be looked at.
bool FormatParser::pass_on(llm::Piece& piece) {
  if (state_ != State::text || options_->has_calls || options_->shows_special || !held_.empty() ||
      !tokens_.empty() || piece.text.empty())
    return false;
  size_t last = received_, end = received_;
  for (const llm::Sampled& token : piece.tokens) {
    last = end;
    end += tokenizer_->bytes_of(token.token).size();
  }
  if (last >= given_ + piece.text.size()) return false;  // the last token's text is still to come
  received_ = end;
  given_ += piece.text.size();
  AnswerEvent event{.kind = AnswerEvent::Kind::text, .text = std::move(piece.text)};
  event.tokens = std::move(piece.tokens);
  (*give_event_)(std::move(event));
  piece.text = std::move(event.text);  // for their memory
  piece.tokens = std::move(event.tokens);
  return true;
}

AnswerEnd FormatParser::finish(const llm::Completion& completion, const Give& give) {
  give_event_ = &give;
  while (advance(true)) {
  }
  if (!tokens_.empty()) {  // behind all text: a stop string, the token that ended the answer
    given_ = std::max(given_, tokens_.back().first + 1);
    const bool is_thought = state_ == State::before_reasoning || state_ == State::reasoning;
    AnswerEvent event{.kind = calls_ > 0   ? AnswerEvent::Kind::arguments
                              : is_thought ? AnswerEvent::Kind::reasoning
                                           : AnswerEvent::Kind::text,
                      .call = std::max<int64_t>(calls_ - 1, 0)};
    event.tokens = take_tokens();
    give(std::move(event));
  }
  const AnswerEnd end = end_of(completion.reason);
  return end == AnswerEnd::stop && calls_ > 0 ? AnswerEnd::tool_calls : end;
}

// The tokens whose text begins in what was given.
std::vector<llm::Sampled> FormatParser::take_tokens() {
  std::vector<llm::Sampled> taken;
  while (!tokens_.empty() && tokens_.front().first < given_) {
    taken.push_back(std::move(tokens_.front().second));
    tokens_.pop_front();
  }
  return taken;
}

void FormatParser::skip(size_t size) {
  held_.erase(0, size);
  given_ += size;
}

// Gives the first bytes that are held; false: there are none.
bool FormatParser::emit(AnswerEvent::Kind kind, size_t size) {
  if (size == 0) return false;
  AnswerEvent event{.kind = kind, .text = held_.substr(0, size)};
  if (kind == AnswerEvent::Kind::arguments) event.call = calls_ - 1;
  skip(size);
  event.tokens = take_tokens();
  (*give_event_)(std::move(event));
  return true;
}

// One step; false: nothing more can be decided now.
bool FormatParser::advance(bool is_end) {
  const ToolFormat& format = options_->format;
  switch (state_) {
    case State::start:
      return advance_start(is_end);
    case State::before_reasoning:
      return advance_blank(State::reasoning, is_end);
    case State::reasoning:
      return advance_reasoning(is_end);
    case State::before_text:
      return advance_blank(State::first_text, is_end);
    case State::first_text:
      return advance_first_text(is_end);
    case State::text:
      return advance_text(is_end);
    case State::section_begin:
      return advance_parts(format.section_begin, State::call, is_end);
    case State::before_call:
      return advance_blank(State::call, is_end);
    case State::call:
      return advance_parts(format.call, State::after_call, is_end);
    case State::after_call:
      return advance_after_call(is_end);
    case State::section_end:
      return advance_parts(format.section_end, State::text, is_end);
  }
  return false;
}

bool FormatParser::advance_start(bool is_end) {
  const std::string& marker = options_->reasoning.begin;
  const size_t from = held_.find_first_not_of(kBlank);
  if (from == std::string::npos && !is_end) return false;
  const std::string_view rest =
      from == std::string::npos ? std::string_view() : std::string_view(held_).substr(from);
  if (rest.starts_with(marker)) {
    skip(from + marker.size());
    enter(State::before_reasoning);
  } else if (!is_end && marker.starts_with(rest)) {
    return false;
  } else {
    enter(State::first_text);
  }
  return true;
}

bool FormatParser::advance_blank(State next, bool is_end) {
  const size_t from = std::min(held_.find_first_not_of(kBlank), held_.size());
  skip(from);
  if (held_.empty() && !is_end) return false;
  // Tokens that stand for nothing but the end of the reasoning belong to it.
  if (next == State::first_text)
    if (auto tokens = take_tokens(); !tokens.empty())
      (*give_event_)({.kind = AnswerEvent::Kind::reasoning, .tokens = std::move(tokens)});
  enter(next);
  return true;
}

bool FormatParser::advance_reasoning(bool is_end) {
  const std::string& marker = options_->reasoning.end;
  const std::string_view held = held_;
  if (const size_t found = held.find(marker); found != std::string_view::npos) {
    const size_t size = blank_before(held.substr(0, found));
    emit(AnswerEvent::Kind::reasoning, size);
    skip(found - size + marker.size());
    enter(State::before_text);
    return true;
  }
  const size_t safe =
      is_end ? held.size() : blank_before(held.substr(0, partial_marker(held, marker)));
  return emit(AnswerEvent::Kind::reasoning, safe);
}

bool FormatParser::advance_first_text(bool is_end) {
  if (!options_->has_calls || !options_->format.is_bare) {
    enter(State::text);
    return true;
  }
  // A lead, or { "name", with any white space.
  size_t at = std::min(held_.find_first_not_of(kBlank), held_.size());
  if (const std::string& lead = options_->format.lead; !lead.empty()) {
    const std::string_view rest = std::string_view(held_).substr(at);
    if (rest.starts_with(lead)) {
      skip(at + lead.size());
      enter(State::before_call);
      return true;
    }
    if (!is_end && lead.starts_with(rest)) return false;
  }
  bool is_open = true;
  for (const std::string_view word : {std::string_view("{"), std::string_view("\"name\"")}) {
    at = std::min(held_.find_first_not_of(kBlank, at), held_.size());
    const std::string_view rest = std::string_view(held_).substr(at);
    if (rest.starts_with(word)) {
      at += word.size();
      continue;
    }
    if (!is_end && word.starts_with(rest)) return false;
    is_open = false;
    break;
  }
  if (is_open) skip(std::min(held_.find_first_not_of(kBlank), held_.size()));
  enter(is_open ? State::call : State::text);
  return true;
}

bool FormatParser::advance_text(bool is_end) {
  if (!options_->has_calls) return emit(AnswerEvent::Kind::text, held_.size());
  const bool is_bare = options_->format.is_bare;
  const std::string& marker = is_bare ? options_->format.lead : options_->format.marker();
  if (marker.empty() && calls_ == 0) return emit(AnswerEvent::Kind::text, held_.size());
  if (is_bare && calls_ > 0) return emit(AnswerEvent::Kind::text, blank_before(held_));
  const std::string_view held = held_;
  if (const size_t found = held.find(marker); found != std::string_view::npos) {
    const size_t size = blank_before(held.substr(0, found));
    emit(AnswerEvent::Kind::text, size);
    skip(found - size + (is_bare ? marker.size() : 0));
    enter(is_bare                                  ? State::before_call
          : options_->format.section_begin.empty() ? State::call
                                                   : State::section_begin);
    return true;
  }
  // White space behind calls says nothing.
  const size_t safe = is_end && calls_ == 0 ? held.size()
                      : is_end              ? blank_before(held)
                               : blank_before(held.substr(0, partial_marker(held, marker)));
  return emit(AnswerEvent::Kind::text, safe);
}

bool FormatParser::advance_parts(const ToolFormat::Parts& parts, State next, bool is_end) {
  if (part_ == parts.size()) {
    enter(next);
    return true;
  }
  if (held_.empty() || !advance_part(parts)) {
    if (is_end) held_.clear();  // the answer was cut off in the middle of a call
    return false;
  }
  return true;
}

// Reads a part of a call; false: it has not all come.
bool FormatParser::advance_part(const ToolFormat::Parts& parts) {
  const Part& part = parts[part_];
  switch (part.kind) {
    case Part::Kind::text:
      if (held_.starts_with(part.text)) {
        skip(part.text.size());
        ++part_;
        return true;
      }
      if (part.text.starts_with(held_)) return false;
      enter(State::text);  // not a call after all
      return true;
    case Part::Kind::space:
      skip(std::min(held_.find_first_not_of(kBlank), held_.size()));
      if (!held_.empty()) ++part_;
      return !held_.empty();
    case Part::Kind::name: {
      const size_t end = held_.find(parts[part_ + 1].text);
      if (end == std::string::npos) return false;
      AnswerEvent event{.kind = AnswerEvent::Kind::call, .call = calls_++};
      event.name = tool_ = held_.substr(0, end);
      event.call_id = options_->format.has_short_ids ? random_id(9) : "call_" + random_id(24);
      skip(end);
      event.tokens = take_tokens();
      (*give_event_)(std::move(event));
      depth_ = 0;
      in_string_ = is_escaped_ = in_tag_ = false;
      tags_ = 0;
      ++part_;
      return true;
    }
    case Part::Kind::arguments:
      return advance_arguments();
    case Part::Kind::tags:
      return in_tag_ ? advance_tag_value() : advance_tags();
  }
  return false;
}

// Gives the object up to its last brace.
bool FormatParser::advance_arguments() {
  size_t at = 0;
  bool is_whole = false;
  for (; at < held_.size() && !is_whole; ++at) {
    const char c = held_[at];
    if (in_string_) {
      if (is_escaped_)
        is_escaped_ = false;
      else if (c == '\\')
        is_escaped_ = true;
      else if (c == '"')
        in_string_ = false;
      continue;
    }
    if (c == '"') in_string_ = true;
    if (c == '{' || c == '[') ++depth_;
    if (c == '}' || c == ']') --depth_;
    is_whole = depth_ == 0;
  }
  emit(AnswerEvent::Kind::arguments, at);
  if (is_whole) ++part_;
  return is_whole;
}

void FormatParser::give_arguments(std::string text, size_t size) {
  AnswerEvent event{
      .kind = AnswerEvent::Kind::arguments, .text = std::move(text), .call = calls_ - 1};
  skip(size);
  event.tokens = take_tokens();
  (*give_event_)(std::move(event));
}

// Another parameter, or the end of them. The arguments are given as JSON.
bool FormatParser::advance_tags() {
  constexpr std::string_view kBegin = "<parameter=";
  skip(std::min(held_.find_first_not_of(kBlank), held_.size()));
  const std::string_view held = held_;
  if (held.empty() || (held.size() < kBegin.size() && kBegin.starts_with(held))) return false;
  if (!held.starts_with(kBegin)) {
    give_arguments(tags_ == 0 ? "{}" : "}", 0);
    ++part_;
    return true;
  }
  const size_t end = held.find(">\n");
  if (end == std::string_view::npos) return false;
  const std::string name(held.substr(kBegin.size(), end - kBegin.size()));
  const auto texts = options_->texts.find(tool_);
  is_text_ = texts != options_->texts.end() && texts->second.contains(name);
  in_tag_ = true;
  give_arguments(concat(tags_++ == 0 ? "{" : ", ", json_string(name), ": ", is_text_ ? "\"" : ""),
                 end + 2);
  return true;
}

bool FormatParser::advance_tag_value() {
  const std::string_view held = held_, marker = kTagEnd;
  const size_t found = held.find(marker);
  const bool is_whole = found != std::string_view::npos;
  const size_t size = is_whole ? found : partial_marker(held, marker);
  if (size == 0 && !is_whole) return false;
  std::string value = is_text_ ? escaped(held.substr(0, size)) : held_.substr(0, size);
  if (is_whole && is_text_) value += '"';
  in_tag_ = !is_whole;
  give_arguments(std::move(value), is_whole ? size + marker.size() : size);
  return true;
}

// Another call, or the end of the section.
bool FormatParser::advance_after_call(bool is_end) {
  const ToolFormat& format = options_->format;
  if (format.section_end.empty()) {
    enter(State::text);
    return true;
  }
  skip(std::min(held_.find_first_not_of(kBlank), held_.size()));
  if (held_.empty()) return false;
  const std::string_view separator = kBlank.find(format.separator) != std::string_view::npos
                                         ? ""
                                         : std::string_view(format.separator);
  const std::string_view held = held_;
  const std::string& next = format.call.front().text;
  const std::string& last = format.section_end.front().text;
  if (!separator.empty() && held.starts_with(separator)) {
    const size_t from = held.find_first_not_of(kBlank, separator.size());
    if (from == std::string_view::npos) return false;
    skip(from);
    enter(State::call);
  } else if (separator.empty() && held.starts_with(next)) {
    enter(State::call);
  } else if (held.starts_with(last)) {
    enter(State::section_end);
  } else if (!is_end &&
             (separator.starts_with(held) || next.starts_with(held) || last.starts_with(held))) {
    return false;
  } else {
    enter(State::text);
  }
  return true;
}

}  // namespace tensora::serve
