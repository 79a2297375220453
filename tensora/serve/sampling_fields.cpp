#include "tensora/serve/sampling_fields.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "tensora/base/check.h"

namespace tensora::serve {
namespace {

constexpr double kMost = 1e6;             // of numbers that have no natural end
constexpr int64_t kMostWindow = 1 << 30;  // tokens that a penalty looks back
constexpr size_t kMostStops = 64, kMostStopBytes = 4096, kMostBiases = 1024;

void take(std::optional<double> given, double& value) {
  if (given) value = *given;
}
void take(std::optional<int64_t> given, int64_t& value) {
  if (given) value = *given;
}

void read_choice(Fields& body, llm::SamplingOptions& sampling, bool is_strict) {
  take(body.number("temperature", 0, is_strict ? 2 : kMost), sampling.temperature);
  take(body.number("top_p", 0, 1), sampling.top_p);
  // vLLM writes "all" as -1.
  if (const auto top_k = body.integer("top_k", -1, kMostWindow))
    sampling.top_k = std::max<int64_t>(0, *top_k);
  take(body.number("min_p", 0, 1), sampling.min_p);
  take(body.number("typical_p", 0, 1), sampling.typical_p);
  take(body.number("top_n_sigma", -1, kMost), sampling.top_n_sigma);
  take(body.number("xtc_probability", 0, 1), sampling.xtc_probability);
  take(body.number("xtc_threshold", 0, 1), sampling.xtc_threshold);
  take(body.integer("mirostat", 0, 2), sampling.mirostat);
  take(body.number("mirostat_tau", 0, kMost), sampling.mirostat_tau);
  take(body.number("mirostat_eta", 0, kMost), sampling.mirostat_eta);
  if (const auto seed = body.integer("seed")) {
    // llama.cpp writes "a fresh one" as -1.
    if (*seed == -1)
      sampling.seed.reset();
    else
      sampling.seed = static_cast<uint64_t>(*seed);
  }
}

void read_penalties(Fields& body, llm::SamplingOptions& sampling, bool is_strict) {
  const double most = is_strict ? 2 : kMost;
  constexpr double kLeast = 1e-3;
  take(body.number("repeat_penalty", kLeast, kMost), sampling.repeat_penalty);
  take(body.number("repetition_penalty", kLeast, kMost), sampling.repeat_penalty);
  take(body.integer("repeat_last_n", -1, kMostWindow), sampling.repeat_last_n);
  take(body.number("presence_penalty", -most, most), sampling.presence_penalty);
  take(body.number("frequency_penalty", -most, most), sampling.frequency_penalty);
  take(body.number("dry_multiplier", 0, kMost), sampling.dry_multiplier);
  take(body.number("dry_base", 1, kMost), sampling.dry_base);
  take(body.integer("dry_allowed_length", 1, kMostWindow), sampling.dry_allowed_length);
  take(body.integer("dry_penalty_last_n", -1, kMostWindow), sampling.dry_last_n);
  const Json* breakers = body.list("dry_sequence_breakers", kMostStops);
  if (!breakers) return;
  sampling.dry_breakers.clear();
  for (size_t i = 0; i < breakers->size(); ++i) {
    const Json& one = (*breakers)[i];
    if (!one.is_string() || one.get_ref<const std::string&>().empty())
      body.fail(concat("dry_sequence_breakers[", i, "]"), "expected a string that is not empty");
    sampling.dry_breakers.push_back(one.get<std::string>());
  }
}

float bias_of(Fields& body, const std::string& path, const Json& value, bool is_strict) {
  if (value.is_boolean() && !value.get<bool>())
    return -std::numeric_limits<float>::infinity();  // llama.cpp's "never"
  if (!value.is_number()) body.fail(path, concat("expected a number, got ", kind_of(value)));
  const double bias = value.get<double>();
  const double most = is_strict ? 100 : kMost;
  if (!(std::abs(bias) <= most))
    body.fail(path, concat("expected a number from ", -most, " to ", most, ", got ", value.dump()));
  // OpenAI: -100 bans a token.
  if (is_strict && bias == -100) return -std::numeric_limits<float>::infinity();
  return static_cast<float>(bias);
}

int32_t token_of(Fields& body, const std::string& path, const std::string& text) {
  int32_t token = -1;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, token);
  if (error != std::errc() || at != end || token < 0)
    body.fail(path, concat("expected the number of a token, got '", text.substr(0, 64), "'"));
  return token;
}

// {"token": bias}, or llama.cpp's [[token, bias], ...].
void read_biases(Fields& body, llm::SamplingOptions& sampling, bool is_strict) {
  const Json* biases = body.find("logit_bias");
  if (!biases) return;
  if (!biases->is_object() && !biases->is_array())
    body.fail("logit_bias", concat("expected an object, got ", kind_of(*biases)));
  if (biases->size() > kMostBiases)
    body.fail("logit_bias",
              concat("expected at most ", kMostBiases, " tokens, got ", biases->size()));
  sampling.logit_bias.clear();
  if (biases->is_object()) {
    for (const auto& [name, value] : biases->items()) {
      const std::string path = concat("logit_bias.", name.substr(0, 64));
      sampling.logit_bias.emplace_back(token_of(body, path, name),
                                       bias_of(body, path, value, is_strict));
    }
    return;
  }
  for (size_t i = 0; i < biases->size(); ++i) {
    const Json& pair = (*biases)[i];
    const std::string path = concat("logit_bias[", i, "]");
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_integer())
      body.fail(path, "expected a pair of a token and a number");
    sampling.logit_bias.emplace_back(token_of(body, path, pair[0].dump()),
                                     bias_of(body, path, pair[1], is_strict));
  }
}

