#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "tensora/base/check.h"
#include "tensora/llm/tokenizer/bpe_model.h"
#include "tensora/llm/tokenizer/byte_letters.h"
#include "tensora/llm/tokenizer/json_stations.h"
#include "tensora/llm/tokenizer/pipeline_tokenizer.h"
#include "tensora/llm/tokenizer/tokenizer_sources.h"
#include "tensora/llm/tokenizer/unigram_model.h"
#include "tensora/llm/tokenizer/word_piece_model.h"

// Hugging Face's tokenizer.json. What is not understood is refused: leaving it out would give other
// tokens.

namespace tensora::llm {
namespace {

using nlohmann::json;

class JsonTokenizer {
 public:
  explicit JsonTokenizer(const TokenizerJson& files)
      : root_(parse_json(files.tokenizer, "tokenizer.json")),
        config_(files.config.empty() ? json::object()
                                     : parse_json(files.config, "tokenizer_config.json")),
        generation_(files.generation.empty()
                        ? json::object()
                        : parse_json(files.generation, "generation_config.json")),
        model_(json_member(root_, "model")) {}

  TokenizerPtr make() {
    type_ = json_text(model_, "type", model_.contains("merges") ? "BPE" : "");
    check(type_ == "BPE" || type_ == "Unigram" || type_ == "WordPiece",
          "the model must be BPE, Unigram or WordPiece, got '", type_, "'");
    add_normalizer(json_part(root_, "normalizer"), parts_.normalizer);
    bool byte_level = false;
    add_pre_tokenizer(json_part(root_, "pre_tokenizer"), parts_.pre_tokenizer, byte_level);
    byte_level_ = byte_level;
    read_tokens();
    set_pieces();
    make_model();
    add_post_processor(json_part(root_, "post_processor"), *vocabulary_, parts_.before,
                       parts_.after);
    set_special();
    parts_.vocabulary = vocabulary_;
    parts_.description = concat(type_ == "BPE" && byte_level_ ? "byte pairs" : type_, ", ",
                                vocabulary_->size(), " tokens, from tokenizer.json");
    return std::make_shared<PipelineTokenizer>(std::move(parts_));
  }

 private:
  struct Entry {
    std::string text;
    double score = 0;
    const json* added = nullptr;
    bool there = false;
  };

  void put(std::vector<Entry>& entries, const std::string& text, int64_t id, size_t limit) {
    check(id >= 0 && static_cast<size_t>(id) < limit, "the id ", id, " of the token '", text,
          "' is not in [0, ", limit, ")");
    const auto at = static_cast<size_t>(id);
    if (entries.size() <= at) entries.resize(at + 1);
    check(!entries[at].there || entries[at].text == text, "two tokens have the id ", id, ": '",
          entries[at].text, "' and '", text, "'");
    entries[at].text = text;
    entries[at].there = true;
  }

  // All tokens by id; gaps are allowed, within reason.
  std::vector<Entry> entries() {
    const json& vocab = json_member(model_, "vocab");
    const json& added = json_part(root_, "added_tokens");
    const size_t limit = 4 * (vocab.size() + added.size()) + 65536;
    std::vector<Entry> out;
    out.reserve(vocab.size() + added.size());
    if (type_ == "Unigram") {
      check(vocab.is_array(), "the vocab of a Unigram model must be a list");
      for (size_t i = 0; i < vocab.size(); ++i) {
        check(vocab[i].is_array() && vocab[i].size() == 2, "the entry ", i,
              " of the vocab must be a text and a score");
        put(out, vocab[i][0].get<std::string>(), static_cast<int64_t>(i), limit);
        out[i].score = vocab[i][1].get<double>();
      }
    } else {
      check(vocab.is_object(), "the vocab of a ", type_, " model must be an object");
      for (const auto& [text, id] : vocab.items())
        put(out, text, json_integer(id, "a token's id"), limit);
    }
    for (const json& token : added) {
      const int64_t id = json_integer(json_member(token, "id"), "an added token's id");
      put(out, json_member(token, "content").get<std::string>(), id, limit);
      out[static_cast<size_t>(id)].added = &token;
    }
    check(!out.empty(), "the vocabulary is empty");
    return out;
  }

