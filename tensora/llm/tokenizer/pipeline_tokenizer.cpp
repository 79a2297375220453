#include "tensora/llm/tokenizer/pipeline_tokenizer.h"

#include <algorithm>
#include <array>

#include "tensora/base/check.h"

namespace tensora::llm {

PipelineTokenizer::PipelineTokenizer(Parts parts) : parts_(std::move(parts)) {
  ensure(parts_.vocabulary && parts_.model, "PipelineTokenizer: a part is missing");
  const auto check_all = [&](const std::vector<Token>& tokens, const char* what) {
    for (const Token token : tokens)
      check(parts_.vocabulary->contains(token), what, " ", token, " is not a token; there are ",
            parts_.vocabulary->size());
  };
  check_all(parts_.before, "the token before a text");
  check_all(parts_.after, "the token after a text");
  check_all(parts_.end_of_generation, "the token that ends generation");
  if (parts_.bos) check_all({*parts_.bos}, "BOS");
  if (parts_.eos) check_all({*parts_.eos}, "EOS");
  ends_.insert(parts_.end_of_generation.begin(), parts_.end_of_generation.end());
}

// One call of `encode`.
struct PipelineTokenizer::Run {
  const Parts& parts;
  const bool control;
  std::vector<Token>& out;
  WordCache cache = {};

  // Cuts added tokens out, and gives what is between them to body(text, first).
  template <class Body>
  void cut(const AddedTokens& added, std::string_view text, bool first, const Body& body) {
    if (added.empty()) return body(text, first);
    for (size_t at = 0; at < text.size();) {
      const AddedTokens::Found found = added.next(text, at, control);
      if (found.start > at) body(text.substr(at, found.start - at), first && at == 0);
      if (found.token >= 0) out.push_back(found.token);
      at = found.end;
    }
  }

  void text(std::string_view all) {
    cut(parts.added, all, true, [&](std::string_view part, bool first) {
      const std::string changed =
          parts.normalizer.empty() ? std::string() : parts.normalizer(std::string(part));
      cut(parts.normalized_added, parts.normalizer.empty() ? part : changed, first,
          [&](std::string_view plain, bool really_first) {
            parts.pre_tokenizer.split(plain, really_first,
                                      [this](std::string_view one) { word(one); });
          });
    });
  }

  void word(std::string_view word) {
    if (cache.append(word, out)) return;
    const size_t start = out.size();
    parts.model->encode(word, out);
    cache.insert(word, std::span(out).subspan(start));
  }
};

std::vector<Token> PipelineTokenizer::encode(std::string_view text,
                                             const EncodeOptions& options) const {
  std::vector<Token> out;
  out.reserve(text.size() / 3 + 8);
  if (options.add_special) out = parts_.before;
  Run{.parts = parts_, .control = options.parse_special, .out = out}.text(text);
  if (options.add_special) out.insert(out.end(), parts_.after.begin(), parts_.after.end());
  return out;
}

void PipelineTokenizer::check_token(Token token) const {
  check(parts_.vocabulary->contains(token), "the token must be in [0, ", vocab_size(), "), got ",
        token);
}

const std::string& PipelineTokenizer::bytes_of(Token token, const DecodeOptions& options) const {
  static const std::string nothing;
  check_token(token);
  return options.special || !parts_.vocabulary->is_control(token) ? parts_.vocabulary->piece(token)
                                                                  : nothing;
}

std::string PipelineTokenizer::decode(std::span<const Token> tokens,
                                      const DecodeOptions& options) const {
  std::string out;
  for (const Token token : tokens) out += bytes_of(token, options);
  if (parts_.strips_first_space && out.starts_with(' ')) out.erase(0, 1);
  return out;
}

std::optional<Token> PipelineTokenizer::find(std::string_view text) const {
  Token found = parts_.vocabulary->find_any(text);
  if (found < 0 && text.find(' ') != text.npos)
    found = parts_.vocabulary->find(
        normalizing::replace(" ", std::string(kSpaceMark))(std::string(text)));
  return found < 0 ? std::nullopt : std::optional(found);
}

bool PipelineTokenizer::adds_bos() const {
  return parts_.bos && !parts_.before.empty() && parts_.before[0] == *parts_.bos;
}

bool PipelineTokenizer::is_control(Token token) const {
  check_token(token);
  return parts_.vocabulary->is_control(token);
}

namespace {

constexpr std::array<std::string_view, 12> kEndNames = {
    "<|eot_id|>",      "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|eom_id|>",
    "<|end_of_text|>", "</s>",       "<EOT>",   "<eos>",         "<|return|>",    "<|call|>"};

}  // namespace

bool is_end_name(std::string_view text) {
  return std::find(kEndNames.begin(), kEndNames.end(), text) != kEndNames.end();
}

std::vector<Token> end_tokens(const Vocabulary& vocabulary, const std::vector<Token>& given) {
  std::vector<Token> out = given;
  for (const std::string_view name : kEndNames) {
    const Token token = vocabulary.find_any(name);
    if (token >= 0) out.push_back(token);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

bool may_cut_at_space_marks(const Vocabulary& vocabulary) {
  for (Token token = 0; token < vocabulary.size(); ++token) {
    const std::string_view text = vocabulary.text(token);
    size_t run = 0;
    while (text.substr(run).starts_with(kSpaceMark)) run += kSpaceMark.size();
    if (text.find(kSpaceMark, run) != text.npos && !vocabulary.is_control(token)) return false;
  }
  return vocabulary.find(kSpaceMark) >= 0;
}

PreTokenizer::Split split_at_space_marks() {
  return {std::make_shared<const Pattern>("\u2581*[^\u2581]+|\u2581+")};
}

}  // namespace tensora::llm
