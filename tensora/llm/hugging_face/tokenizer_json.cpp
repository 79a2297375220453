#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "tensora/base/check.h"
#include "tensora/base/utf8.h"
#include "tensora/llm/hugging_face/config_json.h"
#include "tensora/llm/hugging_face/pre_patterns.h"
#include "tensora/llm/tokenizer/base64.h"
#include "tensora/llm/tokenizer/pre_tokenizers.h"
#include "tensora/llm/tokenizer/vocabulary.h"

namespace tensora::llm {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4,
                  kByte = 6;  // kinds of tokens
const std::string kSpace(kSpaceMark);

struct Entries {
  const std::vector<std::string>& tokens;
  std::vector<int64_t> types;
};

Entries entries_of(const Metadata& metadata) {
  Entries result{metadata.get<std::vector<std::string>>("tokenizer.ggml.tokens"), {}};
  result.types.assign(result.tokens.size(), kNormal);
  if (metadata.contains("tokenizer.ggml.token_type"))
    result.types = metadata.get<std::vector<int64_t>>("tokenizer.ggml.token_type");
  check(result.types.size() == result.tokens.size(), "there are ", result.tokens.size(),
        " tokens but ", result.types.size(), " of tokenizer.ggml.token_type");
  return result;
}

int64_t id_of(const Metadata& metadata, std::string_view name, size_t count) {
  const int64_t id = metadata.get_or(concat("tokenizer.ggml.", name, "_token_id"), int64_t{-1});
  return id >= 0 && id < static_cast<int64_t>(count) ? id : -1;
}

Json added_tokens(const Entries& vocabulary) {
  Json list = Json::array();
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const int64_t type = vocabulary.types[i];
    if (type != kControl && type != kUserDefined && type != kUnknown) continue;
    list.push_back({{"id", i},
                    {"content", vocabulary.tokens[i]},
                    {"single_word", false},
                    {"lstrip", false},
                    {"rstrip", false},
                    {"normalized", false},
                    {"special", type != kUserDefined}});
  }
  return list;
}

// Pairs of tokens that are a token together: those of the best token first, as scores have it.
Json merges_from_scores(const Entries& vocabulary, const std::vector<double>& scores) {
  std::unordered_map<std::string_view, size_t> places;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) places.emplace(vocabulary.tokens[i], i);
  struct Merge {
    size_t whole, left, right;
  };
  std::vector<Merge> merges;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (vocabulary.types[i] != kNormal) continue;
    const std::string_view text = vocabulary.tokens[i];
    if (text.empty()) continue;
    for (auto cut = static_cast<size_t>(decode_utf8(text).length); cut < text.size();
         cut += static_cast<size_t>(decode_utf8(text.substr(cut)).length)) {
      const auto left = places.find(text.substr(0, cut)), right = places.find(text.substr(cut));
      if (left != places.end() && right != places.end())
        merges.push_back({i, left->second, right->second});
    }
  }
  std::sort(merges.begin(), merges.end(), [&](const Merge& a, const Merge& b) {
    if (scores[a.whole] != scores[b.whole]) return scores[a.whole] > scores[b.whole];
    return std::pair(a.left, a.right) < std::pair(b.left, b.right);
  });
  Json list = Json::array();
  for (const Merge& merge : merges)
    list.push_back({vocabulary.tokens[merge.left], vocabulary.tokens[merge.right]});
  return list;
}

Json vocabulary_json(const Entries& vocabulary) {
  Json json = Json::object();
  // Appended as to a list: looking every key up would take minutes for a large vocabulary.
  auto& entries = json.get_ref<Json::object_t&>();
  std::unordered_set<std::string_view> seen;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i)
    if (seen.insert(vocabulary.tokens[i]).second) entries.emplace_back(vocabulary.tokens[i], i);
  return json;
}

// The tokens around a text, -1 for none.
Json surrounded(const Entries& vocabulary, int64_t before, int64_t after) {
  if (before < 0 && after < 0) return nullptr;
  Json special = Json::object();
  const auto add = [&](Json& list, int64_t id, int type) {
    if (id < 0) return;
    const std::string& token = vocabulary.tokens[static_cast<size_t>(id)];
    list.push_back({{"SpecialToken", {{"id", token}, {"type_id", type}}}});
    special[token] = {{"id", token}, {"ids", Json::array({id})}, {"tokens", Json::array({token})}};
  };
  const auto sequence = [&](const char* name, int type) {
    Json list = Json::array();
    add(list, before, type);
    list.push_back({{"Sequence", {{"id", name}, {"type_id", type}}}});
    add(list, after, type);
    return list;
  };
  const Json single = sequence("A", 0);
  Json pair = single;
  for (const Json& part : sequence("B", 1)) pair.push_back(part);
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", pair},
          {"special_tokens", special}};
}

