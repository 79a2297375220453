#include <fstream>
#include <sstream>

#include "../helpers.h"
#include "../real_data.h"
#include "tensora/llm/model_file.h"
#include "tensora/llm/tokenizer/tokenizer.h"

// llama.cpp's vocabulary files: texts, and the tokens that they must become.

namespace tensora::llm {
namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> texts_of(const std::string& path) {
  constexpr std::string_view mark = "\n__ggml_vocab_test__\n";
  std::vector<std::string> out;
  const std::string all = contents(path);
  for (size_t at = 0;;) {
    const size_t end = all.find(mark, at);
    if (end == all.npos) return out;
    out.push_back(all.substr(at, end - at));
    at = end + mark.size();
  }
}

std::vector<std::vector<Token>> tokens_of(const std::string& path) {
  std::vector<std::vector<Token>> out;
  std::istringstream lines(contents(path));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream numbers(line);
    auto& tokens = out.emplace_back();
    for (Token token; numbers >> token;) tokens.push_back(token);
  }
  return out;
}

class VocabularyFile : public ::testing::TestWithParam<const char*> {};

TEST_P(VocabularyFile, GivesEveryExpectedToken) {
  const std::string path = testing::real_data(GetParam());
  if (path.empty()) GTEST_SKIP() << "no vocabulary files; TENSORA_TEST_DATA names their folder";
  const auto tokenizer = tokenizer_from(ModelFile::open(path).metadata());
  const auto texts = texts_of(path + ".inp");
  const auto expected = tokens_of(path + ".out");
  ASSERT_EQ(texts.size(), expected.size());
  EXPECT_GT(texts.size(), 40u);
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto tokens = tokenizer->encode(texts[i], {.add_special = false});
    EXPECT_EQ(tokens, expected[i]) << "'" << texts[i] << "'";
    EXPECT_EQ(tokenizer->decode(tokens), texts[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(All, VocabularyFile,
                         ::testing::Values("vocab-llama-spm.gguf", "vocab-gpt-2.gguf"));

TEST(Tokenizer, OfStories260K) {
  const std::string path = testing::real_data("stories260K.gguf");
  if (path.empty()) GTEST_SKIP() << "no model files; TENSORA_TEST_DATA names their folder";
  const auto tokenizer = tokenizer_from(ModelFile::open(path).metadata());
  EXPECT_EQ(tokenizer->vocab_size(), 512);
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_EQ(tokenizer->encode("")[0], *tokenizer->bos());
  const std::string story = contents(testing::real_data("stories260K.greedy200.txt"));
  const auto tokens = tokenizer->encode(story);
  EXPECT_EQ(tokenizer->decode(tokens), story);
  EXPECT_LT(tokens.size(), story.size());
}

}  // namespace
}  // namespace tensora::llm
