#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tensora::llm {

class Metadata;
class ModelFile;

using Token = int32_t;

struct EncodeOptions {
  bool add_special = true;     // what the model expects around a text: BOS, EOS, [CLS] …
  bool parse_special = false;  // the text of a control token becomes that token; never for what
                               // users wrote
};

struct DecodeOptions {
  bool special = false;  // control tokens are written, not skipped
};

/// Turns text into the tokens of a model and back. Everything is constant once a tokenizer exists:
/// any number of threads may use it.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  virtual std::vector<Token> encode(std::string_view text, const EncodeOptions& options) const = 0;
  std::vector<Token> encode(std::string_view text) const { return encode(text, EncodeOptions{}); }

  /// The text of a whole sequence: a blank that encoding puts before the first word is taken away
  /// again. The bytes are those of the tokens, which need not be valid UTF-8.
  virtual std::string decode(std::span<const Token> tokens, const DecodeOptions& options) const = 0;
  std::string decode(std::span<const Token> tokens) const {
    return decode(tokens, DecodeOptions{});
  }
  /// Whether `decode` takes one blank from the front of a sequence.
  virtual bool strips_first_space() const = 0;

  /// The bytes that a token stands for, with its leading blank; empty for a control token unless
  /// `special`.
  virtual const std::string& bytes_of(Token token, const DecodeOptions& options) const = 0;
  const std::string& bytes_of(Token token) const { return bytes_of(token, DecodeOptions{}); }

  virtual int64_t vocab_size() const = 0;
  /// The token that stands for exactly this text; control tokens by their names ("<|eot_id|>").
  virtual std::optional<Token> find(std::string_view text) const = 0;

  virtual std::optional<Token> bos() const = 0;
  virtual std::optional<Token> eos() const = 0;
  /// Whether `encode` puts BOS in front when special tokens are added.
  virtual bool adds_bos() const = 0;
  virtual bool is_control(Token token) const = 0;
  /// Whether a model that answers with this token has finished.
  virtual bool is_end_of_generation(Token token) const = 0;
  virtual std::vector<Token> end_of_generation() const = 0;

  /// One line for people: kind, number of tokens, the way text is cut, and what had to be guessed.
  virtual std::string description() const = 0;

 protected:
  Tokenizer() = default;
};

using TokenizerPtr = std::shared_ptr<const Tokenizer>;

struct TokenizerOptions {
  /// The name of the pre-tokenizer, for files that lack it or have it wrong; see
  /// pre_tokenizer_names().
  std::string pre;
};

/// The tokenizer in the metadata of a GGUF file.
TokenizerPtr tokenizer_from(const Metadata& metadata, const TokenizerOptions& options = {});
/// tokenizer.json (Hugging Face), tokenizer.model (sentencepiece) or a tiktoken file; beside a
/// tokenizer.json, its tokenizer_config.json and generation_config.json are read too.
TokenizerPtr tokenizer_from_file(const std::string& path, const TokenizerOptions& options = {});
/// The contents of a tokenizer.json.
TokenizerPtr tokenizer_from_json(std::string_view json);
/// A model's own: from its metadata, or from the files in its folder.
TokenizerPtr load_tokenizer(const ModelFile& model, const TokenizerOptions& options = {});

/// The names that `tokenizer.ggml.pre` may have.
std::vector<std::string> pre_tokenizer_names();

}  // namespace tensora::llm
