#include "tensora/llm/hugging_face/config_json.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <numbers>

#include "tensora/base/check.h"
#include "tensora/llm/hugging_face/config_fields.h"
#include "tensora/llm/hugging_face/rope_keys.h"
#include "tensora/llm/model_config.h"
#include "tensora/ops.h"

namespace tensora::llm {
namespace {

using Json = nlohmann::ordered_json;

const ConfigFamily& family_of(const ModelFile& file, const ModelConfig& model) {
  const std::string said = file.metadata().get_or("hugging_face.model_type", std::string());
  if (file.architecture() == "llama") {
    if (model.experts > 0) return find_family("mixtral");
    // The others of this architecture have no window.
    return find_family(model.window > 0 || said == "mistral" ? "mistral" : "llama");
  }
  for (const ConfigFamily& family : config_families())
    if (family.architecture == file.architecture()) return family;
  fail("models of the architecture '", file.architecture(),
       "' cannot be written as a Hugging Face folder yet");
}

// The shortest decimal that a file stores as the same float32; `stored` is what a file stores of
// it. 0.1 is stored as the float nearest to it, and meant as 0.1.
template <class Stored>
double shortest(double value, double target, const Stored& stored) {
  for (int digits = 1; digits <= 9; ++digits) {
    char text[40];
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    const double rounded = std::strtod(text, nullptr);
    if (static_cast<float>(stored(rounded)) == static_cast<float>(target)) return rounded;
  }
  return value;
}
double shortest(double value) {
  return shortest(value, value, [](double same) { return same; });
}

// Integers are written as such: transformers is strict about the type of some fields.
Json number_json(double value) {
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  return whole ? Json(static_cast<int64_t>(value)) : Json(value);
}

class ConfigWriter {
 public:
  ConfigWriter(const ModelFile& file, DType dtype)
      : file_(file), model_(ModelConfig::from(file)), family_(family_of(file, model_)) {
    json_ = {{"architectures", {family_.model_class}}, {"model_type", family_.model_type}};
    set_sizes();
    set_attention();
    set_window();
    set_experts();
    set_rope();
    set_biases();
    for (const char* name : {"hidden_act", "hidden_activation"})
      if (const Json fixed = Json::parse(family_.fields.fixed); fixed.contains(name))
        json_[name] = fixed[name][0];
    json_["tie_word_embeddings"] = !file.contains("output.weight");
    json_["torch_dtype"] = name(dtype);
    json_.update(generation_config_json(file.metadata()));
  }

  Json json() && { return std::move(json_); }

 private:
  bool has(const char* field) const { return is_used(family_, field); }
  std::string key(std::string_view name) const { return concat(file_.architecture(), ".", name); }
  // What config.json cannot say must be what the family has anyway.
  template <class... Parts>
  void must(bool holds, const Parts&... parts) const {
    check(holds, "config.json of ", family_.model_type, " models cannot express ", parts...);
  }

  void set_sizes() {
    json_["vocab_size"] = model_.vocab_size;
    json_["hidden_size"] = model_.hidden_size;
    json_["num_hidden_layers"] = model_.layers;
    json_["intermediate_size"] = model_.experts > 0 && has("moe_intermediate_size")
                                     ? feed_forward_length()
                                     : model_.feed_forward;
    json_["max_position_embeddings"] = model_.context_length;
    json_["rms_norm_eps"] = shortest(model_.norm_eps);
  }
  // Beside experts' own size, the size of layers without experts, which there are none of.
  int64_t feed_forward_length() const {
    const MetadataValue* value = file_.metadata().find(key("feed_forward_length"));
    return value && !value->is_array() ? file_.metadata().get<int64_t>(key("feed_forward_length"))
                                       : model_.feed_forward;
  }

