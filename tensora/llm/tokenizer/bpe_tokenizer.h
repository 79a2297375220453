#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensora/llm/tokenizer/token_table.h"

namespace tensora::llm {

/// Turns text into tokens and back: bytes, and pairs of tokens that were merged in a learned order,
/// within the words of WordScanner. Any bytes can be encoded, and decoding gives them back.
/// Constant functions may be called from several threads. This is the kind that is trained here;
/// `tokenizer_from_file` reads what it saves, as it does the tokenizers of other models.
class BpeTokenizer {
 public:
  using Token = int32_t;
  using Merge = std::pair<Token, Token>;

  /// The 256 bytes, then the special tokens: no learning, long sequences.
  static BpeTokenizer bytes(const std::vector<std::string>& special = {"<|endoftext|>"});
  struct TrainOptions {
    int64_t vocab_size = 4096;  // bytes and special tokens included
    int64_t min_frequency = 2;  // of a pair that is merged
    std::vector<std::string> special = {"<|endoftext|>"};
  };
  /// Learns the merges of the most frequent pairs. Ties go to the pair of the older tokens, so the
  /// result depends on the texts alone.
  static BpeTokenizer train(std::span<const std::string_view> texts, const TrainOptions& options);
  static BpeTokenizer train(std::string_view text, const TrainOptions& options) {
    return train(std::span(&text, 1), options);
  }

  /// Hugging Face's tokenizer.json, if it describes such a tokenizer.
  static BpeTokenizer load(const std::string& path);
  static BpeTokenizer from_json(std::string_view json);
  std::string to_json() const;
  void save(const std::string& path) const;

  struct EncodeOptions {
    bool special = true;  // the text of a special token becomes that token
  };
  std::vector<Token> encode(std::string_view text, const EncodeOptions& options) const;
  std::vector<Token> encode(std::string_view text) const { return encode(text, EncodeOptions{}); }
  struct DecodeOptions {
    bool special = true;  // special tokens are written, not skipped
  };
  std::string decode(std::span<const Token> tokens, const DecodeOptions& options) const;
  std::string decode(std::span<const Token> tokens) const {
    return decode(tokens, DecodeOptions{});
  }

  int64_t vocab_size() const { return static_cast<int64_t>(tokens_.size()); }
  /// The bytes that a token stands for.
  const std::string& token(Token token) const;
  std::optional<Token> find(std::string_view bytes) const;
  std::optional<Token> find_special(std::string_view text) const;
  bool is_special(Token token) const;
  const std::vector<Merge>& merges() const { return merges_; }

 private:
  BpeTokenizer() = default;
  struct Learner;
  Token add_token(std::string bytes);
  Token add_special(const std::string& text);
  void add_merge(Merge merge, Token result);
  void encode_plain(std::string_view text, std::vector<Token>& out, WordCache& cache) const;
  void encode_word(std::string_view word, std::vector<Token>& out) const;
  /// The first special token in a text, and where; npos if there is none.
  std::pair<size_t, Token> next_special(std::string_view text) const;

  std::vector<std::string> tokens_;             // the bytes of each
  std::unordered_map<std::string, Token> ids_;  // of those that are not special
  std::map<std::string, Token, std::less<>> special_;
  std::vector<Merge> merges_;
  PairTable rules_;
  Token byte_tokens_[256] = {};
};

}  // namespace tensora::llm
