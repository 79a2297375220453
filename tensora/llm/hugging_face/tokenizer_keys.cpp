#include "tensora/llm/hugging_face/tokenizer_keys.h"

#include <algorithm>
#include <filesystem>
#include <unordered_map>

#include "tensora/base/check.h"
#include "tensora/llm/hugging_face/json_object.h"
#include "tensora/llm/hugging_face/pre_patterns.h"
#include "tensora/llm/tokenizer/base64.h"
#include "tensora/llm/tokenizer/json_stations.h"
#include "tensora/llm/tokenizer/tokenizer.h"
#include "tensora/llm/tokenizer/vocabulary.h"

namespace tensora::llm {
namespace {

using Json = JsonObject::Json;

// GGUF's kinds of tokens.
constexpr int64_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;

constexpr int64_t kMostTokens = 1 << 24;

struct Tokens {
  std::vector<std::string> texts;
  std::vector<int64_t> types;
  std::vector<double> scores;  // of Unigram's
  int64_t unknown = -1;

  // Numbers that no token has get names that no text has.
  void resize(size_t count) {
    for (size_t i = texts.size(); i < count; ++i) texts.push_back(concat("[PAD", i, "]"));
    types.resize(count, kUnused);
  }

  void set(int64_t id, const std::string& text, int64_t type) {
    check(id >= 0 && id < kMostTokens, "tokenizer.json: the token '", text, "' has the number ",
          id);
    const auto place = static_cast<size_t>(id);
    resize(std::max(texts.size(), place + 1));
    texts[place] = text;
    types[place] = type;
  }
};

// "<0x0A>": exactly two upper-case digits.
bool is_byte_token(const std::string& text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return text.size() == 6 && text.starts_with("<0x") && text[5] == '>' &&
         kDigits.find(text[3]) != kDigits.npos && kDigits.find(text[4]) != kDigits.npos;
}

void read_vocabulary(const JsonObject& model, const std::string& type, bool has_bytes,
                     Tokens& tokens) {
  const Json* vocabulary = model.find("vocab");
  const bool is_list = type == "Unigram";
  check(vocabulary && (is_list ? vocabulary->is_array() : vocabulary->is_object()),
        "tokenizer.json: expected 'vocab' as ", is_list ? "a list" : "an object");
  const auto add = [&](const std::string& text, int64_t id, const std::string& unknown) {
    const bool is_byte = has_bytes && is_byte_token(text);
    tokens.set(id, text, is_byte ? kByte : text == unknown ? kUnknown : kNormal);
  };
  if (is_list) {
    for (const Json& entry : *vocabulary) {
      check(entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number(),
            "tokenizer.json: expected a text and a score in 'vocab'");
      add(entry[0].get<std::string>(), std::ssize(tokens.texts), "");
      tokens.scores.push_back(entry[1].get<double>());
    }
    const int64_t unknown = model.integer("unk_id", -1);
    check(unknown < std::ssize(tokens.texts), "tokenizer.json: 'unk_id' ", unknown,
          " is not a token");
    if (unknown >= 0) tokens.types[static_cast<size_t>(unknown)] = kUnknown;
    tokens.unknown = unknown;
    return;
  }
  const std::string unknown = model.text("unk_token", "");
  for (const auto& [text, id] : vocabulary->items()) {
    check(id.is_number_integer(), "tokenizer.json: the token '", text, "' has no number");
    add(text, id.get<int64_t>(), unknown);
    if (text == unknown) tokens.unknown = id.get<int64_t>();
  }
}

Tokens read_tokens(const JsonObject& file, const JsonObject& model, const std::string& type,
                   bool has_bytes) {
  Tokens tokens;
  read_vocabulary(model, type, has_bytes, tokens);
  const bool keeps_unknown = has_bytes || type != "BPE";
  const Json* added = file.find("added_tokens");
  if (!added || !added->is_array()) return tokens;
  for (const Json& entry : *added) {
    check(entry.is_object(), "tokenizer.json: expected objects in 'added_tokens'");
    const JsonObject token = JsonObject::parse(entry.dump(), "tokenizer.json");
    const int64_t id = token.integer("id");
    const bool special = token.boolean("special", false);
    tokens.set(id, token.text("content"),
               id == tokens.unknown && keeps_unknown ? kUnknown
               : special                             ? kControl
                                                     : kUserDefined);
  }
  return tokens;
}

// "a b" or ["a", "b"].
std::vector<std::string> read_merges(const JsonObject& model) {
  const Json* list = model.find("merges");
  check(list && list->is_array(), "tokenizer.json: expected 'merges' as a list");
  std::vector<std::string> merges;
  for (const Json& entry : *list) {
    const bool is_pair =
        entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string();
    check(is_pair || entry.is_string(), "tokenizer.json: a merge is neither a text nor a pair");
    merges.push_back(is_pair ? entry[0].get<std::string>() + " " + entry[1].get<std::string>()
                             : entry.get<std::string>());
  }
  return merges;
}

// Where tokens have scores instead of merges, the one that is merged earlier has the higher score.
std::vector<double> scores_from(const Tokens& tokens, const std::vector<std::string>& merges) {
  std::unordered_map<std::string, double> ranks;
  for (size_t i = 0; i < merges.size(); ++i) {
    std::string merged = merges[i];
    const size_t blank = merged.find(' ');
    if (blank == std::string::npos) continue;
    ranks.try_emplace(merged.erase(blank, 1), -static_cast<double>(i));
  }
  std::vector<double> scores;
  const double last = -static_cast<double>(merges.size());
  for (size_t i = 0; i < tokens.texts.size(); ++i) {
    const auto found = ranks.find(tokens.texts[i]);
    const bool is_normal = tokens.types[i] == kNormal;
    scores.push_back(!is_normal ? 0 : found == ranks.end() ? last : found->second);
  }
  return scores;
}

// Whether text is given the mark of a space before its first word.
bool adds_space(const JsonObject& file) {
  for (const Json& step : steps_of(json_part(file.json(), "normalizer"), "normalizers"))
    if (json_text(step, "type", "") == "Prepend") return true;
  for (const Json& step : steps_of(json_part(file.json(), "pre_tokenizer"), "pretokenizers")) {
    if (json_text(step, "type", "") != "Metaspace") continue;
    const bool prefix = json_flag(step, "add_prefix_space", true);
    return json_text(step, "prepend_scheme", prefix ? "always" : "never") != "never";
  }
  return false;
}

void set_flags(const std::string& folder, const Tokens& tokens, Metadata& metadata) {
  const auto config = JsonObject::read_if_there(folder + "/tokenizer_config.json");
  if (!config) return;
  for (const char* name : {"add_bos_token", "add_eos_token"})
    if (config->contains(name))
      metadata.set(concat("tokenizer.ggml.", name), config->boolean(name, false));
  const auto set_id = [&](const char* name, const char* key) {
    const Json* token = config->find(name);
    if (token && token->is_object() && token->contains("content")) token = &(*token)["content"];
    if (!token || !token->is_string()) return;
    for (size_t i = 0; i < tokens.texts.size(); ++i)
      if (tokens.texts[i] == token->get<std::string>())
        metadata.set(concat("tokenizer.ggml.", key), static_cast<int64_t>(i));
  };
  set_id("bos_token", "bos_token_id");
  set_id("eos_token", "eos_token_id");
  set_id("unk_token", "unknown_token_id");
  set_id("pad_token", "padding_token_id");
}

std::string key(std::string_view name) { return concat("tokenizer.ggml.", name); }

// The tokens that stand around a text, by what the tokenizer itself makes of one.
struct Surroundings {
  std::vector<Token> before, after;
};
Surroundings surroundings_of(const std::string& folder) {
  const TokenizerPtr tokenizer = tokenizer_from_file(folder + "/tokenizer.json");
  const std::vector<Token> none = tokenizer->encode(""), some = tokenizer->encode("a");
  Surroundings found;
  size_t at = 0;
  while (at < none.size() && at < some.size() && some[at] == none[at]) ++at;
  found.before.assign(none.begin(), none.begin() + static_cast<std::ptrdiff_t>(at));
  found.after.assign(none.begin() + static_cast<std::ptrdiff_t>(at), none.end());
  return found;
}

// BOS and EOS, where the tokenizer adds them.
void set_ends(const std::string& folder, Metadata& metadata) {
  const Surroundings around = surroundings_of(folder);
  check(around.before.size() <= 1 && around.after.size() <= 1,
        "tokenizer.json: GGUF has one token before a text and one behind it, expected are ",
        around.before.size(), " and ", around.after.size());
  metadata.set(key("add_bos_token"), !around.before.empty());
  metadata.set(key("add_eos_token"), !around.after.empty());
  if (!around.before.empty()) metadata.set(key("bos_token_id"), around.before[0]);
  if (!around.after.empty()) metadata.set(key("eos_token_id"), around.after[0]);
}

[[noreturn]] void refuse(std::string_view what, const std::string& name) {
  fail("tokenizer.json: the ", what, " '", name, "' cannot be written to GGUF");
}

void set_scored(const JsonObject& file, const Tokens& tokens, Metadata& metadata) {
  bool joins_spaces = false;
  for (const Json& step : steps_of(json_part(file.json(), "normalizer"), "normalizers")) {
    const std::string type = json_text(step, "type", "");
    if (type == "Precompiled") {
      const auto map = from_base64(json_text(step, "precompiled_charsmap", ""));
      check(map.has_value(), "tokenizer.json: precompiled_charsmap is not in base 64");
      std::vector<int64_t> bytes;
      for (const char byte : *map) bytes.push_back(static_cast<uint8_t>(byte));
      if (!bytes.empty())
        metadata.set(key("precompiled_charsmap"), std::move(bytes), MetadataType::uint8);
      continue;
    }
    const std::string pattern = json_text(json_part(step, "pattern"), "Regex", "");
    if (type != "Strip" && !(type == "Replace" && pattern == " {2,}")) refuse("normalizer", type);
    joins_spaces = true;
  }
  for (const Json& step : steps_of(json_part(file.json(), "pre_tokenizer"), "pretokenizers")) {
    const std::string type = json_text(step, "type", "");
    if (type != "Metaspace" && type != "WhitespaceSplit") refuse("pre_tokenizer", type);
    joins_spaces = joins_spaces || type == "WhitespaceSplit";
  }
  metadata.set(key("model"), "t5");
  metadata.set(key("scores"), tokens.scores, MetadataType::float32);
  metadata.set(key("add_space_prefix"), adds_space(file));
  metadata.set(key("remove_extra_whitespaces"), joins_spaces);
}

// GGUF marks the beginning of a word where WordPiece marks what continues one.
void set_word_pieces(const JsonObject& file, const JsonObject& model, const std::string& folder,
                     Tokens& tokens, Metadata& metadata) {
  const Json& normalizer = json_part(file.json(), "normalizer");
  const std::string type = json_text(normalizer, "type", "nothing");
  const bool is_usual = type == "BertNormalizer" && json_flag(normalizer, "lowercase", true) &&
                        json_flag(normalizer, "strip_accents", true) &&
                        json_flag(normalizer, "clean_text", true) &&
                        json_flag(normalizer, "handle_chinese_chars", true);
  if (!is_usual) refuse("normalizer", normalizer.is_null() ? type : normalizer.dump());
  const std::string cut = json_text(json_part(file.json(), "pre_tokenizer"), "type", "nothing");
  if (cut != "BertPreTokenizer") refuse("pre_tokenizer", cut);
  const std::string prefix = model.text("continuing_subword_prefix", "##");
  const int64_t longest = model.integer("max_input_chars_per_word", 100);
  check(longest == 100, "tokenizer.json: GGUF's longest word has 100 characters, expected are ",
        longest);
  for (size_t i = 0; i < tokens.texts.size(); ++i) {
    std::string& text = tokens.texts[i];
    if (tokens.types[i] != kNormal) continue;
    text = !prefix.empty() && text.starts_with(prefix) ? text.substr(prefix.size())
                                                       : concat(kSpaceMark, text);
  }
  const Surroundings around = surroundings_of(folder);
  check(around.before.size() == 1 && around.after.size() == 1,
        "tokenizer.json: expected a token before a text and one behind it, got ",
        around.before.size(), " and ", around.after.size());
  metadata.set(key("model"), "bert");
  metadata.set(key("cls_token_id"), around.before[0]);
  metadata.set(key("seperator_token_id"), around.after[0]);  // GGUF spells it so
}

void set_byte_pairs(const JsonObject& file, const JsonObject& model, const std::string& pre,
                    const Tokens& tokens, Metadata& metadata) {
  const bool has_bytes = model.boolean("byte_fallback", false);
  const std::vector<std::string> merges = read_merges(model);
  metadata.set(key("model"), has_bytes ? "llama" : "gpt2");
  if (has_bytes) {
    metadata.set(key("scores"), scores_from(tokens, merges));
    metadata.set(key("add_space_prefix"), adds_space(file));
  } else {
    metadata.set(key("pre"), pre.empty() ? pre_name(file.json()) : pre);
    metadata.set(key("merges"), merges);
  }
}

}  // namespace

void add_tokenizer_keys(const std::string& folder, const std::string& pre, Metadata& metadata) {
  const auto file = JsonObject::read_if_there(folder + "/tokenizer.json");
  if (!file) return;
  const auto model = file->object("model");
  check(model.has_value(), "tokenizer.json: there is no 'model'");
  const std::string type = model->text("type", "BPE");
  check(type == "BPE" || type == "Unigram" || type == "WordPiece",
        "tokenizer.json: expected a BPE, Unigram or WordPiece model, got ", type);
  const bool has_bytes = model->boolean("byte_fallback", false);
  check(pre.empty() || (type == "BPE" && !has_bytes),
        "a pre-tokenizer can be chosen for byte pairs only; this tokenizer is ",
        has_bytes ? "sentencepiece's" : type);
  Tokens tokens = read_tokens(*file, *model, type, has_bytes);
  // As many as the embedding has rows, which may be padded.
  const std::string size_key =
      concat(metadata.get<std::string>("general.architecture"), ".vocab_size");
  const int64_t rows = metadata.get_or(size_key, 0);
  if (rows > 0 && rows <= kMostTokens)
    tokens.resize(std::max(tokens.texts.size(), static_cast<size_t>(rows)));
  set_flags(folder, tokens, metadata);
  if (tokens.unknown >= 0 && type != "BPE") metadata.set(key("unknown_token_id"), tokens.unknown);
  tokens.scores.resize(tokens.texts.size());
  if (type == "BPE")
    set_byte_pairs(*file, *model, pre, tokens, metadata);
  else if (type == "Unigram")
    set_scored(*file, tokens, metadata);
  else
    set_word_pieces(*file, *model, folder, tokens, metadata);
  if (type != "WordPiece") set_ends(folder, metadata);
  metadata.set(key("tokens"), tokens.texts);
  metadata.set(key("token_type"), tokens.types);
}

}  // namespace tensora::llm