  void set_attention() {
    json_["num_attention_heads"] = model_.heads;
    json_["num_key_value_heads"] = model_.kv_heads;
    // All families take this field; those whose class lacks it have a default.
    if (has("head_dim") || model_.head_dim * model_.heads != model_.hidden_size)
      json_["head_dim"] = model_.head_dim;
    const double scale = model_.attention_scale;
    if (has("query_pre_attn_scalar")) {
      json_["query_pre_attn_scalar"] = number_json(shortest(
          1 / (scale * scale), scale, [](double scalar) { return 1 / std::sqrt(scalar); }));
    } else {
      const double usual = 1 / std::sqrt(static_cast<double>(model_.head_dim));
      must(std::abs(scale - usual) <= 1e-6 * usual, "the scale of attention ", scale);
    }
    set_cap("attn_logit_softcapping", model_.attention_softcap);
    set_cap("final_logit_softcapping", model_.final_softcap);
  }
  void set_cap(const char* name, double cap) {
    if (has(name))
      json_[name] = cap > 0 ? Json(shortest(cap)) : Json();
    else
      must(cap == 0, "a soft cap (", name, ")");
  }

  void set_window() {
    std::vector<std::string_view> types;
    int64_t local = 0, first = -1;
    for (int64_t i = 0; i < model_.layers; ++i) {
      types.push_back(model_.is_local(i) ? "sliding_attention" : "full_attention");
      if (!model_.is_local(i)) continue;
      if (++local == 1) first = i;
    }
    must(local == 0 || has("sliding_window"), "a sliding window");
    must(local == 0 || local == model_.layers || has("layer_types"),
         "which layers have a sliding window");
    if (has("use_sliding_window")) json_["use_sliding_window"] = local > 0;
    if (local > 0)
      json_["sliding_window"] = model_.window;
    else if (family_.model_type == "mistral")
      json_["sliding_window"] = Json();  // absent, it would be 4096
    if (local > 0 && has("max_window_layers")) json_["max_window_layers"] = first;
    // A mistral with layer_types is another class, ministral, for transformers.
    const bool mistral = family_.model_type == "mistral", gemma = family_.window_period > 0;
    if (has("layer_types") && (mistral ? local > 0 && local < model_.layers : local > 0 || gemma))
      json_["layer_types"] = types;
    // For versions of transformers that do not know layer_types.
    if (has("sliding_window_pattern") && model_.local_layers.empty() && local > 0)
      json_["sliding_window_pattern"] = model_.window_period;
  }

  void set_experts() {
    must(model_.expert_scale == 1, "a scale of the experts");
    if (model_.experts == 0) return;
    json_[family_.model_type == "mixtral" ? "num_local_experts" : "num_experts"] = model_.experts;
    json_["num_experts_per_tok"] = model_.experts_used;
    if (has("moe_intermediate_size")) json_["moe_intermediate_size"] = model_.feed_forward;
    if (has("norm_topk_prob"))
      json_["norm_topk_prob"] = model_.normalize_experts;
    else
      must(model_.normalize_experts, "experts whose weights are not normalised");
  }

  void set_biases() {
    const bool output = file_.contains("blk.0.attn_output.bias") && has("attention_bias");
    const bool feed_forward = file_.contains("blk.0.ffn_down.bias") && has("mlp_bias");
    if (has("attention_bias")) json_["attention_bias"] = output;
    if (has("mlp_bias")) json_["mlp_bias"] = feed_forward;
    check_biases(
        file_.tensors(),
        {.qkv = family_.qkv_bias || output, .output = output, .feed_forward = feed_forward});
  }

  void set_rope() {
    json_["rope_theta"] = shortest(model_.rope.base);
    if (has("rope_local_base_freq"))
      json_["rope_local_base_freq"] = shortest(model_.local_rope_base.value_or(10000));
    else
      must(!model_.local_rope_base, "frequencies of its own for layers with a window");
    if (model_.rotary_dim < model_.head_dim) {
      must(family_.model_type == "phi3", "heads that rotate in part");
      json_["partial_rotary_factor"] =
          static_cast<double>(model_.rotary_dim) / static_cast<double>(model_.head_dim);
    }
    if (has("original_max_position_embeddings") && original() > 0)
      json_["original_max_position_embeddings"] = original();
    const Json scaling = scaling_json();
    if (!scaling.is_null()) json_["rope_scaling"] = scaling;
  }
  int64_t original() const {
    return file_.metadata().get_or(key("rope.scaling.original_context_length"), 0);
  }

