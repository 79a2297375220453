#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "../helpers.h"
#include "tensora/base/utf8.h"
#include "tensora/llm/tokenizer/pre_tokenizer.h"
#include "tensora/llm/tokenizer/pre_tokenizers.h"
#include "tensora/llm/tokenizer/stream_decoder.h"

// Tokenizers of every kind, and what the libraries that they come from make of texts
// (make_tokenizers.py).

namespace tensora::llm {
namespace {

using nlohmann::json;
using testing::contains;
using Tokens = std::vector<Token>;

std::string folder() {
  const char* given = std::getenv("TENSORA_TEST_TOKENIZERS");  // for many more random texts
  return given ? given : TENSORA_TESTS "/llm/tokenizers";
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".cases.json")) out.push_back(name.substr(0, name.size() - 11));
  }
  std::sort(out.begin(), out.end());
  return out;
}

class SmallTokenizer : public ::testing::TestWithParam<std::string> {
 protected:
  static TokenizerPtr open(const std::string& name) {
    for (const char* ending : {".json", ".model"})
      if (std::filesystem::exists(folder() + "/" + name + ending))
        return tokenizer_from_file(folder() + "/" + name + ending);
    // These files do not say how text is cut.
    return tokenizer_from_file(folder() + "/" + name + ".tiktoken", {.pre = "gpt-2"});
  }

  const TokenizerPtr tokenizer = open(GetParam());
  const json cases = json::parse(contents(folder() + "/" + GetParam() + ".cases.json"));
};

TEST_P(SmallTokenizer, EncodesAsTheReferenceDoes) {
  EXPECT_GE(cases.size(), 20u);
  for (const json& one : cases) {
    const auto text = one["text"].get<std::string>();
    EXPECT_EQ(tokenizer->encode(text, {.parse_special = true}), one["ids"].get<Tokens>()) << text;
    EXPECT_EQ(tokenizer->encode(text, {.add_special = false, .parse_special = true}),
              one["plain"].get<Tokens>())
        << text;
  }
}

TEST_P(SmallTokenizer, DecodesAsTheReferenceDoes) {
  for (const json& one : cases) {
    const auto plain = one["plain"].get<Tokens>();
    const auto expected = one["decoded"].get<std::string>();
    if (contains(expected, "\u2047")) continue;  // how sentencepiece writes what it does not know
    EXPECT_EQ(valid_utf8(tokenizer->decode(plain)), expected) << one["text"];
  }
}

TEST_P(SmallTokenizer, AStreamIsTheWholeAndNeverSplitsACharacter) {
  StreamDecoder stream(tokenizer, {.at_start = true});
  for (const json& one : cases) {
    const auto plain = one["plain"].get<Tokens>();
    std::string all;
    for (const Token token : plain) {
      const std::string part = stream.push(token);
      EXPECT_EQ(valid_utf8(part), part);
      all += part;
    }
    all += stream.finish();
    EXPECT_EQ(all, valid_utf8(tokenizer->decode(plain)));
  }
}

TEST_P(SmallTokenizer, ServesTwoThreads) {
  const auto work = [&](bool& same) {
    same = true;
    for (const json& one : cases)
      same = same && tokenizer->encode(one["text"].get<std::string>(), {.parse_special = true}) ==
                         one["ids"].get<Tokens>();
  };
  bool first = false, second = false;
  std::thread other([&] { work(second); });
  work(first);
  other.join();
  EXPECT_TRUE(first && second);
}

TEST_P(SmallTokenizer, UserTextNeverBecomesAControlToken) {
  for (Token token = 0; token < tokenizer->vocab_size(); ++token) {
    if (!tokenizer->is_control(token)) continue;
    const std::string name = tokenizer->bytes_of(token, {.special = true});
    EXPECT_EQ(tokenizer->find(name), token);
    EXPECT_EQ(tokenizer->bytes_of(token), "");
    if (name == "<unk>" || name == "[UNK]") continue;  // what any text may become
    for (const Token got : tokenizer->encode(name, {.add_special = false})) EXPECT_NE(got, token);
  }
}

TEST(PreTokenizers, CutAsTheirPatternsDo) {
  const json splits = json::parse(contents(folder() + "/splits.json"));
  EXPECT_GE(splits.size(), 12u);
  for (const auto& [name, texts] : splits.items()) {
    PreTokenizer cut;
    for (const auto& pattern : pre_tokenizer(name).patterns)
      cut.add(PreTokenizer::Split{.pattern = pattern});
    for (const json& one : texts) {
      const auto words = one.get<std::vector<std::string>>();
      std::string text;
      for (const std::string& word : words) text += word;
      std::vector<std::string> got;
      cut.split(text, true, [&](std::string_view word) { got.emplace_back(word); });
      EXPECT_EQ(got, words) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, SmallTokenizer, ::testing::ValuesIn(names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tensora::llm
