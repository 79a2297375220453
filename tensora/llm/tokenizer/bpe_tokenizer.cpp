#include "tensora/llm/tokenizer/bpe_tokenizer.h"

#include "tensora/base/check.h"
#include "tensora/llm/tokenizer/merge_symbols.h"
#include "tensora/llm/tokenizer/word_scanner.h"

namespace tensora::llm {
namespace {

using Token = BpeTokenizer::Token;

}  // namespace

BpeTokenizer BpeTokenizer::bytes(const std::vector<std::string>& special) {
  BpeTokenizer out;
  for (int byte = 0; byte < 256; ++byte) out.add_token(std::string(1, static_cast<char>(byte)));
  for (const std::string& text : special) out.add_special(text);
  return out;
}

Token BpeTokenizer::add_token(std::string bytes) {
  const auto id = static_cast<Token>(tokens_.size());
  if (bytes.size() == 1) byte_tokens_[static_cast<uint8_t>(bytes[0])] = id;
  const bool fresh = ids_.emplace(bytes, id).second;
  check(fresh, "BpeTokenizer: the token '", bytes, "' is there twice");
  tokens_.push_back(std::move(bytes));
  return id;
}

Token BpeTokenizer::add_special(const std::string& text) {
  check(!text.empty(), "BpeTokenizer: a special token must not be empty");
  const auto id = static_cast<Token>(tokens_.size());
  check(special_.emplace(text, id).second, "BpeTokenizer: the special token '", text,
        "' is there twice");
  tokens_.push_back(text);
  return id;
}

void BpeTokenizer::add_merge(Merge merge, Token result) {
  // A pair that is listed twice keeps its first rank.
  rules_.insert(merge.first, merge.second, {static_cast<int32_t>(merges_.size()), result});
  merges_.push_back(merge);
}

const std::string& BpeTokenizer::token(Token token) const {
  check(token >= 0 && token < vocab_size(), "BpeTokenizer: the token must be in [0, ", vocab_size(),
        "), got ", token);
  return tokens_[static_cast<size_t>(token)];
}

std::optional<Token> BpeTokenizer::find(std::string_view bytes) const {
  const auto found = ids_.find(std::string(bytes));
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Token> BpeTokenizer::find_special(std::string_view text) const {
  const auto found = special_.find(text);
  return found == special_.end() ? std::nullopt : std::optional(found->second);
}

bool BpeTokenizer::is_special(Token token) const {
  const auto found = special_.find(this->token(token));
  return found != special_.end() && found->second == token;
}

std::pair<size_t, Token> BpeTokenizer::next_special(std::string_view text) const {
  std::pair<size_t, Token> best{text.npos, -1};
  size_t length = 0;
  for (const auto& [special, id] : special_) {
    // No later than the best so far, so that the search never runs through the text in vain.
    const size_t limit = best.first == text.npos ? text.size() : best.first + special.size();
    const size_t at = text.substr(0, limit).find(special);
    if (at == text.npos || at > best.first || (at == best.first && special.size() < length))
      continue;
    best = {at, id};
    length = special.size();
  }
  return best;
}

std::vector<Token> BpeTokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<Token> out;
  WordCache cache;
  while (!text.empty()) {
    const auto [at, id] = options.special ? next_special(text) : std::pair(text.npos, Token(-1));
    encode_plain(text.substr(0, at), out, cache);
    if (at == text.npos) break;
    out.push_back(id);
    text.remove_prefix(at + token(id).size());
  }
  return out;
}

void BpeTokenizer::encode_plain(std::string_view text, std::vector<Token>& out,
                                WordCache& cache) const {
  WordScanner scanner(text);
  for (std::string_view word = scanner.next(); !word.empty(); word = scanner.next()) {
    if (cache.append(word, out)) continue;
    const size_t start = out.size();
    encode_word(word, out);
    cache.insert(word, std::span(out).subspan(start));
  }
}

void BpeTokenizer::encode_word(std::string_view word, std::vector<Token>& out) const {
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  for (uint32_t i = 0; i < word.size(); ++i)
    symbols.push_back({byte_tokens_[static_cast<uint8_t>(word[i])], i, 1});
  merge_symbols(symbols, [this](const Symbol& left, const Symbol& right) {
    return rules_.find(left.token, right.token);
  });
  for (const Symbol& symbol : symbols) out.push_back(symbol.token);
}

std::string BpeTokenizer::decode(std::span<const Token> tokens,
                                 const DecodeOptions& options) const {
  std::string out;
  for (const Token id : tokens)
    if (options.special || !is_special(id)) out += token(id);
  return out;
}

}  // namespace tensora::llm
