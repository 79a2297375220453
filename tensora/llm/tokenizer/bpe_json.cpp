#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tensora/base/check.h"
#include "tensora/llm/tokenizer/bpe_tokenizer.h"
#include "tensora/llm/tokenizer/byte_letters.h"

namespace tensora::llm {
namespace {

using Json = nlohmann::ordered_json;
using Token = BpeTokenizer::Token;

int64_t integer(const Json& id) {
  check(id.is_number_integer(), "tokenizer.json: the id of a token must be an integer, got ",
        id.type_name());
  return id.get<int64_t>();
}

const Json& member(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  check(object.is_object() && found != object.end(), "tokenizer.json: '", name, "' is missing");
  return *found;
}

// Settings of other kinds of tokenizers; ignoring one would give other tokens.
void check_kind(const Json& json) {
  const auto is_null = [&](const Json& object, const char* name) {
    return !object.contains(name) || object[name].is_null() || object[name] == false ||
           object[name] == "";
  };
  const Json& model = member(json, "model");
  check(model.value("type", "BPE") == "BPE", "tokenizer.json: expected a BPE model, got ",
        model.value("type", "?"));
  for (const char* name : {"dropout", "continuing_subword_prefix", "end_of_word_suffix",
                           "byte_fallback", "ignore_merges"})
    check(is_null(model, name), "tokenizer.json: the setting '", name, "' is not supported");
  check(is_null(json, "normalizer"), "tokenizer.json: a normalizer is not supported");
  const Json& words = member(json, "pre_tokenizer");
  check(words.is_object() && words.value("type", "") == "ByteLevel" &&
            words.value("use_regex", true) && !words.value("add_prefix_space", true),
        "tokenizer.json: expected the pre_tokenizer ByteLevel with use_regex and without "
        "add_prefix_space");
}

std::pair<std::string, std::string> merge_parts(const Json& merge) {
  if (merge.is_array() && merge.size() == 2)
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  const std::string text = merge.get<std::string>();
  const size_t blank = text.find(' ');
  check(blank != text.npos, "tokenizer.json: the merge '", text, "' has no blank");
  return {text.substr(0, blank), text.substr(blank + 1)};
}

std::vector<std::string> texts_by_id(const Json& vocab, const Json& added) {
  std::vector<std::string> texts;
  std::vector<bool> seen;
  const auto put = [&](const std::string& text, int64_t id) {
    const auto limit = static_cast<int64_t>(vocab.size() + added.size());
    check(id >= 0 && id < limit, "tokenizer.json: the id ", id, " of the token '", text,
          "' is not in [0, ", limit, ")");
    const auto at = static_cast<size_t>(id);
    if (texts.size() <= at) texts.resize(at + 1), seen.resize(at + 1);
    check(!seen[at] || texts[at] == text, "tokenizer.json: two tokens have the id ", id);
    texts[at] = text;
    seen[at] = true;
  };
  for (const auto& [text, id] : vocab.items()) put(text, integer(id));
  for (const Json& token : added)
    put(member(token, "content").get<std::string>(), integer(member(token, "id")));
  for (size_t i = 0; i < seen.size(); ++i)
    check(seen[i], "tokenizer.json: there is no token with the id ", i);
  return texts;
}

}  // namespace

std::string BpeTokenizer::to_json() const {
  Json added = Json::array(), vocab = Json::object(), merges = Json::array();
  for (Token id = 0; id < vocab_size(); ++id) {
    if (!is_special(id)) {
      vocab[to_byte_letters(token(id))] = id;
      continue;
    }
    vocab[token(id)] = id;
    added.push_back({{"id", id},
                     {"content", token(id)},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  for (const auto& [left, right] : merges_)
    merges.push_back({to_byte_letters(token(left)), to_byte_letters(token(right))});
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  const Json model = {{"type", "BPE"},
                      {"dropout", nullptr},
                      {"unk_token", nullptr},
                      {"continuing_subword_prefix", nullptr},
                      {"end_of_word_suffix", nullptr},
                      {"fuse_unk", false},
                      {"byte_fallback", false},
                      {"ignore_merges", false},
                      {"vocab", std::move(vocab)},
                      {"merges", std::move(merges)}};
  const Json json = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", std::move(added)},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", byte_level},
                     {"post_processor", nullptr},
                     {"decoder", byte_level},
                     {"model", model}};
  return json.dump(1) + "\n";
}

BpeTokenizer BpeTokenizer::from_json(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    check_kind(json);
    const Json& model = json["model"];
    const Json added = json.value("added_tokens", Json::array());
    BpeTokenizer out;
    std::map<std::string, Token> by_text;
    std::map<std::string, bool> special;
    for (const Json& token : added) special[member(token, "content").get<std::string>()] = true;
    for (const std::string& one : texts_by_id(member(model, "vocab"), added)) {
      const auto bytes = from_byte_letters(one);
      check(special.contains(one) || bytes, "tokenizer.json: the token '", one,
            "' is not written in the letters of bytes");
      by_text[one] = special.contains(one) ? out.add_special(one) : out.add_token(*bytes);
    }
    for (int byte = 0; byte < 256; ++byte)
      check(out.find(std::string(1, static_cast<char>(byte))).has_value(),
            "tokenizer.json: there is no token for the byte ", byte);
    for (const Json& merge : member(model, "merges")) {
      const auto [left, right] = merge_parts(merge);
      for (const std::string& part : {left, right, left + right})
        check(by_text.contains(part), "tokenizer.json: a merge names '", part,
              "', which is not a token");
      out.add_merge({by_text[left], by_text[right]}, by_text[left + right]);
    }
    return out;
  } catch (const Json::exception& error) {
    fail("tokenizer.json: ", error.what());
  }
}

BpeTokenizer BpeTokenizer::load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  check(file.good(), path, ": cannot be opened: ", std::strerror(errno));
  std::ostringstream text;
  text << file.rdbuf();
  check(file.good() || file.eof(), path, ": cannot be read");
  try {
    return from_json(text.str());
  } catch (const Error& error) {
    fail(path, ": ", error.what());
  }
}

void BpeTokenizer::save(const std::string& path) const {
  const std::string fresh = path + ".new";
  std::ofstream file(fresh, std::ios::binary);
  check(file.good(), fresh, ": cannot be opened for writing: ", std::strerror(errno));
  file << to_json();
  file.close();
  const bool is_written = file.good() && std::rename(fresh.c_str(), path.c_str()) == 0;
  check(is_written, path, ": cannot be written: ", std::strerror(errno));
}

}  // namespace tensora::llm