// BOS and EOS, where the file, or else the habit of its kind, says so.
Json post_processor(const Metadata& metadata, const Entries& vocabulary, const std::string& model) {
  const size_t count = vocabulary.tokens.size();
  const bool bos = metadata.get_or("tokenizer.ggml.add_bos_token", model == "llama");
  const bool eos = metadata.get_or("tokenizer.ggml.add_eos_token", model == "t5");
  return surrounded(vocabulary, bos ? id_of(metadata, "bos", count) : -1,
                    eos ? id_of(metadata, "eos", count) : -1);
}

void set_byte_level(Json& json, const Metadata& metadata, const Entries& vocabulary) {
  const std::string pre = metadata.get_or("tokenizer.ggml.pre", "gpt-2");
  json["pre_tokenizer"] = pre_tokenizer_json(pre);
  json["decoder"] = {{"type", "ByteLevel"},
                     {"add_prefix_space", true},
                     {"trim_offsets", true},
                     {"use_regex", true}};
  Json merges = Json::array();
  for (const std::string& merge : metadata.get<std::vector<std::string>>("tokenizer.ggml.merges")) {
    const size_t blank = merge.find(' ');
    check(blank != std::string::npos, "the merge '", merge, "' has no blank");
    merges.push_back({merge.substr(0, blank), merge.substr(blank + 1)});
  }
  json["model"] = {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", nullptr},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", false},
                   {"byte_fallback", false},
                   {"ignore_merges", pre_tokenizer(pre).habits.ignores_merges},
                   {"vocab", vocabulary_json(vocabulary)},
                   {"merges", merges}};
}

const std::vector<double>& scores_of(const Metadata& metadata, const Entries& vocabulary) {
  const auto& scores = metadata.get<std::vector<double>>("tokenizer.ggml.scores");
  check(scores.size() == vocabulary.tokens.size(), "there are ", vocabulary.tokens.size(),
        " tokens but ", scores.size(), " of tokenizer.ggml.scores");
  return scores;
}

void set_scored(Json& json, const Metadata& metadata, const Entries& vocabulary) {
  const std::vector<double>& scores = scores_of(metadata, vocabulary);
  const bool prefix = metadata.get_or("tokenizer.ggml.add_space_prefix", true);
  Json normalizers = Json::array();
  if (prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", kSpace}});
  normalizers.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpace}});
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", normalizers}};
  Json decoders =
      Json::array({{{"type", "Replace"}, {"pattern", {{"String", kSpace}}}, {"content", " "}},
                   {{"type", "ByteFallback"}},
                   {{"type", "Fuse"}}});
  if (prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  json["decoder"] = {{"type", "Sequence"}, {"decoders", decoders}};
  const int64_t unknown = id_of(metadata, "unknown", vocabulary.tokens.size());
  json["model"] = {
      {"type", "BPE"},
      {"dropout", nullptr},
      {"unk_token", unknown < 0 ? Json() : Json(vocabulary.tokens[static_cast<size_t>(unknown)])},
      {"continuing_subword_prefix", nullptr},
      {"end_of_word_suffix", nullptr},
      {"fuse_unk", true},
      {"byte_fallback", true},
      {"ignore_merges", false},
      {"vocab", vocabulary_json(vocabulary)},
      {"merges", merges_from_scores(vocabulary, scores)}};
}

