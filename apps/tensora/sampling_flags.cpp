#include "sampling_flags.h"

#include <charconv>

#include "commands.h"
#include "files.h"

namespace tensora::cli {

struct SamplingFlags::Given {
  llm::SamplingOptions options;
  std::string seed;
  std::vector<std::string> bias;
  std::string grammar_file, schema_file;
};

namespace {

// "15043=-1.5" or "15043=-inf"
std::pair<int32_t, float> bias_of(const std::string& text) {
  const size_t equals = text.find('=');
  try {
    size_t end = 0;
    const int token = std::stoi(text.substr(0, equals), &end);
    if (equals == text.npos || end != equals) throw std::invalid_argument("");
    const float value = std::stof(text.substr(equals + 1), &end);
    if (end + equals + 1 != text.size()) throw std::invalid_argument("");
    return {token, value};
  } catch (const std::logic_error&) {
    throw UsageError("--logit-bias: expected TOKEN=NUMBER, got '" + text + "'");
  }
}

// None: drawn anew for each answer.
std::optional<uint64_t> seed_of(const std::string& text) {
  if (text.empty() || text == "-1") return std::nullopt;
  uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc() || end != text.data() + text.size())
    throw UsageError("--seed: expected -1 (a new seed) or a number from 0 to 2^64 - 1, got '" +
                     text + "'");
  return seed;
}

}  // namespace

SamplingFlags::SamplingFlags(CLI::App& app) : given_(std::make_shared<Given>()) {
  llm::SamplingOptions& o = given_->options;
  const std::string group = "Sampling";
  const auto add = [&](const char* flag, auto& member, const char* help) {
    return app.add_option(flag, member, help)->capture_default_str()->group(group);
  };
  add("--temp,--temperature", o.temperature,
      "Temperature; 0: greedy, always the most probable token");
  add("--top-k", o.top_k, "Keep the K most probable tokens; 0: all");
  add("--top-p", o.top_p,
      "Nucleus sampling: keep the most probable tokens up to cumulative probability P. 1: off");
  add("--min-p", o.min_p, "Drop tokens with less than P times the probability of the best; 0: off");
  add("--typical", o.typical_p,
      "Locally typical sampling: keep tokens up to cumulative probability P. 1: off");
  add("--top-n-sigma", o.top_n_sigma,
      "Keep logits within N standard deviations of the best; -1: off");
  add("--repeat-penalty", o.repeat_penalty, "Divide the logits of recent tokens; 1: off");
  add("--repeat-last-n", o.repeat_last_n, "Number of recent tokens that are penalized; -1: all");
  add("--presence-penalty", o.presence_penalty, "Subtract once from tokens that occurred");
  add("--frequency-penalty", o.frequency_penalty, "Subtract for each occurrence");
  add("--dry-multiplier", o.dry_multiplier, "Punish repeated sequences; 0: off");
  add("--dry-base", o.dry_base, "Growth of that penalty with the length");
  add("--dry-allowed-length", o.dry_allowed_length, "Repetitions below this length are free");
  add("--dry-last-n", o.dry_last_n, "Number of recent tokens that DRY looks at; -1: all");
  add("--xtc-probability", o.xtc_probability, "Probability of excluding the top choices; 0: off");
  add("--xtc-threshold", o.xtc_threshold, "From which probability on a token is a top choice");
  add("--mirostat", o.mirostat, "Mirostat version: 1 or 2; 0: off");
  add("--mirostat-tau", o.mirostat_tau, "Mirostat target entropy (tau), in bits");
  add("--mirostat-eta", o.mirostat_eta, "Mirostat learning rate (eta)");
  app.add_option("-s,--seed", given_->seed,
                 "Random seed, which repeats a run. Default -1: a new seed each time")
      ->type_name("INT")
      ->group(group);
  app.add_option("--logit-bias", given_->bias, "Add to a token's logit; -inf forbids it")
      ->type_name("TOKEN=NUMBER")
      ->allow_extra_args(false)
      ->group(group);
  auto* grammar =
      app.add_option("--grammar", o.grammar, "The answer must fit this GBNF grammar")->group(group);
  app.add_option("--grammar-file", given_->grammar_file, "The same from a file")
      ->excludes(grammar)
      ->group(group);
  auto* schema =
      app.add_option("--json-schema", o.json_schema, "The answer must fit this JSON schema")
          ->group(group);
  app.add_option("--json-schema-file", given_->schema_file, "The same from a file")
      ->excludes(schema)
      ->group(group);
}

bool SamplingFlags::asks_for_random_seed() const { return given_->seed == "-1"; }

llm::SamplingOptions SamplingFlags::options() const {
  llm::SamplingOptions options = given_->options;
  options.seed = seed_of(given_->seed);
  for (const std::string& text : given_->bias) options.logit_bias.push_back(bias_of(text));
  if (!given_->grammar_file.empty()) options.grammar = read_file(given_->grammar_file);
  if (!given_->schema_file.empty()) options.json_schema = read_file(given_->schema_file);
  as_usage([&] { options.validate(); });  // before a model is loaded for nothing
  return options;
}

}  // namespace tensora::cli
