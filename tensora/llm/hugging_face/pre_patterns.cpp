#include "tensora/llm/hugging_face/pre_patterns.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "tensora/base/check.h"
#include "tensora/llm/tokenizer/json_stations.h"
#include "tensora/llm/tokenizer/pre_tokenizers.h"

namespace tensora::llm {
namespace {

using Json = nlohmann::json;

// What a tokenizer.json has steps of their own for.
constexpr const char* kSingleDigit = R"(\p{N})";
const std::string& gpt2_expression() { return pre_tokenizer("gpt-2").expressions[0]; }

}  // namespace

std::vector<Json> steps_of(const Json& part, const char* list) {
  if (part.is_null()) return {};
  if (json_text(part, "type", "") != "Sequence") return {part};
  const Json& steps = json_member(part, list);
  check(steps.is_array(), "tokenizer.json: '", list, "' must be a list");
  return {steps.begin(), steps.end()};
}

std::string pre_name(const Json& tokenizer) {
  std::vector<std::string> expressions;
  std::string problem;
  bool bytes = false;
  for (const Json& step : steps_of(json_part(tokenizer, "pre_tokenizer"), "pretokenizers")) {
    const std::string type = json_text(step, "type", "");
    if (bytes) {
      problem = type + " after ByteLevel";  // it works on letters that stand for bytes
    } else if (type == "Split" && json_text(step, "behavior", "Isolated") == "Isolated") {
      expressions.push_back(json_text(json_part(step, "pattern"), "Regex", ""));
    } else if (type == "Digits" && json_flag(step, "individual_digits", false)) {
      expressions.emplace_back(kSingleDigit);
    } else if (type == "ByteLevel") {
      bytes = true;
      if (json_flag(step, "use_regex", true)) expressions.push_back(gpt2_expression());
    } else {
      problem = type;
    }
  }
  const bool whole_words = json_flag(json_part(tokenizer, "model"), "ignore_merges", false);
  const std::string name =
      bytes && problem.empty() ? pre_tokenizer_with(expressions, whole_words) : "";
  check(!name.empty(),
        "tokenizer.json: GGUF has no name that is known here for its way of cutting words ('",
        expressions.empty() || !problem.empty() ? problem : expressions[0],
        "'); --pre NAME sets one");
  return name;
}

nlohmann::ordered_json pre_tokenizer_json(std::string_view name) {
  using Json = nlohmann::ordered_json;
  const NamedPreTokenizer& named = pre_tokenizer(name);
  check(!named.habits.raw_spaces, "tokenizer.ggml.pre '", name,
        "' cannot be written to a tokenizer.json");
  Json steps = Json::array();
  bool own = false;  // the pattern that ByteLevel has itself
  for (const std::string& expression : named.expressions) {
    own = expression == gpt2_expression() && &expression == &named.expressions.back();
    if (own) break;
    if (expression == kSingleDigit)
      steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
    else
      steps.push_back({{"type", "Split"},
                       {"pattern", {{"Regex", expression}}},
                       {"behavior", "Isolated"},
                       {"invert", false}});
  }
  Json bytes = {{"type", "ByteLevel"},
                {"add_prefix_space", false},
                {"trim_offsets", true},
                {"use_regex", own}};
  if (steps.empty()) return bytes;
  steps.push_back(std::move(bytes));
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

}  // namespace tensora::llm
