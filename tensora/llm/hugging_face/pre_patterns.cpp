#include "tensora/llm/hugging_face/pre_patterns.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "tensora/base/check.h"

namespace tensora::llm {
namespace {

using Json = nlohmann::json;

// Parts that several patterns share.
constexpr std::string_view kSpaces = R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kEndings = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|)";
constexpr std::string_view kLetters = R"([^\r\n\p{L}\p{N}]?\p{L}+|)";
constexpr std::string_view kOthers = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*)";

struct Cutting {
  std::string_view name;
  std::string pattern;  // of a Split; empty: the one that ByteLevel has itself
  bool single_digits;   // cut out first
};

std::vector<Cutting> cuttings() {
  const auto words = [](std::string_view digits) {
    return concat(kEndings, kLetters, digits, kOthers, kSpaces);
  };
  return {
      {"llama-bpe", words(R"(\p{N}{1,3})"), false},
      {"qwen2", words(R"(\p{N})"), false},
      {"gpt-2", "", false},
      {"smollm", "", true},
      {"tekken",
       concat(R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)",
              R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)",
              R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)", kSpaces),
       false},
      {"gpt-4o",
       concat(R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)",
              R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+)",
              R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3})",
              R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*)", kSpaces),
       false}};
}

// The steps of a pre-tokenizer, whether or not they are a Sequence.
std::vector<Json> steps_of(const Json& tokenizer) {
  const auto found = tokenizer.find("pre_tokenizer");
  if (found == tokenizer.end() || !found->is_object()) return {};
  if (found->value("type", "") != "Sequence") return {*found};
  const auto list = found->find("pretokenizers");
  if (list == found->end() || !list->is_array()) return {};
  return {list->begin(), list->end()};
}

}  // namespace

std::string pre_name(const Json& tokenizer) {
  std::string pattern, problem;
  bool digits = false, bytes = false;
  for (const Json& step : steps_of(tokenizer)) {
    const std::string type = step.is_object() ? step.value("type", "") : "";
    if (type == "Split" && step.contains("pattern") && step["pattern"].is_object() &&
        pattern.empty())
      pattern = step["pattern"].value("Regex", "");
    else if (type == "Digits" && step.value("individual_digits", false))
      digits = true;
    else if (type == "ByteLevel")
      bytes = true;
    else
      problem = type;
  }
  if (bytes && problem.empty())
    for (const Cutting& cutting : cuttings())
      if (cutting.pattern == pattern && cutting.single_digits == digits)
        return std::string(cutting.name);
  fail("tokenizer.json: GGUF has no name that is known here for its way of cutting words ('",
       pattern.empty() ? problem : pattern, "'); --pre NAME sets one");
}

nlohmann::ordered_json pre_tokenizer_json(std::string_view name) {
  using Json = nlohmann::ordered_json;
  for (const Cutting& cutting : cuttings()) {
    if (cutting.name != name && !(name == "llama3" && cutting.name == "llama-bpe")) continue;
    const bool own = cutting.pattern.empty();
    const Json bytes = {{"type", "ByteLevel"},
                        {"add_prefix_space", false},
                        {"trim_offsets", true},
                        {"use_regex", own}};
    Json steps = Json::array();
    if (cutting.single_digits) steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
    if (!own)
      steps.push_back({{"type", "Split"},
                       {"pattern", {{"Regex", cutting.pattern}}},
                       {"behavior", "Isolated"},
                       {"invert", false}});
    steps.push_back(bytes);
    if (steps.size() == 1) return bytes;
    return {{"type", "Sequence"}, {"pretokenizers", steps}};
  }
  fail("tokenizer.ggml.pre '", name, "' cannot be written to a tokenizer.json yet");
}

}  // namespace tensora::llm
