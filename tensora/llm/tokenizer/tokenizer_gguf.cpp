#include <algorithm>

#include "tensora/base/check.h"
#include "tensora/llm/metadata.h"
#include "tensora/llm/tokenizer/bpe_model.h"
#include "tensora/llm/tokenizer/byte_letters.h"
#include "tensora/llm/tokenizer/pipeline_tokenizer.h"
#include "tensora/llm/tokenizer/pre_tokenizers.h"
#include "tensora/llm/tokenizer/unigram_model.h"
#include "tensora/llm/tokenizer/word_piece_model.h"

// The tokenizer of a GGUF file: its keys begin with `tokenizer.ggml.`.

namespace tensora::llm {
namespace {

using Texts = std::vector<std::string>;

std::string key(std::string_view name) { return concat("tokenizer.ggml.", name); }

class GgufTokenizer {
 public:
  GgufTokenizer(const Metadata& metadata, const TokenizerOptions& options)
      : metadata_(metadata), options_(options), model_(metadata.get<std::string>(key("model"))) {}

  TokenizerPtr make() {
    check(model_ == "llama" || model_ == "gpt2" || model_ == "bert" || model_ == "t5",
          "tokenizer.ggml.model: '", model_,
          "' is not supported; expected llama (sentencepiece), gpt2 (byte pairs), bert (WordPiece) "
          "or t5 (Unigram)");
    check(options_.pre.empty() || model_ == "gpt2",
          "a pre-tokenizer can be chosen for gpt2 vocabularies only; this one is ", model_);
    read_tokens();
    if (model_ == "gpt2")
      make_byte_pairs();
    else if (model_ == "bert")
      make_word_pieces();
    else
      make_sentence_pieces();
    add_special();
    parts_.vocabulary = vocabulary_;
    parts_.description = concat(description_, ", ", vocabulary_->size(), " tokens", remark_);
    return std::make_shared<PipelineTokenizer>(std::move(parts_));
  }

 private:
  std::optional<Token> id(std::string_view name) const {
    if (!metadata_.contains(key(name))) return std::nullopt;
    const int64_t value = metadata_.get<int64_t>(key(name));
    // Some files write -1, in 32 bits, for a token that does not exist.
    if (value == -1 || value == UINT32_MAX) return std::nullopt;
    check(value >= 0 && value < vocabulary_->size(), key(name), ": ", value,
          " is not a token; there are ", vocabulary_->size());
    return static_cast<Token>(value);
  }
  bool flag(std::string_view name, bool fallback) const {
    return metadata_.get_or(key(name), fallback);
  }

  void read_tokens() {
    const auto& texts = metadata_.get<Texts>(key("tokens"));
    check(!texts.empty(), key("tokens"), ": the vocabulary is empty");
    const auto same_size = [&](std::string_view name, size_t size) {
      check(size == texts.size(), key(name), ": expected a value for each of the ", texts.size(),
            " tokens, got ", size);
    };
    static const std::vector<int64_t> no_kinds;
    static const std::vector<double> no_scores;
    const auto& kinds = metadata_.contains(key("token_type"))
                            ? metadata_.get<std::vector<int64_t>>(key("token_type"))
                            : no_kinds;
    const auto& scores = metadata_.contains(key("scores"))
                             ? metadata_.get<std::vector<double>>(key("scores"))
                             : no_scores;
    if (!kinds.empty()) same_size("token_type", kinds.size());
    if (!scores.empty()) same_size("scores", scores.size());
    check(!scores.empty() || model_ == "gpt2" || model_ == "bert", key("scores"), " is missing");
    vocabulary_->reserve(texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      const int64_t kind = kinds.empty() ? 1 : kinds[i];
      check(kind >= 0 && kind <= 6, key("token_type"), ": expected 0 to 6, got ", kind,
            " for the token ", i);
      add_token(texts[i], kind_of(texts[i], i, kind), scores.empty() ? 0 : scores[i]);
    }
    parts_.bos = id("bos_token_id");
    parts_.eos = id("eos_token_id");
  }

  // What begins or ends a text is a control token, even where a file calls it a user's.
  TokenKind kind_of(const std::string& text, size_t token, int64_t kind) const {
    const TokenKind given = kind == 0 ? TokenKind::normal : static_cast<TokenKind>(kind);
    if (given != TokenKind::user_defined) return given;
    for (const std::string_view name :
         {"bos_token_id", "eos_token_id", "eot_token_id", "eom_token_id"})
      if (metadata_.get_or(key(name), int64_t{-1}) == static_cast<int64_t>(token))
        return TokenKind::control;
    return is_end_name(text) ? TokenKind::control : given;
  }