void add_stop(Fields& body, const std::string& path, const Json& stop, llm::Request& request) {
  if (!stop.is_string()) body.fail(path, concat("expected a string, got ", kind_of(stop)));
  const auto& text = stop.get_ref<const std::string&>();
  if (text.empty() || text.size() > kMostStopBytes)
    body.fail(path, concat("expected from 1 to ", kMostStopBytes, " bytes, got ", text.size()));
  request.stop.push_back(text);
}

void read_ends(Fields& body, llm::Request& request) {
  if (const Json* stop = body.find("stop")) {
    request.stop.clear();
    if (stop->is_array()) {
      if (stop->size() > kMostStops)
        body.fail("stop", concat("expected at most ", kMostStops, " strings, got ", stop->size()));
      for (size_t i = 0; i < stop->size(); ++i)
        add_stop(body, concat("stop[", i, "]"), (*stop)[i], request);
    } else if (!stop->is_string()) {
      body.fail("stop", concat("expected a string or a list of strings, got ", kind_of(*stop)));
    } else if (!stop->get_ref<const std::string&>().empty()) {  // clients send "" for none
      add_stop(body, "stop", *stop, request);
    }
  }
  if (const Json* tokens = body.list("stop_token_ids", 1024))
    request.stop_tokens =
        read_tokens(*tokens, "stop_token_ids", std::numeric_limits<int32_t>::max());
  if (const auto ignores = body.boolean("ignore_eos")) request.ignore_end = *ignores;
  if (const auto least = read_token_count(body, "min_tokens", 0)) request.min_tokens = *least;
}

}  // namespace

void read_sampling(Fields& body, llm::Request& request, SamplingRanges ranges) {
  const bool is_strict = ranges == SamplingRanges::openai;
  read_choice(body, request.sampling, is_strict);
  read_penalties(body, request.sampling, is_strict);
  read_biases(body, request.sampling, is_strict);
  if (auto grammar = body.text("grammar")) request.sampling.grammar = std::move(*grammar);
  // vLLM's constraints: an answer without them would not be what was asked for.
  for (const char* other :
       {"guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs"})
    if (body.has(other)) body.fail(other, "is not supported; use response_format or grammar");
  read_ends(body, request);
}

std::optional<int64_t> read_token_count(Fields& body, const std::string& name, int64_t least) {
  return body.integer(name, least, std::numeric_limits<int64_t>::max() / 4);
}

std::vector<int32_t> read_tokens(const Json& list, const std::string& path, int64_t vocabulary) {
  std::vector<int32_t> tokens;
  tokens.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const Json& token = list[i];
    const auto refuse = [&](const auto& what) {
      throw ApiError(
          400,
          concat(path, "[", i, "]: expected a token from 0 to ", vocabulary - 1, ", got ", what),
          concat(path, "[", i, "]"));
    };
    if (!token.is_number_integer()) refuse(kind_of(token));
    if (token.is_number_unsigned() ? token.get<uint64_t>() >= static_cast<uint64_t>(vocabulary)
                                   : token.get<int64_t>() < 0 || token.get<int64_t>() >= vocabulary)
      refuse(token.dump());
    tokens.push_back(token.get<int32_t>());
  }
  return tokens;
}

Headers ignored_header(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) {
    if (all.size() > 1024) {
      all += ", ...";
      break;
    }
    std::string plain;  // as a header's value may be
    for (const char letter : name.substr(0, 64))
      plain += letter > ' ' && letter < 0x7f && letter != ',' ? letter : '?';
    all += concat(all.empty() ? "" : ", ", plain);
  }
  if (all.empty()) return {};
  return {{"x-tensora-ignored", all}};
}

}  // namespace tensora::serve
