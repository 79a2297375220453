#include "tensora/llm/hugging_face/config_json.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <numbers>

#include "tensora/base/check.h"
#include "tensora/ops.h"

namespace tensora::llm {
namespace {

using Json = nlohmann::ordered_json;

struct Kind {
  std::string_view architecture, model_type, model_class;
};
constexpr Kind kKinds[] = {
    {"llama", "llama", "LlamaForCausalLM"},
    {"qwen2", "qwen2", "Qwen2ForCausalLM"},
    {"qwen3", "qwen3", "Qwen3ForCausalLM"},
    {"qwen3moe", "qwen3_moe", "Qwen3MoeForCausalLM"},
    {"gemma", "gemma", "GemmaForCausalLM"},
    {"gemma2", "gemma2", "Gemma2ForCausalLM"},
    {"gemma3", "gemma3_text", "Gemma3ForCausalLM"},
    {"phi3", "phi3", "Phi3ForCausalLM"},
};
constexpr Kind kMistral = {"llama", "mistral", "MistralForCausalLM"};
constexpr Kind kMixtral = {"llama", "mixtral", "MixtralForCausalLM"};

Kind kind_of(const ModelFile& file) {
  if (file.metadata().get_or("llama.expert_count", 0) > 0) return kMixtral;
  if (file.metadata().get_or("llama.attention.sliding_window", 0) > 0) return kMistral;
  for (const Kind& kind : kKinds)
    if (kind.architecture == file.architecture()) return kind;
  fail("models of the architecture '", file.architecture(),
       "' cannot be written as a Hugging Face folder yet");
}

// Copies keys of one architecture.
class Keys {
 public:
  Keys(const ModelFile& file, Json& json)
      : metadata_(file.metadata()), prefix_(file.architecture() + "."), json_(json) {}

  bool contains(std::string_view key) const {
    return metadata_.contains(prefix_ + std::string(key));
  }
  // One number for all layers.
  int64_t integer(std::string_view key) const {
    const std::string name = prefix_ + std::string(key);
    const MetadataValue* value = metadata_.find(name);
    if (!value || !value->is_array()) return metadata_.get<int64_t>(name);
    const auto& list = metadata_.get<std::vector<int64_t>>(name);
    check(!list.empty() &&
              std::count(list.begin(), list.end(), list[0]) == static_cast<int64_t>(list.size()),
          "'", name, "' differs between layers, which config.json cannot express");
    return list[0];
  }
  double number(std::string_view key) const {
    return metadata_.get<double>(prefix_ + std::string(key));
  }
  double number(std::string_view key, double otherwise) const {
    return contains(key) ? number(key) : otherwise;
  }
  void copy_integer(std::string_view key, const char* name) {
    if (contains(key)) json_[name] = integer(key);
  }
  void copy_number(std::string_view key, const char* name) {
    if (contains(key)) json_[name] = shortest(number(key));
  }
  // 0.1 is stored as the float nearest to it, and meant as 0.1.
  static double shortest(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.7g", value);
    const double rounded = std::strtod(text, nullptr);
    return static_cast<float>(rounded) == static_cast<float>(value) ? rounded : value;
  }

