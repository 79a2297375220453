#include "tensora/llm/hugging_face/tokenizer_keys.h"

#include <algorithm>
#include <filesystem>
#include <unordered_map>

#include "tensora/base/check.h"
#include "tensora/llm/hugging_face/json_object.h"
#include "tensora/llm/hugging_face/pre_patterns.h"

namespace tensora::llm {
namespace {

using Json = JsonObject::Json;

// GGUF's kinds of tokens.
constexpr int64_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;

constexpr int64_t kMostTokens = 1 << 24;

struct Tokens {
  std::vector<std::string> texts;
  std::vector<int64_t> types;

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

Tokens read_tokens(const JsonObject& file, const JsonObject& model, bool has_bytes) {
  const Json* vocabulary = model.find("vocab");
  check(vocabulary && vocabulary->is_object(), "tokenizer.json: expected 'vocab' as an object");
  const std::string unknown = model.text("unk_token", "");
  Tokens tokens;
  for (const auto& [text, id] : vocabulary->items()) {
    check(id.is_number_integer(), "tokenizer.json: the token '", text, "' has no number");
    const bool is_byte = has_bytes && is_byte_token(text);
    tokens.set(id.get<int64_t>(), text, is_byte ? kByte : text == unknown ? kUnknown : kNormal);
  }
  const Json* added = file.find("added_tokens");
  if (!added || !added->is_array()) return tokens;
  for (const Json& entry : *added) {
    check(entry.is_object(), "tokenizer.json: expected objects in 'added_tokens'");
    const JsonObject token = JsonObject::parse(entry.dump(), "tokenizer.json");
    const std::string text = token.text("content");
    const bool special = token.boolean("special", false);
    tokens.set(token.integer("id"), text,
               text == unknown && has_bytes ? kUnknown
               : special                    ? kControl
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
  const Json* parts[] = {file.find("normalizer"), file.find("pre_tokenizer")};
  for (const Json* part : parts) {
    const std::string text = part ? part->dump() : "";
    if (text.find("\"Prepend\"") != std::string::npos) return true;
    if (text.find("\"prepend_scheme\":\"first\"") != std::string::npos ||
        text.find("\"prepend_scheme\":\"always\"") != std::string::npos)
      return true;
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

}  // namespace

void add_tokenizer_keys(const std::string& folder, const std::string& pre, Metadata& metadata) {
  const auto file = JsonObject::read_if_there(folder + "/tokenizer.json");
  if (!file) return;
  const auto model = file->object("model");
  check(model.has_value(), "tokenizer.json: there is no 'model'");
  const std::string type = model->text("type", "BPE");
  check(type == "BPE", "tokenizer.json: a tokenizer of the type ", type,
        " cannot be written to GGUF yet; expected BPE");
  const bool has_bytes = model->boolean("byte_fallback", false);
  Tokens tokens = read_tokens(*file, *model, has_bytes);
  // As many as the embedding has rows, which may be padded.
  const std::string size_key =
      concat(metadata.get<std::string>("general.architecture"), ".vocab_size");
  const int64_t rows = metadata.get_or(size_key, 0);
  if (rows > 0 && rows <= kMostTokens)
    tokens.resize(std::max(tokens.texts.size(), static_cast<size_t>(rows)));
  const std::vector<std::string> merges = read_merges(*model);
  const auto key = [](std::string_view name) { return concat("tokenizer.ggml.", name); };
  metadata.set(key("model"), has_bytes ? "llama" : "gpt2");
  if (!has_bytes) metadata.set(key("pre"), pre.empty() ? pre_name(file->json()) : pre);
  metadata.set(key("tokens"), tokens.texts);
  metadata.set(key("token_type"), tokens.types);
  if (has_bytes) {
    metadata.set(key("scores"), scores_from(tokens, merges));
    metadata.set(key("add_space_prefix"), adds_space(*file));
  } else {
    metadata.set(key("merges"), merges);
  }
  set_flags(folder, tokens, metadata);
}

}  // namespace tensora::llm
