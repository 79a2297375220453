#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "../helpers.h"
#include "tensora/llm/metadata.h"
#include "tensora/llm/tokenizer/tokenizer.h"

// The small tokenizers of small_tokenizers_test.cpp, written as GGUF files write them: the tokens
// stay the same.

namespace tensora::llm {
namespace {

using nlohmann::json;
using Tokens = std::vector<Token>;

json read(const std::string& name) {
  std::ifstream file(TENSORA_TESTS "/llm/tokenizers/" + name);
  EXPECT_TRUE(file.good()) << name;
  return json::parse(file);
}

struct Entries {
  std::vector<std::string> texts;
  std::vector<int64_t> kinds;
};

Entries entries_of(const json& tokenizer) {
  Entries out;
  const json &vocab = tokenizer["model"]["vocab"], &added = tokenizer["added_tokens"];
  const auto put = [&](const std::string& text, size_t id, int64_t kind) {
    if (out.texts.size() <= id) out.texts.resize(id + 1), out.kinds.resize(id + 1, 1);
    out.texts[id] = text;
    out.kinds[id] = kind;
  };
  for (const auto& [text, id] : vocab.items()) put(text, id.get<size_t>(), 1);
  for (const json& token : added)
    put(token["content"], token["id"].get<size_t>(), token["special"].get<bool>() ? 3 : 4);
  return out;
}

Metadata byte_pairs(const json& tokenizer, const std::string& pre) {
  const Entries entries = entries_of(tokenizer);
  std::vector<std::string> merges;
  for (const json& merge : tokenizer["model"]["merges"])
    merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  Metadata out;
  out.set("tokenizer.ggml.model", std::string("gpt2"));
  out.set("tokenizer.ggml.pre", pre);
  out.set("tokenizer.ggml.tokens", entries.texts);
  out.set("tokenizer.ggml.token_type", entries.kinds);
  out.set("tokenizer.ggml.merges", merges);
  out.set("tokenizer.ggml.bos_token_id", 0);
  out.set("tokenizer.ggml.eos_token_id", 1);
  return out;
}

void expect_same(const Tokenizer& tokenizer, const json& cases) {
  EXPECT_GT(cases.size(), 20u);
  for (const json& one : cases) {
    const auto text = one["text"].get<std::string>();
    EXPECT_EQ(tokenizer.encode(text, {.parse_special = true}), one["ids"].get<Tokens>()) << text;
  }
}

TEST(GgufTokenizer, BytePairsAsInTokenizerJson) {
  for (const auto& [name, pre] : {std::pair<std::string, std::string>{"llama3", "llama-bpe"},
                                  {"gpt4o", "gpt-4o"},
                                  {"digits", "smollm"}}) {
    const auto tokenizer = tokenizer_from(byte_pairs(read(name + ".json"), pre));
    expect_same(*tokenizer, read(name + ".cases.json"));
  }
}

TEST(GgufTokenizer, WordPiecesAsInTokenizerJson) {
  Entries entries = entries_of(read("bert.json"));
  for (size_t i = 0; i < entries.texts.size(); ++i) {
    std::string& text = entries.texts[i];
    if (entries.kinds[i] == 1) text = text.starts_with("##") ? text.substr(2) : "\u2581" + text;
  }
  Metadata metadata;
  metadata.set("tokenizer.ggml.model", std::string("bert"));
  metadata.set("tokenizer.ggml.tokens", entries.texts);
  metadata.set("tokenizer.ggml.token_type", entries.kinds);
  metadata.set("tokenizer.ggml.unknown_token_id", 0);
  metadata.set("tokenizer.ggml.cls_token_id", 1);
  metadata.set("tokenizer.ggml.seperator_token_id", 2);
  const auto tokenizer = tokenizer_from(metadata);
  const json cases = read("bert.cases.json");
  for (const json& one : cases) {
    const auto text = one["text"].get<std::string>();
    // GGUF does not say that a word may be too long; these texts have such.
    bool has_long = false;
    std::istringstream words(text);
    for (std::string word; words >> word;) has_long = has_long || word.size() > 12;
    if (has_long) continue;
    EXPECT_EQ(tokenizer->encode(text, {.parse_special = true}), one["ids"].get<Tokens>()) << text;
  }
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("the dog")), "the dog");
}

}  // namespace
}  // namespace tensora::llm