  // Text and meaning differ by kind of vocabulary.
  void add_token(const std::string& text, TokenKind kind, double score) {
    const bool plain = kind == TokenKind::normal || kind == TokenKind::unused;
    if (model_ == "gpt2" && plain && !raw_) {
      // What is not written in letters cannot come from a text; it keeps its place and its name.
      std::optional<std::string> bytes = from_byte_letters(text);
      const Token token = vocabulary_->add(bytes ? std::move(*bytes) : text, kind, score);
      const std::string& added = vocabulary_->text(token);
      if (bytes && added.size() == 1) vocabulary_->set_byte(static_cast<uint8_t>(added[0]), token);
      return;
    }
    const Token token = vocabulary_->add(text, kind, score);
    if (kind == TokenKind::byte) {
      const int byte = byte_of_name(text);
      check(byte >= 0, key("tokens"), ": the byte token ", token,
            " must be written as <0x00> to <0xFF>, got '", text, "'");
      vocabulary_->set_byte(static_cast<uint8_t>(byte), token);
    }
  }

  // Tokens with U+2581 for blanks, and bytes by name.
  void set_pieces() {
    std::vector<std::string> pieces;
    pieces.reserve(static_cast<size_t>(vocabulary_->size()));
    for (Token token = 0; token < vocabulary_->size(); ++token) {
      const std::string& text = vocabulary_->text(token);
      if (vocabulary_->kind(token) == TokenKind::byte)
        pieces.emplace_back(1, static_cast<char>(byte_of_name(text)));
      else
        pieces.push_back(vocabulary_->is_control(token) ? text : with_spaces(text));
    }
    vocabulary_->set_pieces(std::move(pieces));
  }

  void add_added_tokens(bool strip_right) {
    for (Token token = 0; token < vocabulary_->size(); ++token) {
      const TokenKind kind = vocabulary_->kind(token);
      if (kind != TokenKind::user_defined && !vocabulary_->is_control(token)) continue;
      const std::string& text = vocabulary_->text(token);
      if (text.empty()) continue;
      const bool keeps = text == "<unk>" || text == "<s>" || text == "<|endoftext|>";
      parts_.added.add({.text = text,
                        .token = token,
                        .control = kind != TokenKind::user_defined,
                        .strip_right = strip_right && !keeps});
    }
  }

  void make_sentence_pieces() {
    const bool unigram = model_ == "t5";
    set_pieces();
    const Fallback fallback{.bytes = vocabulary_->has_all_bytes(),
                            .unknown = id("unknown_token_id").value_or(-1),
                            .fuse = true};
    check(fallback.bytes || fallback.unknown >= 0,
          "the vocabulary has neither byte tokens nor an unknown token");
    const bool prefix = flag("add_space_prefix", true);
    const std::string mark(kSpaceMark);
    if (metadata_.contains(key("precompiled_charsmap"))) {
      std::string bytes;
      for (const int64_t byte : metadata_.get<std::vector<int64_t>>(key("precompiled_charsmap")))
        bytes += static_cast<char>(byte & 0xFF);
      if (!bytes.empty()) parts_.normalizer.add(normalizing::character_map(bytes));
    }
    if (flag("remove_extra_whitespaces", unigram))
      parts_.normalizer.add(normalizing::remove_extra_spaces());
    if (prefix) parts_.normalizer.add(normalizing::prepend(" "));
    parts_.normalizer.add(normalizing::replace(" ", mark));
    parts_.strips_first_space = prefix;
    if (may_cut_at_space_marks(*vocabulary_)) parts_.pre_tokenizer.add(split_at_space_marks());
    if (unigram)
      parts_.model = std::make_unique<UnigramModel>(vocabulary_, fallback);
    else
      parts_.model = std::make_unique<ScoreModel>(vocabulary_, fallback);
    const std::string name = metadata_.get_or("general.name", std::string());
    const bool phi3 = contains_any_case(name, "phi-3") || contains_any_case(name, "phi3");
    add_added_tokens(phi3);
    description_ = unigram ? "Unigram" : "sentencepiece BPE";
  }

  static bool contains_any_case(std::string_view text, std::string_view part) {
    return to_lower(text).find(part) != std::string::npos;
  }

  void make_byte_pairs() {
    const NamedPreTokenizer& cut = pre_tokenizer(pre_name());
    check(!cut.habits.raw_spaces || raw_, "the pre-tokenizer gemma4 must be named in the file");
    for (const auto& pattern : cut.patterns)
      parts_.pre_tokenizer.add(PreTokenizer::Split{.pattern = pattern});
    if (raw_) {
      set_pieces();
      parts_.normalizer.add(normalizing::replace(" ", std::string(kSpaceMark)));
    }
    auto model = std::make_unique<BpeModel>(
        vocabulary_,
        BpeModel::Options{
            .bytes = !raw_,
            .ignores_merges = cut.habits.ignores_merges,
            .fallback = {.bytes = true, .unknown = id("unknown_token_id").value_or(-1)}});
    const auto& merges = metadata_.get<Texts>(key("merges"));
    model->reserve(merges.size());
    const auto letters = [&](std::string_view text) {
      if (raw_) return std::string(text);
      return from_byte_letters(text).value_or(std::string(text));
    };
    for (const std::string& merge : merges) {
      // The first part may itself begin with a blank.
      const size_t blank = merge.find(' ', 1);
      check(blank != merge.npos, key("merges"), ": expected two texts and a blank, got '", merge,
            "'");
      model->add_merge(letters(std::string_view(merge).substr(0, blank)),
                       letters(std::string_view(merge).substr(blank + 1)));
    }
    parts_.model = std::move(model);
    adds_bos_ = cut.habits.adds_bos;
    adds_sep_ = cut.habits.adds_sep;
    add_added_tokens(false);
    description_ = concat("byte pairs, pre-tokenizer ", pre_name());
  }

