// Tokenizers written as GGUF's keys and as a tokenizer.json: the tokens stay the same either way.

#include <nlohmann/json.hpp>

#include "../io/files.h"
#include "tensora/llm/hugging_face/config_json.h"
#include "tensora/llm/hugging_face/tokenizer_keys.h"
#include "tensora/llm/tokenizer/base64.h"
#include "tensora/llm/tokenizer/pre_tokenizers.h"
#include "tensora/llm/tokenizer/tokenizer.h"

namespace tensora::llm {
namespace {

using nlohmann::json;
using testing::contains;
using testing::error_of;
using testing::read_file;
using testing::TemporaryFolder;
using testing::write_file;
using Tokens = std::vector<Token>;

json read(const std::string& name) {
  return json::parse(read_file(TENSORA_TESTS "/llm/tokenizers/" + name));
}

// The keys of a folder with this tokenizer.json.
Metadata keys_of(const json& tokenizer, const std::string& pre = "") {
  const TemporaryFolder folder;
  write_file(folder / "tokenizer.json", tokenizer.dump());
  Metadata metadata;
  metadata.set("general.architecture", "llama");
  add_tokenizer_keys(folder.path(), pre, metadata);
  return metadata;
}

// Blanks that are not between two words are the one thing that GGUF does not tell apart.
bool has_odd_blanks(const std::string& text) {
  std::string padded = " " + text + " ";
  const std::string mark = "\u2581";  // is a blank, too
  for (size_t at = 0; (at = padded.find(mark, at)) != padded.npos;)
    padded.replace(at, mark.size(), " ");
  return text.empty() || padded.find("  ") != std::string::npos;
}

// From tokenizer.json to GGUF and back: three tokenizers that agree.
void expect_same_tokens(const json& original, const std::string& cases, const char* model,
                        bool joins_blanks) {
  const Metadata metadata = keys_of(original);
  EXPECT_EQ(metadata.get<std::string>("tokenizer.ggml.model"), model);
  const auto first = tokenizer_from_json(original.dump()), gguf = tokenizer_from(metadata),
             back = tokenizer_from_json(tokenizer_json(metadata).dump());
  int compared = 0;
  for (const json& one : read(cases)) {
    const auto text = one["text"].get<std::string>();
    if (joins_blanks && has_odd_blanks(text)) continue;
    ++compared;
    const Tokens expected = first->encode(text, {.parse_special = true});
    EXPECT_EQ(gguf->encode(text, {.parse_special = true}), expected) << text;
    EXPECT_EQ(back->encode(text, {.parse_special = true}), expected) << text;
    EXPECT_EQ(gguf->decode(expected), back->decode(expected)) << text;
  }
  EXPECT_GT(compared, 10);
}

TEST(TokenizerConversion, word_pieces) {
  json bert = read("bert.json");
  EXPECT_TRUE(contains(error_of([&] { keys_of(bert); }), "longest word has 100 characters"));
  bert["model"]["max_input_chars_per_word"] = 100;
  expect_same_tokens(bert, "bert.cases.json", "bert", false);
  json cased = read("bert_cased.json");
  cased["model"]["max_input_chars_per_word"] = 100;
  EXPECT_TRUE(contains(error_of([&] { keys_of(cased); }), "cannot be written to GGUF"));
}

TEST(TokenizerConversion, unigram) {
  for (const char* name : {"unigram", "unigram_bytes"}) {
    SCOPED_TRACE(name);
    json tokenizer = read(concat(name, ".json"));
    EXPECT_TRUE(contains(error_of([&] { keys_of(tokenizer); }), "the normalizer 'NFKC'"));
    tokenizer["normalizer"]["normalizers"].erase(0);
    expect_same_tokens(tokenizer, concat(name, ".cases.json"), "t5", true);
  }
}

TEST(TokenizerConversion, byte_pairs) {
  for (const char* name : {"llama3", "gpt2", "digits", "gpt4o"}) {
    SCOPED_TRACE(name);
    expect_same_tokens(read(concat(name, ".json")), concat(name, ".cases.json"), "gpt2", false);
  }
  EXPECT_TRUE(contains(error_of([&] { keys_of(read("punctuation.json")); }), "'Punctuation'"));
}

// What has a name in GGUF has a tokenizer.json, which has that name again, or one that is the same.
TEST(TokenizerConversion, every_way_of_cutting_words) {
  Metadata metadata = keys_of(read("gpt2.json"));
  for (const std::string& name : pre_tokenizer_names()) {
    SCOPED_TRACE(name);
    metadata.set("tokenizer.ggml.pre", name);
    if (pre_tokenizer(name).habits.raw_spaces) {
      EXPECT_TRUE(contains(error_of([&] { tokenizer_json(metadata); }), "cannot be written"));
      continue;
    }
    const Metadata again = keys_of(json::parse(tokenizer_json(metadata).dump()));
    const std::string found = again.get<std::string>("tokenizer.ggml.pre");
    EXPECT_EQ(pre_tokenizer(found).expressions, pre_tokenizer(name).expressions);
    EXPECT_EQ(pre_tokenizer(found).habits.ignores_merges,
              pre_tokenizer(name).habits.ignores_merges);
  }
}

TEST(TokenizerConversion, odd_files_are_refused_with_a_sentence) {
  const json gpt2 = read("gpt2.json");
  const std::pair<const char*, const char*> changes[] = {
      {R"({"pre_tokenizer": {"type": 5}})", "'type' must be a text"},
      {R"({"pre_tokenizer": {"type": "Sequence", "pretokenizers": 7}})", "must be a list"},
      {R"({"pre_tokenizer": {"type": "ByteLevel", "use_regex": 1}})", "must be true or false"},
      {R"({"model": {"type": "Unigram", "vocab": [["a", 0]], "unk_id": 4}})", "is not a token"},
      {R"({"model": {"type": "Unigram", "vocab": {"a": 0}}})", "as a list"},
      {R"({"model": {"type": "WordLevel", "vocab": {"a": 0}}})", "got WordLevel"},
  };
  for (const auto& [change, sentence] : changes) {
    json changed = gpt2;
    if (json::parse(change).contains("model")) changed.erase("model");
    changed.update(json::parse(change));
    const std::string error = error_of([&] { keys_of(changed); });
    EXPECT_TRUE(contains(error, sentence)) << change << " / " << error;
  }
}

TEST(TokenizerConversion, base64_there_and_back) {
  std::string bytes;
  for (int i = 0; i < 70; ++i) {
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes);
    EXPECT_EQ(to_base64(bytes).size() % 4, 0u);
    bytes += static_cast<char>(i * 37 + 200);
  }
  EXPECT_EQ(to_base64("any carnal pleas"), "YW55IGNhcm5hbCBwbGVhcw==");
}

}  // namespace
}  // namespace tensora::llm