  void read_tokens() {
    const std::vector<Entry> all = entries();
    const bool byte_names = json_flag(model_, "byte_fallback", false);
    std::string unknown = json_text(model_, "unk_token", "");
    if (type_ == "Unigram" && !json_part(model_, "unk_id").is_null()) {
      const int64_t id = json_integer(model_["unk_id"], "unk_id");
      check(id >= 0 && static_cast<size_t>(id) < all.size(), "unk_id ", id, " is not a token");
      unknown = all[static_cast<size_t>(id)].text;
    }
    vocabulary_->reserve(all.size());
    for (const Entry& entry : all) add_token(entry, byte_names, unknown);
    unknown_ = unknown.empty() ? -1 : vocabulary_->find_any(unknown);
    check(unknown.empty() || unknown_ >= 0, "the unknown token '", unknown,
          "' is not in the vocabulary");
  }

  // Also what begins or ends a text, where a file does not call it special.
  bool is_control(const Entry& entry) const {
    if (json_flag(*entry.added, "special", false) || is_end_name(entry.text)) return true;
    for (const char* name : {"bos_token", "eos_token"}) {
      const json& value = json_part(config_, name);
      const json& text = value.is_object() ? json_part(value, "content") : value;
      if (text.is_string() && text.get_ref<const std::string&>() == entry.text) return true;
    }
    const json& ends = json_part(generation_, "eos_token_id");
    const json& id = json_member(*entry.added, "id");
    return ends == id || (ends.is_array() && std::find(ends.begin(), ends.end(), id) != ends.end());
  }

  void add_token(const Entry& entry, bool byte_names, const std::string& unknown) {
    const int byte = byte_names ? byte_of_name(entry.text) : -1;
    const TokenKind kind = !entry.there            ? TokenKind::unused
                           : byte >= 0             ? TokenKind::byte
                           : entry.text == unknown ? TokenKind::unknown
                           : !entry.added          ? TokenKind::normal
                           : is_control(entry)     ? TokenKind::control
                                                   : TokenKind::user_defined;
    std::optional<std::string> bytes =
        byte_level_ && kind == TokenKind::normal ? from_byte_letters(entry.text) : std::nullopt;
    const Token token = vocabulary_->add(bytes ? *bytes : entry.text, kind, entry.score);
    if (byte >= 0) vocabulary_->set_byte(static_cast<uint8_t>(byte), token);
    if (bytes && bytes->size() == 1)
      vocabulary_->set_byte(static_cast<uint8_t>((*bytes)[0]), token);
    if (!entry.added) return;
    const auto flag = [&](const char* name) { return json_flag(*entry.added, name, false); };
    AddedToken added{.text = entry.text,
                     .token = token,
                     .control = vocabulary_->is_control(token),
                     .single_word = flag("single_word"),
                     .strip_left = flag("lstrip"),
                     .strip_right = flag("rstrip")};
    if (!flag("normalized")) return parts_.added.add(std::move(added));
    added.text = parts_.normalizer(added.text);
    if (!added.text.empty()) parts_.normalized_added.add(std::move(added));
  }

  void set_pieces() {
    const JsonDecoder decoder = json_decoder(json_part(root_, "decoder"));
    parts_.strips_first_space = decoder.strips_first_space;
    if (decoder.steps.empty()) return;
    std::vector<std::string> pieces;
    pieces.reserve(static_cast<size_t>(vocabulary_->size()));
    for (Token token = 0; token < vocabulary_->size(); ++token) {
      std::string piece = vocabulary_->text(token);
      if (!vocabulary_->is_control(token))
        for (const auto& step : decoder.steps) {
          piece = step(std::move(piece));
          check(piece.size() <= 65536, "the decoder makes the token ", token, " too long");
        }
      pieces.push_back(std::move(piece));
    }
    vocabulary_->set_pieces(std::move(pieces));
  }

  void make_model() {
    const Fallback fallback{.bytes = json_flag(model_, "byte_fallback", false),
                            .unknown = unknown_,
                            .fuse = type_ == "Unigram" || json_flag(model_, "fuse_unk", false)};
    if (type_ == "WordPiece") {
      const json& given = json_part(model_, "max_input_chars_per_word");
      const int64_t longest =
          given.is_null() ? 100 : json_integer(given, "max_input_chars_per_word");
      parts_.model = std::make_unique<WordPieceModel>(
          vocabulary_,
          WordPieceModel::Options{.start = "",
                                  .inside = json_text(model_, "continuing_subword_prefix", "##"),
                                  .unknown = unknown_,
                                  .longest_word = longest});
      return;
    }
    const bool whole_text = parts_.pre_tokenizer.empty();
    if (whole_text && may_cut_at_space_marks(*vocabulary_))
      parts_.pre_tokenizer.add(split_at_space_marks());
    if (type_ == "Unigram")
      parts_.model = std::make_unique<UnigramModel>(vocabulary_, fallback);
    else
      make_byte_pairs(fallback);
  }