void set_unigram(Json& json, const Metadata& metadata, const Entries& vocabulary) {
  const std::vector<double>& scores = scores_of(metadata, vocabulary);
  Json normalizers = Json::array();
  if (metadata.contains("tokenizer.ggml.precompiled_charsmap")) {
    std::string map;
    for (const int64_t byte :
         metadata.get<std::vector<int64_t>>("tokenizer.ggml.precompiled_charsmap"))
      map += static_cast<char>(byte & 0xFF);
    normalizers.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", to_base64(map)}});
  }
  if (metadata.get_or("tokenizer.ggml.remove_extra_whitespaces", true))
    normalizers.push_back(
        {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}});
  if (!normalizers.empty())
    json["normalizer"] = {{"type", "Sequence"}, {"normalizers", normalizers}};
  const bool prefix = metadata.get_or("tokenizer.ggml.add_space_prefix", true);
  const Json space = {{"type", "Metaspace"},
                      {"replacement", kSpace},
                      {"prepend_scheme", prefix ? "always" : "never"},
                      {"split", true}};
  json["pre_tokenizer"] = space;
  int64_t bytes = 0;
  for (const int64_t type : vocabulary.types) bytes += type == kByte ? 1 : 0;
  json["decoder"] = space;
  if (bytes > 0)
    json["decoder"] = {{"type", "Sequence"},
                       {"decoders", Json::array({{{"type", "ByteFallback"}}, space})}};
  Json pieces = Json::array();
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i)
    pieces.push_back(Json::array({vocabulary.tokens[i], scores[i]}));
  const int64_t unknown = id_of(metadata, "unknown", vocabulary.tokens.size());
  json["model"] = {{"type", "Unigram"},
                   {"unk_id", unknown < 0 ? Json() : Json(unknown)},
                   {"vocab", pieces},
                   {"byte_fallback", bytes == 256}};
}

// WordPiece marks what continues a word where GGUF marks the beginning of one.
void set_word_pieces(Json& json, const Metadata& metadata, const Entries& vocabulary) {
  std::vector<std::string> tokens = vocabulary.tokens;
  for (size_t i = 0; i < tokens.size(); ++i)
    if (vocabulary.types[i] == kNormal)
      tokens[i] =
          tokens[i].starts_with(kSpace) ? tokens[i].substr(kSpace.size()) : concat("##", tokens[i]);
  const size_t count = tokens.size();
  const int64_t start = id_of(metadata, "cls", count), end = id_of(metadata, "seperator", count);
  json["normalizer"] = {{"type", "BertNormalizer"},
                        {"clean_text", true},
                        {"handle_chinese_chars", true},
                        {"strip_accents", nullptr},
                        {"lowercase", true}};
  json["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  json["post_processor"] =
      surrounded(vocabulary, start < 0 ? id_of(metadata, "bos", count) : start, end);
  json["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", false}};
  const int64_t unknown = id_of(metadata, "unknown", count);
  json["model"] = {{"type", "WordPiece"},
                   {"unk_token", unknown < 0 ? "[UNK]" : tokens[static_cast<size_t>(unknown)]},
                   {"continuing_subword_prefix", "##"},
                   {"max_input_chars_per_word", 100},
                   {"vocab", vocabulary_json({tokens, vocabulary.types})}};
}

}  // namespace

Json tokenizer_json(const Metadata& metadata) {
  const std::string model = metadata.get<std::string>("tokenizer.ggml.model");
  check(model == "gpt2" || model == "llama" || model == "t5" || model == "bert",
        "tokenizer.ggml.model: expected gpt2, llama, t5 or bert, got '", model, "'");
  const Entries vocabulary = entries_of(metadata);
  Json json = {{"version", "1.0"},
               {"truncation", nullptr},
               {"padding", nullptr},
               {"added_tokens", added_tokens(vocabulary)},
               {"normalizer", nullptr},
               {"pre_tokenizer", nullptr},
               {"post_processor", post_processor(metadata, vocabulary, model)}};
  if (model == "gpt2")
    set_byte_level(json, metadata, vocabulary);
  else if (model == "llama")
    set_scored(json, metadata, vocabulary);
  else if (model == "t5")
    set_unigram(json, metadata, vocabulary);
  else
    set_word_pieces(json, metadata, vocabulary);
  return json;
}

Json tokenizer_config_json(const Metadata& metadata) {
  const auto& tokens = metadata.get<std::vector<std::string>>("tokenizer.ggml.tokens");
  Json json = {{"tokenizer_class", "PreTrainedTokenizerFast"},
               {"clean_up_tokenization_spaces", false}};
  constexpr std::pair<const char*, const char*> kTokens[] = {{"bos", "bos_token"},
                                                             {"eos", "eos_token"},
                                                             {"unknown", "unk_token"},
                                                             {"padding", "pad_token"}};
  for (const auto& [key, name] : kTokens)
    if (const int64_t id = id_of(metadata, key, tokens.size()); id >= 0)
      json[name] = tokens[static_cast<size_t>(id)];
  for (const char* name : {"add_bos_token", "add_eos_token"})
    if (const std::string key = concat("tokenizer.ggml.", name); metadata.contains(key))
      json[name] = metadata.get<bool>(key);
  if (metadata.contains("tokenizer.chat_template"))
    json["chat_template"] = metadata.get<std::string>("tokenizer.chat_template");
  return json;
}

}  // namespace tensora::llm
