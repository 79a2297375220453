#include "tensora/llm/tokenizer/bpe_model.h"

#include <bit>
#include <cmath>

#include "tensora/base/check.h"
#include "tensora/base/utf8.h"

namespace tensora::llm {
namespace {

constexpr uint32_t kLongestText = 1u << 31;

// Cuts a word into characters, or bytes that belong to none.
template <class Body>
void for_each_character(std::string_view word, const Body& body) {
  for (size_t at = 0; at < word.size();) {
    const auto length = static_cast<uint32_t>(decode_utf8(word.substr(at)).length);
    body(static_cast<uint32_t>(at), length);
    at += length;
  }
}

// Numbers in the order of falling scores.
int32_t rank_of(double score) {
  const auto bits = std::bit_cast<int32_t>(0.0f - static_cast<float>(score));
  return bits >= 0 ? bits : bits ^ 0x7FFFFFFF;
}

}  // namespace

BpeModel::BpeModel(VocabularyPtr vocabulary, const Options& options)
    : vocabulary_(std::move(vocabulary)), options_(options) {}

Token BpeModel::symbol(const std::string& text) {
  const Token known = vocabulary_->find(text);
  if (known >= 0) return known;
  const Token hidden = hidden_table_.find(hidden_, text);
  if (hidden >= 0) return vocabulary_->size() + hidden;
  check(hidden_.size() < (1u << 24), "too many merges make something that is no token");
  hidden_.push_back(text);
  const auto number = static_cast<Token>(hidden_.size() - 1);
  hidden_table_.insert(hidden_, number);
  return vocabulary_->size() + number;
}

void BpeModel::add_merge(std::string_view left, std::string_view right) {
  const std::string a(left), b(right);
  // The order fixes the numbers of hidden symbols.
  const Token first = symbol(a), second = symbol(b);
  merges_.insert(first, second, {next_rank_++, symbol(a + b)});
}

void BpeModel::add_all_merges() {
  for (Token token = 0; token < vocabulary_->size(); ++token) {
    const std::string_view text = vocabulary_->text(token);
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const Token left = vocabulary_->find(text.substr(0, cut));
      const Token right = left < 0 ? -1 : vocabulary_->find(text.substr(cut));
      if (right >= 0) merges_.insert(left, right, {token, token});
    }
  }
}

void BpeModel::split(std::string_view word, std::vector<Symbol>& out) const {
  if (options_.bytes) {
    for (uint32_t i = 0; i < word.size(); ++i)
      out.push_back({vocabulary_->byte(static_cast<uint8_t>(word[i])), i, 1});
    return;
  }
  for_each_character(word, [&](uint32_t at, uint32_t length) {
    out.push_back({vocabulary_->find(word.substr(at, length)), at, length});
  });
}

void BpeModel::emit(std::string_view text, Token token, size_t start,
                    std::vector<Token>& out) const {
  if (token >= 0 && token < vocabulary_->size()) {
    out.push_back(token);
  } else if (token < 0) {
    encode_unknown(*vocabulary_, options_.fallback, text, start, out);
  } else {
    std::vector<Symbol> parts;
    split(text, parts);
    for (const Symbol& part : parts)
      emit(text.substr(part.start, part.size), part.token, start, out);
  }
}

void BpeModel::encode(std::string_view word, std::vector<Token>& out) const {
  check(word.size() < kLongestText, "encode: a word of ", word.size(), " bytes is too long");
  if (options_.ignores_merges) {
    const Token whole = vocabulary_->find(word);
    if (whole >= 0) {
      out.push_back(whole);
      return;
    }
  }
  const size_t start = out.size();
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  split(word, symbols);
  merge_symbols(symbols, [this](const Symbol& left, const Symbol& right) {
    return left.token < 0 || right.token < 0 ? PairMerge{} : merges_.find(left.token, right.token);
  });
  for (const Symbol& symbol : symbols)
    emit(word.substr(symbol.start, symbol.size), symbol.token, start, out);
}

ScoreModel::ScoreModel(VocabularyPtr vocabulary, const Fallback& fallback)
    : vocabulary_(std::move(vocabulary)), fallback_(fallback) {
  for (Token token = 0; token < vocabulary_->size(); ++token)
    check(std::isfinite(static_cast<float>(vocabulary_->score(token))), "the score of the token ",
          token, " must be finite, got ", vocabulary_->score(token));
}

void ScoreModel::encode(std::string_view word, std::vector<Token>& out) const {
  check(word.size() < kLongestText, "encode: a word of ", word.size(), " bytes is too long");
  const size_t start = out.size();
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  for_each_character(word, [&](uint32_t at, uint32_t length) {
    symbols.push_back({vocabulary_->find(word.substr(at, length)), at, length});
  });
  merge_symbols(symbols, [&](const Symbol& left, const Symbol& right) {
    const Token both = vocabulary_->find(word.substr(left.start, left.size + right.size));
    return both < 0 ? PairMerge{} : PairMerge{rank_of(vocabulary_->score(both)), both};
  });
  for (const Symbol& symbol : symbols) {
    if (symbol.token >= 0)
      out.push_back(symbol.token);
    else
      encode_unknown(*vocabulary_, fallback_, word.substr(symbol.start, symbol.size), start, out);
  }
}

}  // namespace tensora::llm