  // The pre-tokenizer decides where words end; a wrong one quietly gives other tokens. A file that
  // names none is recognised by its tokens, and the choice is stated.
  std::string pre_name() {
    if (!pre_.empty()) return pre_;
    if (!options_.pre.empty()) return pre_ = options_.pre;
    pre_ = metadata_.get_or(key("pre"), std::string());
    if (!pre_.empty()) return pre_;
    const auto has = [&](std::string_view text) { return vocabulary_->find_any(text) >= 0; };
    const Token size = vocabulary_->size();
    pre_ = has("<|begin_of_text|>") && size >= 128000         ? "llama-bpe"
           : has("<|im_start|>") && size >= 151000            ? "qwen2"
           : has("<fim_prefix>") && size >= 49152             ? "starcoder"
           : has("<｜begin▁of▁sentence｜>") && size > 128000  ? "deepseek-v3"
           : has("<｜begin▁of▁sentence｜>") && size >= 100000 ? "deepseek-llm"
           : has("<｜begin▁of▁sentence｜>")                   ? "deepseek-coder"
           : has(">>ABSTRACT<<")                              ? "falcon"
           : size == 50257 || size == 50304 || size == 50280  ? "gpt-2"
                                                              : "default";
    remark_ =
        concat("; the file names no pre-tokenizer: ", pre_,
               pre_ == "default" ? " is a guess that may give other tokens than the model was "
                                   "trained with"
                                 : " was recognised by the tokens");
    return pre_;
  }

  void make_word_pieces() {
    const Token unknown = id("unknown_token_id").value_or(vocabulary_->find_any("[UNK]"));
    set_pieces();
    parts_.normalizer.add(normalizing::bert({}));
    add_bert_words(parts_.pre_tokenizer);
    parts_.model = std::make_unique<WordPieceModel>(
        vocabulary_, WordPieceModel::Options{
                         .start = std::string(kSpaceMark), .inside = "", .unknown = unknown});
    parts_.strips_first_space = true;
    // BERT's start is the token that classifies, its end the separator.
    if (!parts_.bos) parts_.bos = id("cls_token_id");
    adds_bos_ = parts_.bos.has_value();
    adds_sep_ = true;
    add_added_tokens(false);
    description_ = "WordPiece";
  }

  void add_special() {
    const bool sentence_pieces = model_ == "llama";
    const bool bos = flag("add_bos_token", adds_bos_ || sentence_pieces);
    const bool eos = flag("add_eos_token", model_ == "t5");
    check(!bos || parts_.bos || !metadata_.contains(key("add_bos_token")), key("add_bos_token"),
          " is set, but the file names no BOS token");
    if (bos && parts_.bos) parts_.before.push_back(*parts_.bos);
    if (eos && parts_.eos) parts_.after.push_back(*parts_.eos);
    const auto separator = id("seperator_token_id");
    if (flag("add_sep_token", adds_sep_)) {
      if (separator)
        parts_.after.push_back(*separator);
      else if (!eos && parts_.eos)
        parts_.after.push_back(*parts_.eos);
    }
    std::vector<Token> ends;
    for (const std::string_view name : {"eos_token_id", "eot_token_id", "eom_token_id"})
      if (const auto token = id(name)) ends.push_back(*token);
    parts_.end_of_generation = end_tokens(*vocabulary_, ends);
  }

  const Metadata& metadata_;
  const TokenizerOptions& options_;
  const std::string& model_;
  const bool raw_ = metadata_.get_or(key("pre"), std::string()) == "gemma4";
  const std::shared_ptr<Vocabulary> vocabulary_ = std::make_shared<Vocabulary>();
  PipelineTokenizer::Parts parts_ = {};
  std::string pre_, description_, remark_;
  bool adds_bos_ = false, adds_sep_ = false;
};

}  // namespace

TokenizerPtr tokenizer_from(const Metadata& metadata, const TokenizerOptions& options) {
  check(metadata.contains(key("model")), "the file has no tokenizer: ", key("model"),
        " is missing");
  return GgufTokenizer(metadata, options).make();
}

}  // namespace tensora::llm
