#include "tensora/llm/tokenizer/word_piece_model.h"

#include "tensora/base/check.h"

namespace tensora::llm {

WordPieceModel::WordPieceModel(VocabularyPtr vocabulary, const Options& options)
    : vocabulary_(std::move(vocabulary)), options_(options) {
  check(options_.unknown >= 0, "WordPiece: the vocabulary has no unknown token");
  const auto fill = [&](ByteTrie& trie, const std::string& prefix, const std::string& other) {
    for (Token token = 0; token < vocabulary_->size(); ++token) {
      const std::string_view text = vocabulary_->text(token);
      // With one prefix empty, the other decides.
      const bool belongs = prefix.empty() ? !text.starts_with(other) : text.starts_with(prefix);
      if (belongs && text.size() > prefix.size()) trie.insert(text.substr(prefix.size()), token);
    }
  };
  fill(starts_, options_.start, options_.inside);
  fill(insides_, options_.inside, options_.start);
}

void WordPieceModel::encode(std::string_view word, std::vector<Token>& out) const {
  const size_t start = out.size();
  int64_t characters = 0;
  for (const char byte : word) characters += (static_cast<uint8_t>(byte) & 0xC0) != 0x80;
  bool known = characters <= options_.longest_word;
  for (size_t at = 0; known && at < word.size();) {
    size_t longest = 0;
    Token found = -1;
    (at == 0 ? starts_ : insides_).prefixes(word.substr(at), [&](size_t length, Token token) {
      longest = length;
      found = token;
    });
    known = found >= 0;
    out.push_back(found);
    at += longest;
  }
  if (known) return;
  out.resize(start);
  out.push_back(options_.unknown);
}

}  // namespace tensora::llm
