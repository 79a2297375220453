#include "tensora/llm/tokenizer/unigram_model.h"

#include <algorithm>
#include <cmath>

#include "tensora/base/check.h"
#include "tensora/base/utf8.h"

namespace tensora::llm {

UnigramModel::UnigramModel(VocabularyPtr vocabulary, const Fallback& fallback)
    : vocabulary_(std::move(vocabulary)), fallback_(fallback) {
  double lowest = 0;
  for (Token token = 0; token < vocabulary_->size(); ++token) {
    const double score = vocabulary_->score(token);
    check(std::isfinite(score), "the score of the token ", token, " must be finite, got ", score);
    const TokenKind kind = vocabulary_->kind(token);
    if (kind != TokenKind::normal && kind != TokenKind::user_defined) continue;
    lowest = std::min(lowest, score);
    if (!vocabulary_->text(token).empty()) trie_.insert(vocabulary_->text(token), token);
  }
  unknown_score_ = lowest - 10;  // sentencepiece's penalty
}

// Viterbi: for each place, the best way to come there from the front.
void UnigramModel::encode(std::string_view word, std::vector<Token>& out) const {
  struct Best {
    double score = 0;
    size_t from = SIZE_MAX;
    Token token = -1;
  };
  const size_t start = out.size();
  std::vector<Best> best(word.size() + 1);
  best[0].from = 0;
  for (size_t at = 0; at < word.size();) {
    const auto length = static_cast<size_t>(decode_utf8(word.substr(at)).length);
    const double so_far = best[at].score;
    const auto offer = [&](size_t size, Token token, double score) {
      Best& end = best[at + size];
      if (end.from == SIZE_MAX || so_far + score > end.score) end = {so_far + score, at, token};
    };
    bool single = false;
    trie_.prefixes(word.substr(at), [&](size_t size, Token token) {
      single = single || size == length;
      offer(size, token, vocabulary_->score(token));
    });
    if (!single) offer(length, -1, unknown_score_);
    at += length;
  }
  std::vector<std::pair<size_t, size_t>> pieces;  // start, end; from the back
  for (size_t end = word.size(); end > 0; end = best[end].from)
    pieces.emplace_back(best[end].from, end);
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    const Token token = best[piece->second].token;
    if (token >= 0) {
      out.push_back(token);
      continue;
    }
    check(fallback_.unknown >= 0 || fallback_.bytes,
          "encode: the vocabulary has no token for unknown characters");
    encode_unknown(*vocabulary_, fallback_, word.substr(piece->first, piece->second - piece->first),
                   start, out);
  }
}

}  // namespace tensora::llm