 private:
  const Metadata& metadata_;
  std::string prefix_;
  Json& json_;
};

Json rope_json(const ModelFile& file, const Keys& keys, int64_t head_dim) {
  const double base = keys.number("rope.freq_base", 10000);
  const int64_t dim =
      keys.contains("rope.dimension_count") ? keys.integer("rope.dimension_count") : head_dim;
  if (file.contains("rope_freqs.weight")) {
    const std::vector<double> divisors = to_vector<double>(file.tensor("rope_freqs.weight"));
    check(!divisors.empty(), "rope_freqs.weight is empty");
    Llama3Rope rope;
    rope.factor = *std::max_element(divisors.begin(), divisors.end());
    if (keys.contains("rope.scaling.original_context_length"))
      rope.length = static_cast<double>(keys.integer("rope.scaling.original_context_length"));
    const std::vector<double> expected = llama3_divisors(rope, base, dim);
    bool same = expected.size() == divisors.size();
    for (size_t i = 0; same && i < divisors.size(); ++i)
      same = std::abs(divisors[i] - expected[i]) <= 1e-4 * expected[i];
    check(same, "rope_freqs.weight is not Llama 3's, which is all that config.json can express");
    return {{"rope_type", "llama3"},
            {"factor", rope.factor},
            {"low_freq_factor", rope.low},
            {"high_freq_factor", rope.high},
            {"original_max_position_embeddings", static_cast<int64_t>(rope.length)}};
  }
  if (file.contains("rope_factors_long.weight"))
    return {{"rope_type", "longrope"},
            {"long_factor", to_vector<double>(file.tensor("rope_factors_long.weight"))},
            {"short_factor", to_vector<double>(file.tensor("rope_factors_short.weight"))}};
  const std::string key = file.architecture() + ".rope.scaling.type";
  const std::string type = file.metadata().get_or(key, "none");
  if (type == "none") return nullptr;
  check(type == "linear" || type == "yarn", "'", key, "' is '", type,
        "', which config.json cannot express");
  Json json = {{"rope_type", type}, {"factor", Keys::shortest(keys.number("rope.scaling.factor"))}};
  if (keys.contains("rope.scaling.original_context_length"))
    json["original_max_position_embeddings"] = keys.integer("rope.scaling.original_context_length");
  return json;
}

}  // namespace

std::vector<double> llama3_divisors(const Llama3Rope& rope, double base, int64_t dim) {
  check(rope.high > rope.low && rope.low > 0 && rope.factor > 0 && rope.length > 0,
        "the factors of llama3's rope scaling make no sense");
  std::vector<double> divisors;
  for (int64_t i = 0; i < dim / 2; ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(dim);
    const double wave = 2 * std::numbers::pi * std::pow(base, exponent);
    const double share = (rope.length / wave - rope.low) / (rope.high - rope.low);
    const double between = 1 / ((1 - share) / rope.factor + share);
    divisors.push_back(wave < rope.length / rope.high  ? 1
                       : wave > rope.length / rope.low ? rope.factor
                                                       : between);
  }
  return divisors;
}

Json config_json(const ModelFile& file, DType dtype) {
  const Kind kind = kind_of(file);
  Json json = {{"architectures", {kind.model_class}}, {"model_type", kind.model_type}};
  Keys keys(file, json);
  const bool gemma = kind.architecture.starts_with("gemma");
  const int64_t hidden = keys.integer("embedding_length");
  const int64_t heads = keys.integer("attention.head_count");
  check(heads > 0, "'attention.head_count' must be positive, got ", heads);
  const int64_t head_dim =
      keys.contains("attention.key_length") ? keys.integer("attention.key_length") : hidden / heads;
  json["hidden_size"] = hidden;
  json["num_attention_heads"] = heads;
  json["num_key_value_heads"] = heads;
  json["head_dim"] = head_dim;
  json["vocab_size"] = file.info("token_embd.weight").sizes[0];
  keys.copy_integer("attention.head_count_kv", "num_key_value_heads");
  keys.copy_integer("block_count", "num_hidden_layers");
  keys.copy_integer("feed_forward_length", "intermediate_size");
  keys.copy_integer("context_length", "max_position_embeddings");
  keys.copy_number("attention.layer_norm_rms_epsilon", "rms_norm_eps");
  keys.copy_integer("attention.sliding_window", "sliding_window");
  keys.copy_number("attn_logit_softcapping", "attn_logit_softcapping");
  keys.copy_number("final_logit_softcapping", "final_logit_softcapping");
  keys.copy_integer("expert_count",
                    kind.architecture == "llama" ? "num_local_experts" : "num_experts");
  keys.copy_integer("expert_used_count", "num_experts_per_tok");
  keys.copy_integer("expert_feed_forward_length", "moe_intermediate_size");
  json["rope_theta"] = Keys::shortest(keys.number("rope.freq_base", 10000));
  keys.copy_number("rope.freq_base_swa", "rope_local_base_freq");
  if (keys.contains("rope.dimension_count") && keys.integer("rope.dimension_count") < head_dim)
    json["partial_rotary_factor"] =
        static_cast<double>(keys.integer("rope.dimension_count")) / static_cast<double>(head_dim);
  const Json rope = rope_json(file, keys, head_dim);
  if (!rope.is_null()) json["rope_scaling"] = rope;
  if (kind.architecture == "phi3")
    keys.copy_integer("rope.scaling.original_context_length", "original_max_position_embeddings");
  if (kind.architecture == "gemma2" || kind.architecture == "gemma3")
    json["query_pre_attn_scalar"] =
        keys.contains("attention.scale")
            ? Keys::shortest(1 / (keys.number("attention.scale") * keys.number("attention.scale")))
            : static_cast<double>(head_dim);
  json[gemma ? "hidden_activation" : "hidden_act"] = gemma ? "gelu_pytorch_tanh" : "silu";
  json["attention_bias"] = file.contains("blk.0.attn_q.bias");
  json["tie_word_embeddings"] = !file.contains("output.weight");
  json["torch_dtype"] = name(dtype);
  json.update(generation_config_json(file.metadata()));
  return json;
}

Json generation_config_json(const Metadata& metadata) {
  Json json = Json::object();
  constexpr std::pair<const char*, const char*> kTokens[] = {{"bos_token_id", "bos_token_id"},
                                                             {"padding_token_id", "pad_token_id"}};
  const auto id_of = [&](const char* key) {
    const int64_t id = metadata.get_or(concat("tokenizer.ggml.", key), int64_t{-1});
    return id == int64_t{UINT32_MAX} ? -1 : id;
  };
  for (const auto& [key, name] : kTokens)
    if (const int64_t id = id_of(key); id >= 0) json[name] = id;
  std::vector<int64_t> ends;
  for (const char* key : {"eos_token_id", "eot_token_id"})
    if (const int64_t id = id_of(key); id >= 0 && std::count(ends.begin(), ends.end(), id) == 0)
      ends.push_back(id);
  if (ends.size() == 1) json["eos_token_id"] = ends[0];
  if (ends.size() > 1) json["eos_token_id"] = ends;
  return json;
}

}  // namespace tensora::llm