  void make_byte_pairs(const Fallback& fallback) {
    for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
      check(json_text(model_, name, "").empty(), "the setting '", name, "' is not supported");
    check(json_part(model_, "dropout").is_null() || model_["dropout"] == 0.0,
          "dropout is not supported: it makes tokens random");
    auto model = std::make_unique<BpeModel>(
        vocabulary_, BpeModel::Options{.bytes = byte_level_,
                                       .ignores_merges = json_flag(model_, "ignore_merges", false),
                                       .fallback = fallback});
    const json& merges = json_member(model_, "merges");
    check(merges.is_array(), "the merges must be a list");
    model->reserve(merges.size());
    for (const json& merge : merges) {
      const auto [left, right] = parts_of(merge);
      const std::string a = merged(left), b = merged(right);
      for (const std::string& part : {a, b, a + b})
        check(vocabulary_->find_any(part) >= 0, "a merge names '", part, "', which is not a token");
      model->add_merge(a, b);
    }
    parts_.model = std::move(model);
  }

  std::string merged(const std::string& text) const {
    return byte_level_ ? from_byte_letters(text).value_or(text) : text;
  }

  static std::pair<std::string, std::string> parts_of(const json& merge) {
    if (merge.is_array() && merge.size() == 2)
      return {merge[0].get<std::string>(), merge[1].get<std::string>()};
    const auto text = merge.get<std::string>();
    const size_t blank = text.find(' ');
    check(blank != text.npos, "the merge '", text, "' has no blank");
    return {text.substr(0, blank), text.substr(blank + 1)};
  }

  // A token of the config: its text, or an object that contains it.
  std::optional<Token> config_token(const char* name) const {
    const json& value = json_part(config_, name);
    const json& text = value.is_object() ? json_part(value, "content") : value;
    if (!text.is_string()) return std::nullopt;
    const Token token = vocabulary_->find_any(text.get<std::string>());
    return token < 0 ? std::nullopt : std::optional(token);
  }

  void set_special() {
    parts_.bos = config_token("bos_token");
    parts_.eos = config_token("eos_token");
    std::vector<Token> ends;
    const json& given = json_part(generation_, "eos_token_id");
    for (const json& id : given.is_array() ? given : json::array({given})) {
      if (id.is_null()) continue;
      const int64_t token = json_integer(id, "eos_token_id");
      check(token >= 0 && token < vocabulary_->size(), "eos_token_id ", token, " is not a token");
      ends.push_back(static_cast<Token>(token));
    }
    if (!parts_.bos && !parts_.before.empty()) parts_.bos = parts_.before.front();
    if (!parts_.eos && !parts_.after.empty()) parts_.eos = parts_.after.back();
    if (parts_.eos) ends.push_back(*parts_.eos);
    parts_.end_of_generation = end_tokens(*vocabulary_, ends);
    if (!parts_.eos && parts_.end_of_generation.size() == 1)
      parts_.eos = parts_.end_of_generation[0];
    // Files without a post-processor leave it to the config.
    if (parts_.before.empty() && parts_.after.empty()) {
      if (parts_.bos && json_flag(config_, "add_bos_token", false))
        parts_.before.push_back(*parts_.bos);
      if (parts_.eos && json_flag(config_, "add_eos_token", false))
        parts_.after.push_back(*parts_.eos);
    }
  }

  const json root_, config_, generation_;
  const json& model_;
  std::string type_;
  bool byte_level_ = false;
  Token unknown_ = -1;
  const std::shared_ptr<Vocabulary> vocabulary_ = std::make_shared<Vocabulary>();
  PipelineTokenizer::Parts parts_ = {};
};

}  // namespace

TokenizerPtr tokenizer_from_json_files(const TokenizerJson& files) {
  try {
    return JsonTokenizer(files).make();
  } catch (const json::exception& error) {
    fail("tokenizer.json: ", error.what());
  } catch (const InternalError&) {
    throw;
  } catch (const Error& error) {
    fail("tokenizer.json: ", error.what());
  }
}

TokenizerPtr tokenizer_from_json(std::string_view text) {
  return tokenizer_from_json_files({.tokenizer = text});
}

}  // namespace tensora::llm