  Json scaling_json() const {
    const nn::RopeScaling& scaling = model_.rope.scaling;
    if (file_.contains("rope_freqs.weight")) return llama3_json();
    if (scaling.type == "longrope") return longrope_json();
    if (scaling.type == "default") return nullptr;
    must(family_.model_type != "phi3", "the rope scaling '", scaling.type, "'");
    Json json = {{"rope_type", scaling.type}, {"factor", shortest(scaling.factor)}};
    if (scaling.type != "yarn") return json;
    if (original() > 0) json["original_max_position_embeddings"] = original();
    if (scaling.beta_fast != 32) json["beta_fast"] = shortest(scaling.beta_fast);
    if (scaling.beta_slow != 1) json["beta_slow"] = shortest(scaling.beta_slow);
    if (!scaling.truncate) json["truncate"] = false;
    const double usual = yarn_strength(scaling.factor);
    if (scaling.attention_factor)
      json["attention_factor"] =
          shortest(*scaling.attention_factor, *scaling.attention_factor / usual,
                   [&](double factor) { return factor / usual; });
    return json;
  }

  Json llama3_json() const {
    const std::vector<double> divisors = to_vector<double>(file_.tensor("rope_freqs.weight"));
    check(!divisors.empty(), "rope_freqs.weight is empty");
    const auto number = [&](const char* name, double otherwise) {
      return shortest(file_.metadata().get_or(key(name), otherwise));
    };
    Llama3Rope rope;
    rope.factor =
        number("rope.scaling.llama3_factor", *std::max_element(divisors.begin(), divisors.end()));
    rope.low = number("rope.scaling.low_freq_factor", rope.low);
    rope.high = number("rope.scaling.high_freq_factor", rope.high);
    if (original() > 0) rope.length = static_cast<double>(original());
    const std::vector<double> expected = llama3_divisors(rope, model_.rope.base, model_.rotary_dim);
    bool same = expected.size() == divisors.size();
    for (size_t i = 0; same && i < divisors.size(); ++i)
      same = std::abs(divisors[i] - expected[i]) <= 1e-4 * expected[i];
    must(same, "rope_freqs.weight, which is not Llama 3's");
    return {{"rope_type", "llama3"},
            {"factor", rope.factor},
            {"low_freq_factor", rope.low},
            {"high_freq_factor", rope.high},
            {"original_max_position_embeddings", static_cast<int64_t>(rope.length)}};
  }

  Json longrope_json() const {
    const nn::RopeScaling& scaling = model_.rope.scaling;
    const auto short_list = [](const std::vector<double>& values) {
      std::vector<double> result;
      for (double value : values) result.push_back(shortest(value));
      return result;
    };
    // Early versions of transformers want `type`, and for phi3 no more than these three fields.
    const bool phi = family_.model_type == "phi3";
    Json json = {{phi ? "type" : "rope_type", "longrope"},
                 {"long_factor", short_list(scaling.long_factor)},
                 {"short_factor", short_list(scaling.short_factor)}};
    const auto context = static_cast<double>(model_.context_length);
    const double length = original() > 0 ? static_cast<double>(original()) : context;
    if (!phi) json["original_max_position_embeddings"] = static_cast<int64_t>(length);
    const double usual = longrope_strength(context / length, length);
    const double factor = scaling.attention_factor.value_or(usual);
    if (std::abs(factor - usual) > 1e-6 * usual) json["attention_factor"] = shortest(factor);
    return json;
  }

  const ModelFile& file_;
  ModelConfig model_;
  const ConfigFamily& family_;
  Json json_;
};

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

Json config_json(const ModelFile& file, DType dtype) { return ConfigWriter(file, dtype).json(); }

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
  for (const char* key : {"eos_token_id", "eot_token_id", "eom_token_id"})
    if (const int64_t id = id_of(key); id >= 0 && std::count(ends.begin(), ends.end(), id) == 0)
      ends.push_back(id);
  if (ends.size() == 1) json["eos_token_id"] = ends[0];
  if (ends.size() > 1) json["eos_token_id"] = ends;
  return json;
}

}  // namespace tensora::llm
