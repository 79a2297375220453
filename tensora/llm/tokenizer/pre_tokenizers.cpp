#include "tensora/llm/tokenizer/pre_tokenizers.h"

#include <algorithm>
#include <memory>
#include <mutex>

#include "tensora/base/check.h"
#include "tensora/llm/tokenizer/tokenizer.h"

namespace tensora::llm {
namespace {

// A row of the table: all names of one way to cut text.
struct Description {
  std::vector<std::string> names;
  std::vector<std::string> patterns;
  NamedPreTokenizer::Habits habits = {};
  mutable std::unique_ptr<const NamedPreTokenizer> made = nullptr;
};

// Parts that several patterns share.
constexpr std::string_view kWhite = R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kEndings = R"((?i:'s|'t|'re|'ve|'m|'ll|'d))";
constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kWithoutCommas = " ?[^(\\s|.,!?…。，、।۔،)]+";

// Llama 3 and those after it: numbers of up to three digits, or single ones.
std::string modern(std::string_view numbers) {
  return concat(kEndings, R"(|[^\r\n\p{L}\p{N}]?\p{L}+|)", numbers, R"(| ?[^\s\p{L}\p{N}]+[\r\n]*)",
                kWhite);
}

// A word has capitals only at its beginning.
std::string by_case(std::string_view ending, std::string_view numbers) {
  constexpr std::string_view before = R"([^\r\n\p{L}\p{N}]?)";
  constexpr std::string_view upper = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])";
  constexpr std::string_view lower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])";
  return concat(before, upper, "*", lower, "+", ending, "|", before, upper, "+", lower, "*", ending,
                "|", numbers, R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*)", kWhite);
}

std::vector<Description> make_table() {
  const std::string gpt2(kGpt2), commas(kWithoutCommas);
  const std::string three = R"(\p{N}{1,3})", single = R"(\p{N})";
  const std::string cased_letters =
      "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-"
      "ὅὈ-Ὅὐ-ὗὙὛὝ"
      "Ὗ-\u1F7Dᾀ-ᾴᾶ-ᾼ\u1FBEῂ-ῄῆ-ῌῐ-\u1FD3ῖ-\u1FDBῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212A-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-"
      "ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿ"
      "ﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+";
  const std::string east = "[一-龥\u0800-一가-\uD7FF]+";
  const std::string v3 = concat(
      R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)",
      R"(| ?[\p{P}\p{S}]+[\r\n]*)", kWhite);
  std::vector<Description> table;
  const auto add = [&](Description row) { table.push_back(std::move(row)); };
  add({{"default"}, {R"([\p{P}\$\+<=>\^~\|]+)", gpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"}});
  add({{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"},
       {modern(three)},
       {.adds_bos = true, .ignores_merges = true}});
  add({{"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"}, {modern(three)}});
  add({{"qwen2", "deepseek-r1-qwen", "stablelm2", "grok-2", "hunyuan", "megrez", "kormo",
        "bailingmoe", "bailingmoe2", "llada-moe"},
       {modern(single)}});
  add({{"qwen35"},
       {concat(kEndings, R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})",
               R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)", kWhite)}});
  add({{"gpt-2", "phi-2", "mpt", "olmo", "jais", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de",
        "gigachat", "a.x-4.0", "mellum", "exaone4", "trillion", "granite-docling"},
       {gpt2}});
  add({{"roberta-bpe", "jina-v1-en", "jina-v2-code"}, {gpt2}, {.adds_sep = true}});
  add({{"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b"},
       {single, gpt2}});
  add({{"falcon"}, {R"([\p{P}\$\+<=>\^~\|`]+)", gpt2, "[0-9][0-9][0-9]"}});
  add({{"deepseek-llm"},
       {R"([\r\n])", cased_letters, "\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+", R"(\s+$)", east,
        R"(\p{N}+)"}});
  add({{"deepseek-coder"}, {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", east, single}});
  add({{"deepseek-v3", "hunyuan-dense"}, {three, "[一-龥\u3040-ゟ゠-ヿ]+", v3}});
  add({{"tekken"}, {by_case("", single)}, {.adds_bos = true, .ignores_merges = true}});
  add({{"gpt-4o", "llama4", "kanana2", "minimax-m2"}, {by_case(concat(kEndings, "?"), three)}});
  add({{"seed-coder"},
       {concat(kEndings, R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+)", kWhite)}});
  add({{"poro-chat", "bloom", "gpt3-finnish"}, {commas}});
  add({{"viking"}, {commas, single}});
  add({{"gemma4"}, {R"([^\n]+|\n+)"}, {.raw_spaces = true}});
  return table;
}

const std::vector<Description>& table() {
  static const std::vector<Description> rows = make_table();
  return rows;
}

}  // namespace

std::vector<std::string> pre_tokenizer_names() {
  std::vector<std::string> out;
  for (const Description& row : table()) out.insert(out.end(), row.names.begin(), row.names.end());
  return out;
}

const NamedPreTokenizer& pre_tokenizer(std::string_view name) {
  for (const Description& row : table()) {
    if (std::find(row.names.begin(), row.names.end(), name) == row.names.end()) continue;
    static std::mutex lock;
    const std::lock_guard guard(lock);
    if (!row.made) {
      auto made = std::make_unique<NamedPreTokenizer>();
      made->expressions = row.patterns;
      for (const std::string& pattern : row.patterns)
        made->patterns.push_back(std::make_shared<const Pattern>(pattern));
      made->habits = row.habits;
      row.made = std::move(made);
    }
    return *row.made;
  }
  std::string known;
  for (const std::string& one : pre_tokenizer_names()) known += (known.empty() ? "" : ", ") + one;
  fail("the pre-tokenizer '", name, "' is not known; known are ", known);
}

std::string pre_tokenizer_with(const std::vector<std::string>& expressions, bool ignores_merges) {
  std::string found;
  for (const Description& row : table()) {
    if (row.patterns != expressions || row.habits.raw_spaces) continue;
    if (row.habits.ignores_merges == ignores_merges) return row.names[0];
    if (found.empty()) found = row.names[0];
  }
  return found;
}

}  // namespace tensora::llm
