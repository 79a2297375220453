#include "tensora/llm/tokenizer/bpe_tokenizer.h"

#include <filesystem>
#include <fstream>

#include "../helpers.h"
#include "tensora/llm/tokenizer/word_scanner.h"

namespace tensora::llm {
namespace {

using testing::contains;
using testing::error_of;
using Tokens = std::vector<int32_t>;

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> out;
  WordScanner scanner(text);
  for (auto word = scanner.next(); !word.empty(); word = scanner.next()) out.emplace_back(word);
  return out;
}

TEST(WordScanner, SplitsAsGpt2Does) {
  using W = std::vector<std::string>;
  EXPECT_EQ(words("Hello world, it's 2024!"),
            (W{"Hello", " world", ",", " it", "'s", " 2024", "!"}));
  EXPECT_EQ(words("a   b"), (W{"a", "  ", " b"}));
  EXPECT_EQ(words("a \n b \n"), (W{"a", " \n", " b", " \n"}));
  EXPECT_EQ(words("a\n\nb"), (W{"a", "\n", "\n", "b"}));
  EXPECT_EQ(words("we'll We'LL 'tis"), (W{"we", "'ll", " We", "'", "LL", " '", "tis"}));
  EXPECT_EQ(words("größer 東京 ٣½"), (W{"größer", " 東京", " ٣½"}));
  EXPECT_EQ(words("a\u00A0b\u3000"), (W{"a", "\u00A0", "b", "\u3000"}));
  EXPECT_EQ(words("x\xFFy"), (W{"x", "\xFF", "y"}));
  EXPECT_EQ(words(" "), (W{" "}));
  EXPECT_EQ(words(""), W{});
}

TEST(BpeTokenizer, BytesAlone) {
  const BpeTokenizer bytes = BpeTokenizer::bytes();
  EXPECT_EQ(bytes.vocab_size(), 257);
  EXPECT_EQ(bytes.encode("aé<|endoftext|>"), (Tokens{97, 0xC3, 0xA9, 256}));
  EXPECT_EQ(bytes.encode("<|e", {.special = false}), (Tokens{'<', '|', 'e'}));
  EXPECT_EQ(bytes.encode("<|endoftext|>", {.special = false}).size(), 13u);
  EXPECT_EQ(bytes.decode(Tokens{97, 256, 98}, {.special = false}), "ab");
}

TEST(BpeTokenizer, MergesTheMostFrequentPairFirst) {
  const auto tokenizer =
      BpeTokenizer::train("low low low lower newest newest widest widest", {.vocab_size = 263});
  const auto merge = [&](size_t i) {
    const auto [left, right] = tokenizer.merges()[i];
    return tokenizer.token(left) + "|" + tokenizer.token(right);
  };
  // What Hugging Face's trainer learns, ties included.
  EXPECT_EQ(merge(0), "e|s");
  EXPECT_EQ(merge(1), "l|o");
  EXPECT_EQ(merge(2), "es|t");
  EXPECT_EQ(merge(3), "lo|w");
  EXPECT_EQ(tokenizer.vocab_size(), 263);
}

TEST(BpeTokenizer, RoundTripsOfAnyBytes) {
  std::string corpus;
  for (int i = 0; i < 200; ++i) corpus += concat("the cat ", i, " sat on the mat\n");
  const auto tokenizer = BpeTokenizer::train(corpus, {.vocab_size = 400});
  EXPECT_LT(tokenizer.encode(corpus).size(), corpus.size() / 2);
  uint32_t state = 1;
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (int i = 0; i < round; ++i) {
      state = state * 1664525u + 1013904223u;
      text += state >> 31 ? static_cast<char>(state >> 16) : corpus[state >> 20];
    }
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

TEST(BpeTokenizer, LongWordsMergeAsShortOnesDo) {
  const auto tokenizer = BpeTokenizer::train("aaaa aaaa aaaa aaab", {.vocab_size = 262});
  const std::string word(31, 'a');
  // Short words scan, long ones use a heap; a long word starts with the tokens of a short one.
  const Tokens some = tokenizer.encode(word.substr(0, 28)),
               more = tokenizer.encode(std::string(400, 'a'));
  EXPECT_EQ(some[0], more[0]);
  EXPECT_EQ(tokenizer.decode(more), std::string(400, 'a'));
  EXPECT_EQ(tokenizer.encode(std::string(1 << 20, 'a')).size(), more.size() * (1 << 20) / 400);
}

TEST(BpeTokenizer, SpecialTokens) {
  const auto tokenizer =
      BpeTokenizer::train("a<|x|>b", {.vocab_size = 300, .special = {"<|x|>", "<|xy|>", "<|x|>z"}});
  EXPECT_EQ(tokenizer.encode("<|x|>z<|x|>"),
            (Tokens{*tokenizer.find_special("<|x|>z"), *tokenizer.find_special("<|x|>")}));
  EXPECT_FALSE(tokenizer.find_special("<|none|>"));
  EXPECT_TRUE(contains(error_of([] { BpeTokenizer::bytes({"a", "a"}); }), "there twice"));
  EXPECT_TRUE(contains(error_of([] { BpeTokenizer::bytes({""}); }), "must not be empty"));
}

TEST(BpeTokenizer, JsonKeepsEverything) {
  const auto tokenizer =
      BpeTokenizer::train("the cat sat on the mat \xE9 \n the end", {.vocab_size = 280});
  const auto back = BpeTokenizer::from_json(tokenizer.to_json());
  EXPECT_EQ(back.merges(), tokenizer.merges());
  EXPECT_EQ(back.vocab_size(), tokenizer.vocab_size());
  EXPECT_EQ(back.to_json(), tokenizer.to_json());
  EXPECT_EQ(back.encode("the mat<|endoftext|>\xE9"), tokenizer.encode("the mat<|endoftext|>\xE9"));
}

TEST(BpeTokenizer, BadJsonIsRefused) {
  const std::string good = BpeTokenizer::train("aa aa aa", {.vocab_size = 258}).to_json();
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    text.replace(at, from.size(), to);
    return error_of([&] { BpeTokenizer::from_json(text); });
  };
  EXPECT_TRUE(contains(with("\"BPE\"", "\"Unigram\""), "expected a BPE model, got Unigram"));
  EXPECT_TRUE(contains(with("\"normalizer\": null", "\"normalizer\": {\"type\": \"NFC\"}"),
                       "a normalizer is not supported"));
  EXPECT_TRUE(contains(with("\"use_regex\": true", "\"use_regex\": false"), "use_regex"));
  EXPECT_TRUE(contains(with("\"a\": 97", "\"a\": 96"), "two tokens have the id 96"));
  EXPECT_TRUE(contains(with("\"a\": 97", "\"a\": 4000000000"), "is not in [0,"));
  EXPECT_TRUE(contains(with("\"a\": 97", "\"a\": \"x\""), "tokenizer.json"));
  EXPECT_TRUE(contains(with("\"vocab\"", "\"vocabulary\""), "'vocab' is missing"));
  for (size_t cut = 0; cut < good.size(); cut += 97)
    EXPECT_NE(error_of([&] { BpeTokenizer::from_json(good.substr(0, cut)); }), "");
  EXPECT_NE(error_of([&] { BpeTokenizer::from_json(std::string(1 << 20, '[')); }), "");
  EXPECT_TRUE(contains(error_of([] { BpeTokenizer::load("/no/such/file"); }), "cannot be opened"));
}

TEST(BpeTokenizer, VocabSizeIsChecked) {
  EXPECT_TRUE(contains(error_of([] { BpeTokenizer::train("x", {.vocab_size = 100}); }),
                       "vocab_size must be between 257"));
  // Nothing to learn: the bytes.
  EXPECT_EQ(BpeTokenizer::train("", {.vocab_size = 1000}).vocab_size(), 257);
  EXPECT_TRUE(contains(error_of([] { BpeTokenizer::bytes().decode(Tokens{300}); }),
                       "must be in [0, 257), got 300"));
}

}  // namespace
}  // namespace tensora::llm
