#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "../helpers.h"
#include "tensora/base/utf8.h"
#include "tensora/llm/metadata.h"
#include "tensora/llm/tokenizer/bpe_tokenizer.h"
#include "tensora/llm/tokenizer/hugging_face_classes.h"
#include "tensora/llm/tokenizer/normalizer.h"
#include "tensora/llm/tokenizer/pattern.h"
#include "tensora/llm/tokenizer/stream_decoder.h"
#include "tensora/llm/tokenizer/tokenizer_sources.h"
#include "tensora/llm/tokenizer/unicode_forms.h"
#include "tensora/llm/tokenizer/word_scanner.h"

namespace tensora::llm {
namespace {

using testing::contains;
using testing::error_of;
using Tokens = std::vector<Token>;

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string sample(const std::string& name) {
  return contents(TENSORA_TESTS "/llm/tokenizers/" + name);
}

/// A sentencepiece vocabulary as GGUF files have it: bytes, and a few pieces.
Metadata small_metadata() {
  std::vector<std::string> texts = {"<unk>", "<s>", "</s>"};
  std::vector<int64_t> kinds = {2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    texts.emplace_back(name);
    kinds.push_back(6);
  }
  for (const char* text : {"▁", "a", "b", "▁a", "ab", "▁ab", "<tool>"}) {
    texts.emplace_back(text);
    kinds.push_back(1);
  }
  kinds.back() = 4;
  std::vector<double> scores(texts.size());
  for (size_t i = 259; i < scores.size(); ++i) scores[i] = -double(i);
  Metadata out;
  out.set("tokenizer.ggml.model", std::string("llama"));
  out.set("tokenizer.ggml.tokens", texts);
  out.set("tokenizer.ggml.scores", scores);
  out.set("tokenizer.ggml.token_type", kinds);
  out.set("tokenizer.ggml.bos_token_id", 1);
  out.set("tokenizer.ggml.eos_token_id", 2);
  out.set("tokenizer.ggml.unknown_token_id", 0);
  return out;
}

TEST(GgufTokenizer, SentencePieces) {
  const auto tokenizer = tokenizer_from(small_metadata());
  EXPECT_EQ(tokenizer->encode("ab"), (Tokens{1, 264}));
  EXPECT_EQ(tokenizer->encode("ab", {.add_special = false}), (Tokens{264}));
  // A blank is put in front again after a token that was cut out.
  EXPECT_EQ(tokenizer->encode("a<tool>a</s>", {.add_special = false}),
            (Tokens{262, 265, 262, 3 + '<', 3 + '/', 3 + 's', 3 + '>'}));
  EXPECT_EQ(tokenizer->encode("a</s>a", {.add_special = false, .parse_special = true}),
            (Tokens{262, 2, 262}));
  EXPECT_EQ(tokenizer->encode("é", {.add_special = false}), (Tokens{259, 3 + 0xC3, 3 + 0xA9}));
  EXPECT_EQ(tokenizer->decode(Tokens{1, 264, 262, 3 + 0xC3, 3 + 0xA9, 2}), "ab aé");
  EXPECT_EQ(tokenizer->decode(Tokens{1, 264}, {.special = true}), "<s> ab");
  EXPECT_EQ(tokenizer->bytes_of(262), " a");
  EXPECT_EQ(tokenizer->bytes_of(2), "");
  EXPECT_EQ(tokenizer->bytes_of(2, {.special = true}), "</s>");
  EXPECT_EQ(tokenizer->find(" a"), 262);
  EXPECT_EQ(tokenizer->find("</s>"), 2);
  EXPECT_EQ(tokenizer->find("nothing"), std::nullopt);
  EXPECT_EQ(tokenizer->end_of_generation(), (Tokens{2}));
  EXPECT_TRUE(tokenizer->is_end_of_generation(2) && !tokenizer->is_end_of_generation(1));
  EXPECT_TRUE(tokenizer->adds_bos() && tokenizer->is_control(1) && !tokenizer->is_control(265));
  EXPECT_TRUE(contains(error_of([&] { tokenizer->decode(Tokens{266}); }), "in [0, 266), got 266"));
  EXPECT_TRUE(contains(error_of([&] { tokenizer->bytes_of(-1); }), "got -1"));
}

TEST(GgufTokenizer, Mistakes) {
  const auto with = [](const char* name, auto value) {
    Metadata metadata = small_metadata();
    metadata.set(std::string("tokenizer.ggml.") + name, value);
    return error_of([&] { tokenizer_from(metadata); });
  };
  EXPECT_TRUE(contains(error_of([] { tokenizer_from(Metadata()); }), "has no tokenizer"));
  EXPECT_TRUE(contains(with("model", std::string("rwkv")), "'rwkv' is not supported; expected"));
  EXPECT_TRUE(contains(with("scores", std::vector<double>{1, 2}), "each of the 266 tokens, got 2"));
  EXPECT_TRUE(contains(with("token_type", std::vector<int64_t>(266, 9)), "expected 0 to 6, got 9"));
  EXPECT_TRUE(
      contains(with("token_type", std::vector<int64_t>(266, 6)), "must be written as <0x00>"));
  EXPECT_TRUE(contains(with("token_type", std::string("x")), "token_type"));
  EXPECT_TRUE(contains(with("bos_token_id", 266), "266 is not a token; there are 266"));
  EXPECT_TRUE(contains(with("eos_token_id", -7), "-7 is not a token"));
  EXPECT_TRUE(contains(with("scores", std::vector<double>(266, NAN)), "must be finite"));
  EXPECT_TRUE(contains(with("tokens", std::vector<std::string>{}), "empty"));
  EXPECT_TRUE(contains(with("precompiled_charsmap", std::vector<int64_t>{1, 2}), "too short"));
  EXPECT_TRUE(contains(with("precompiled_charsmap", std::vector<int64_t>{255, 255, 255, 127, 0}),
                       "the character map's trie"));
  EXPECT_TRUE(contains(error_of([] { tokenizer_from(small_metadata(), {.pre = "gpt-2"}); }),
                       "for gpt2 vocabularies only"));
}

TEST(GgufTokenizer, BytePairsNeedAKnownPreTokenizer) {
  Metadata metadata;
  metadata.set("tokenizer.ggml.model", std::string("gpt2"));
  metadata.set("tokenizer.ggml.tokens",
               std::vector<std::string>{"a", "b", "ab", "Ġ", "<|im_end|>"});
  metadata.set("tokenizer.ggml.merges", std::vector<std::string>{"a b"});
  metadata.set("tokenizer.ggml.token_type", std::vector<int64_t>{1, 1, 1, 1, 3});
  const auto guessed = tokenizer_from(metadata);
  EXPECT_TRUE(contains(guessed->description(), "names no pre-tokenizer: default is a guess"));
  EXPECT_EQ(guessed->encode("ab b"), (Tokens{2, 3, 1}));
  EXPECT_EQ(guessed->end_of_generation(), (Tokens{4}));
  EXPECT_TRUE(contains(tokenizer_from(metadata, {.pre = "qwen2"})->description(), "qwen2"));
  metadata.set("tokenizer.ggml.pre", std::string("nobody-knows"));
  const std::string error = error_of([&] { tokenizer_from(metadata); });
  EXPECT_TRUE(contains(error, "'nobody-knows' is not known; known are default, llama-bpe"));
  metadata.set("tokenizer.ggml.pre", std::string("gpt-2"));
  metadata.set("tokenizer.ggml.merges", std::vector<std::string>{"ab"});
  EXPECT_TRUE(contains(error_of([&] { tokenizer_from(metadata); }), "expected two texts"));
}

TEST(Pattern, RefusesWhatItCannotMatchInLinearTime) {
  const auto refusal = [](const char* text) { return error_of([&] { Pattern pattern(text); }); };
  EXPECT_EQ(refusal(R"(a(?:b|c)*d{2,3}[^x-z\]]+?(?!\S)|\p{Lu}\P{N}$)"), "");
  for (const char* bad :
       {"(", ")", "[a", "a**", "(?<=a)b", R"(\1)", R"(\bword)", "^a", "(?!ab)", "*", R"(\p{Greek})",
        "a{5,2}", "a{2000}", R"(\x{110000})", "[b-a]", "[a[b]]", "a++a", "\xFF", R"(\)"})
    EXPECT_TRUE(contains(refusal(bad), "the pattern '")) << bad;
  EXPECT_TRUE(
      contains(refusal("((((((((((a{9}){9}){9}){9}){9}){9}){9}){9}){9}){9})"), "too large"));
  EXPECT_TRUE(contains(error_of([] {
                         Pattern p(
                             "(a|b)*a(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)"
                             "(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)");
                       }),
                       "too large"));
}

TEST(Pattern, ReadsFarAheadInVainOnlyOnce) {
  const Pattern pattern("a*b|a");
  const std::string text(100000, 'a');
  WordScanner scanner(text, pattern);
  size_t words = 0;
  while (!scanner.next().empty()) ++words;
  EXPECT_EQ(words, text.size());
}

TEST(StreamDecoder, HoldsBackWhatIsNotACharacterYet) {
  const auto tokenizer = tokenizer_from(small_metadata());
  const auto byte = [](int value) { return static_cast<Token>(3 + value); };
  StreamDecoder stream(tokenizer);
  EXPECT_EQ(stream.push(262), " a");  // what was written before it is not known
  for (const int value : {0xF0, 0x9F, 0x9A}) EXPECT_EQ(stream.push(byte(value)), "");
  EXPECT_EQ(stream.push(byte(0x80)), "🚀");
  EXPECT_EQ(stream.push(byte(0xE2)), "");
  EXPECT_EQ(stream.push(261), "\uFFFDb");  // it never becomes one
  EXPECT_EQ(stream.push(byte(0xC3)), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_EQ(stream.finish(), "");
  EXPECT_NE(error_of([] { StreamDecoder none(nullptr); }), "");
}

TEST(UnicodeForms, OfKnownTexts) {
  EXPECT_EQ(to_form("e\u0301 \u1100\u1161\u11A8 \u212B", UnicodeForm::nfc), "\u00E9 \uAC01 \u00C5");
  EXPECT_EQ(to_form("\u00E9 \uAC01", UnicodeForm::nfd), "e\u0301 \u1100\u1161\u11A8");
  EXPECT_EQ(to_form("a\u0315\u0300\u05AE b", UnicodeForm::nfc), "\u00E0\u05AE\u0315 b");
  EXPECT_EQ(to_form("\uFB01 \u00B2 \u3000", UnicodeForm::nfkc), "fi 2  ");
  EXPECT_EQ(to_form("\xFF e\u0301", UnicodeForm::nfc), "\xFF \u00E9");
  EXPECT_EQ(to_lower("ÄÖ ΑΣ ЖИ \u0130 Ⅷ"), "äö ασ жи i\u0307 ⅷ");
}

// What Hugging Face's tokenizers (0.23) make of the same texts.
TEST(Normalizers, MarksAndUnassigned) {
  const auto marks = normalizing::strip_accents();
  EXPECT_EQ(marks("e\u0301\u0939\u093F\u0928\u094D\u0926\u0940\u20DDx"),
            "e\u0939\u0928\u0926x");                 // Mn, Mc and Me go
  EXPECT_EQ(marks("\u00E9\u0378"), "\u00E9\u0378");  // nothing is decomposed
  const auto cleaned =
      normalizing::bert({.chinese = false, .strip_accents = false, .lowercase = false});
  EXPECT_EQ(cleaned("a\u0378\U000E0080b"), "a\u0378\U000E0080b");  // not assigned: kept
  EXPECT_EQ(cleaned("a\uE000\u200B\uFEFF\x01\uFFFD"
                    "b"),
            "ab");                                                 // private, format, control
  EXPECT_EQ(cleaned("a\u08E2\U00013430b"), "a\u08E2\U00013430b");  // newer format characters
  EXPECT_EQ(cleaned("a\tb\u2028c\u00A0d\x0B"), "a b c d");
  const auto plain = normalizing::bert({.clean = false, .chinese = false, .lowercase = false});
  EXPECT_EQ(plain("\u00E9\u0939\u093F\u094D"), "e\u0939\u093F");  // Mn goes, Mc stays
}

// All code points, by their number and their sum: what tokenizers 0.23 takes away or cuts at.
TEST(Normalizers, ClassesAreThoseOfHuggingFace) {
  struct Sum {
    int64_t count = 0, sum = 0;
    bool operator==(const Sum&) const = default;
  };
  const Pattern punctuation(bert_punctuation());
  Pattern::Memory memory;
  Sum stripped, accents, control, signs;
  const auto add = [](Sum& sum, uint32_t code, bool in) {
    if (in) ++sum.count, sum.sum += code;
  };
  for (uint32_t code = 0; code < 0x110000; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    add(stripped, code, is_stripped_accent(code));
    add(accents, code, is_bert_accent(code));
    // Three of them become blanks before.
    add(control, code, is_bert_control(code) && code != '\t' && code != '\n' && code != '\r');
    std::string text;
    append_utf8(text, code);
    add(signs, code, punctuation.match(text, 0, memory) == text.size());
  }
  EXPECT_EQ(stripped, (Sum{2097, 286880651}));
  EXPECT_EQ(accents, (Sum{1567, 262554314}));
  EXPECT_EQ(control, (Sum{137681, 137913084793}));
  EXPECT_EQ(signs, (Sum{726, 20675981}));
}

// A file may call the end of a turn an ordinary added token, as Phi-3 does with </s>: a user who
// writes it must not end the text.
TEST(AddedTokens, EndsAreControlTokens) {
  nlohmann::json json = nlohmann::json::parse(sample("llama2.json"));
  for (auto& token : json["added_tokens"])
    if (token["content"] == "</s>") token["special"] = false, token["rstrip"] = true;
  const TokenizerPtr tokenizer = tokenizer_from_json(json.dump());
  const Token end = *tokenizer->find("</s>");
  EXPECT_TRUE(tokenizer->is_control(end));
  EXPECT_TRUE(tokenizer->is_end_of_generation(end));
  for (const Token token : tokenizer->encode("a </s> b", {.add_special = false}))
    EXPECT_NE(token, end);
  const auto parsed = tokenizer->encode("a </s> b", {.add_special = false, .parse_special = true});
  EXPECT_EQ(std::count(parsed.begin(), parsed.end(), end), 1);
  Metadata metadata = small_metadata();
  auto kinds = metadata.get<std::vector<int64_t>>("tokenizer.ggml.token_type");
  kinds[2] = 4;  // user-defined
  metadata.set("tokenizer.ggml.token_type", kinds);
  for (const Token token : tokenizer_from(metadata)->encode("a</s>a")) EXPECT_NE(token, 2);
}

TEST(TrainedTokenizer, IsReadAsAnyOther) {
  const auto trained = BpeTokenizer::train("the cat sat on the mat. It's the end, isn't it? 1234\n",
                                           {.vocab_size = 300});
  const auto read = tokenizer_from_json(trained.to_json());
  EXPECT_EQ(read->vocab_size(), trained.vocab_size());
  EXPECT_EQ(read->eos(), trained.find_special("<|endoftext|>"));
  for (const char* text : {"the cat", " the  mat's\n\n<|endoftext|>x", "größer \xFF\xFE", ""}) {
    EXPECT_EQ(read->encode(text, {.parse_special = true}), trained.encode(text));
    EXPECT_EQ(read->decode(trained.encode(text), {.special = true}), text);
  }
}

// Thousands of damaged files: each is refused with an Error or gives a tokenizer that works.
TEST(DamagedTokenizer, NeverCrashes) {
  std::mt19937 random(7);
  const auto attack = [&](const std::string& file, int count, const auto& open) {
    int opened = 0;
    for (int i = 0; i < count; ++i) {
      std::string bytes = file;
      const auto place = [&] { return random() % bytes.size(); };
      for (uint32_t changes = 1 + random() % 4; changes > 0; --changes) {
        switch (random() % 5) {
          case 0:
            bytes[place()] = static_cast<char>(random());
            break;
          case 1:
            bytes[place()] = "0123456789\"{}[]:,\\-"[random() % 19];
            break;
          case 2:
            bytes.resize(place() + 1);
            break;
          case 3:
            bytes.erase(place(), 1 + random() % 20);
            break;
          case 4:
            bytes.insert(place(), bytes.substr(place(), 1 + random() % 20));
            break;
        }
        if (bytes.empty()) bytes = "x";
      }
      try {
        const TokenizerPtr tokenizer = open(bytes);
        const auto tokens =
            tokenizer->encode("Hello <x> wörld 12345 \n\n 東京", {.parse_special = true});
        for (const Token token : tokens) EXPECT_TRUE(token >= 0 && token < tokenizer->vocab_size());
        tokenizer->decode(tokens);
        ++opened;
      } catch (const InternalError& error) {
        ADD_FAILURE() << error.what();
      } catch (const Error&) {
      }
    }
    return opened;
  };
  for (const char* name : {"gpt2.json", "llama2.json", "unigram.json", "bert.json"})
    attack(sample(name), 400, [](const std::string& text) { return tokenizer_from_json(text); });
  for (const char* name : {"spm_bpe.model", "spm_unigram.model"})
    EXPECT_GT(attack(sample(name), 1000,
                     [](const std::string& text) { return tokenizer_from_sentencepiece(text); }),
              0);
  attack(sample("tiktoken.tiktoken"), 1000,
         [](const std::string& text) { return tokenizer_from_tiktoken(text, {.pre = "gpt-2"}); });
}

TEST(TokenizerFile, Mistakes) {
  const auto refusal = [](std::string_view json) {
    return error_of([&] { tokenizer_from_json(json); });
  };
  EXPECT_TRUE(contains(refusal(std::string(100, '[')), "nested more than 64"));
  EXPECT_TRUE(contains(refusal("{}"), "'model' is missing"));
  EXPECT_TRUE(contains(refusal(R"({"model":{"type":"WordLevel"}})"), "got 'WordLevel'"));
  EXPECT_TRUE(contains(refusal(R"({"model":{"type":"BPE","vocab":{"a":9999999},"merges":[]}})"),
                       "the id 9999999"));
  EXPECT_TRUE(contains(refusal(R"({"model":{"type":"BPE","vocab":{"a":4e63},"merges":[]}})"),
                       "a token's id must be an integer, got number"));
  EXPECT_TRUE(contains(refusal(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["a a"]}})"),
                       "'aa', which is not a token"));
  EXPECT_TRUE(contains(
      refusal(
          R"({"normalizer":{"type":"Rot13"},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})"),
      "the normalizer 'Rot13' is not supported"));
  // A file that makes a text grow and grow.
  const auto with = [](const std::string& step, const char* station, const char* list) {
    std::string steps = step;
    for (int i = 0; i < 40; ++i) steps += "," + step;
    return concat(R"({")", station, R"(":{"type":"Sequence",")", list, R"(":[)", steps,
                  R"(]},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})");
  };
  const std::string grow = R"({"type":"Replace","pattern":{"String":"a"},"content":"aaaa"})";
  const auto bomb = tokenizer_from_json(with(grow, "normalizer", "normalizers"));
  EXPECT_TRUE(contains(error_of([&] { bomb->encode("a"); }), "a hundred times as long"));
  EXPECT_TRUE(contains(refusal(with(grow, "decoder", "decoders")), "too long"));
  EXPECT_TRUE(contains(error_of([] { tokenizer_from_tiktoken("!!! 0\n", {}); }), "line 1"));
  EXPECT_TRUE(
      contains(error_of([] { tokenizer_from_tiktoken("YQ== 0\n", {}); }), "name the pre-tok"));
  EXPECT_TRUE(contains(error_of([] { tokenizer_from_sentencepiece("\n\x7F"); }), "ends too early"));
  EXPECT_TRUE(contains(error_of([] { tokenizer_from_file("/no/such/file"); }), "no such file"));
}

}  // namespace
}  // namespace tensora::llm
