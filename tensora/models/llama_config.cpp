#include "tensora/models/llama_config.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tensora/base/check.h"
#include "tensora/io/json_fields.h"

namespace tensora::models {

namespace {

using Json = nlohmann::ordered_json;

template <class T>
void read(const Json& object, const char* name, T& value) {
  io::read_field(object, name, value, "LLaMAConfig");
}

nn::RopeScaling read_scaling(const Json& object) {
  nn::RopeScaling scaling;
  read(object, "type", scaling.type);
  read(object, "rope_type", scaling.type);
  if (scaling.type == "su") scaling.type = "longrope";
  read(object, "factor", scaling.factor);
  read(object, "original_max_position_embeddings", scaling.original_max_positions);
  read(object, "low_freq_factor", scaling.low_freq_factor);
  read(object, "high_freq_factor", scaling.high_freq_factor);
  read(object, "beta_fast", scaling.beta_fast);
  read(object, "beta_slow", scaling.beta_slow);
  read(object, "mscale", scaling.mscale);
  read(object, "mscale_all_dim", scaling.mscale_all_dim);
  read(object, "truncate", scaling.truncate);
  read(object, "attention_factor", scaling.attention_factor);
  read(object, "short_factor", scaling.short_factor);
  read(object, "long_factor", scaling.long_factor);
  return scaling;
}

Json scaling_json(const LLaMAConfig& config) {
  const nn::RopeScaling& s = config.rope_scaling;
  Json object = {{"rope_type", s.type}};
  if (s.type == "default") return object;
  const nn::RopeScaling plain;
  const auto add = [&](const char* name, const auto& value, const auto& usual) {
    if (value != usual) object[name] = value;
  };
  object["factor"] = s.factor;
  add("original_max_position_embeddings", s.original_max_positions, plain.original_max_positions);
  if (s.type == "llama3") {
    object["low_freq_factor"] = s.low_freq_factor;
    object["high_freq_factor"] = s.high_freq_factor;
  }
  add("beta_fast", s.beta_fast, plain.beta_fast);
  add("beta_slow", s.beta_slow, plain.beta_slow);
  add("truncate", s.truncate, plain.truncate);
  if (s.mscale) object["mscale"] = *s.mscale;
  if (s.mscale_all_dim) object["mscale_all_dim"] = *s.mscale_all_dim;
  if (s.attention_factor) object["attention_factor"] = *s.attention_factor;
  add("short_factor", s.short_factor, plain.short_factor);
  add("long_factor", s.long_factor, plain.long_factor);
  return object;
}

/// Whether the layers of a qwen or a mistral with layer_types see a window only: all of them, or
/// none.
bool has_windows(const LLaMAConfig& config, const Json& object) {
  int64_t first = 28, sliding = 0;
  read(object, "max_window_layers", first);
  std::vector<std::string> types;
  read(object, "layer_types", types);
  const int64_t layers = config.num_hidden_layers;
  if (types.empty()) {
    sliding = layers - std::clamp<int64_t>(first, 0, layers);
  } else {
    sliding = std::count(types.begin(), types.end(), "sliding_attention");
  }
  check(
      sliding == 0 || sliding == layers, "LLaMAConfig: ", sliding, " of ", layers,
      " layers have sliding attention ('layer_types', 'max_window_layers'); expected all or none");
  return sliding > 0;
}

/// What the model types differ in without saying so in their files.
void apply_type(LLaMAConfig& config, const Json& object) {
  const std::string& type = config.model_type;
  check(type == "llama" || type == "mistral" || type == "qwen2" || type == "qwen3",
        "LLaMAConfig: the model type '", type,
        "' is not known; expected llama, mistral, qwen2 or qwen3");
  // Fields that a type does not have are not read, as in transformers.
  if (type == "mistral") config.attention_bias = false;
  if (type == "qwen2") config.attention_bias = true;
  if (type == "qwen3") config.qk_norm = true;
  if (type != "llama") config.mlp_bias = false;
  if (type == "llama" || type == "qwen3") config.attention_out_bias = config.attention_bias;
  if (type == "llama") config.sliding_window.reset();  // which transformers does not read
  if (type == "mistral" && !object.contains("sliding_window")) config.sliding_window = 4096;
  if (type == "mistral" && object.contains("layer_types") && !has_windows(config, object))
    config.sliding_window.reset();
  if (type == "qwen2" || type == "qwen3") {
    bool windowed = false;
    read(object, "use_sliding_window", windowed);
    if (!windowed || !has_windows(config, object)) config.sliding_window.reset();
  }
}

void read_tokens(const Json& object, LLaMAConfig& config) {
  read(object, "bos_token_id", config.bos_token_id);
  const auto end = object.find("eos_token_id");
  if (end == object.end() || end->is_null()) return;
  if (end->is_array())
    read(object, "eos_token_id", config.eos_token_ids);
  else
    read(object, "eos_token_id", config.eos_token_ids.emplace_back());
}

}  // namespace

LLaMAConfig LLaMAConfig::from_json(const std::string& text) {
  const Json object = Json::parse(text, nullptr, false);
  check(object.is_object(), "LLaMAConfig: the text is not a JSON object");
  LLaMAConfig config;
  read(object, "model_type", config.model_type);
  read(object, "vocab_size", config.vocab_size);
  read(object, "hidden_size", config.hidden_size);
  read(object, "intermediate_size", config.intermediate_size);
  read(object, "num_hidden_layers", config.num_hidden_layers);
  read(object, "num_attention_heads", config.num_attention_heads);
  read(object, "num_key_value_heads", config.num_key_value_heads);
  read(object, "head_dim", config.head_dim);
  read(object, "max_position_embeddings", config.max_position_embeddings);
  read(object, "rms_norm_eps", config.rms_norm_eps);
  read(object, "rope_theta", config.rope_theta);
  read(object, "tie_word_embeddings", config.tie_word_embeddings);
  read(object, "attention_bias", config.attention_bias);
  read(object, "mlp_bias", config.mlp_bias);
  read(object, "sliding_window", config.sliding_window);
  read(object, "attention_dropout", config.attention_dropout);
  read(object, "initializer_range", config.initializer_range);
  read_tokens(object, config);
  for (const char* name : {"rope_scaling", "rope_parameters"})
    if (const auto found = object.find(name); found != object.end() && found->is_object()) {
      config.rope_scaling = read_scaling(*found);
      read(*found, "rope_theta", config.rope_theta);
    }
  std::string activation = "silu";
  read(object, "hidden_act", activation);
  check(activation == "silu" || activation == "swish", "LLaMAConfig: the activation '", activation,
        "' is not silu");
  double rotated = 1;
  read(object, "partial_rotary_factor", rotated);
  check(rotated == 1, "LLaMAConfig: 'partial_rotary_factor' is ", rotated, "; expected 1");
  apply_type(config, object);
  config.check_valid();
  return config;
}

LLaMAConfig LLaMAConfig::from_file(const std::string& path) {
  std::ifstream file(path);
  check(file.good(), "LLaMAConfig: the file '", path, "' cannot be opened");
  std::ostringstream text;
  text << file.rdbuf();
  return from_json(text.str());
}

std::string LLaMAConfig::to_json() const {
  const char* architecture = model_type == "mistral" ? "MistralForCausalLM"
                             : model_type == "qwen2" ? "Qwen2ForCausalLM"
                             : model_type == "qwen3" ? "Qwen3ForCausalLM"
                                                     : "LlamaForCausalLM";
  Json object = {
      {"architectures", Json::array({architecture})},
      {"model_type", model_type},
      {"vocab_size", vocab_size},
      {"hidden_size", hidden_size},
      {"intermediate_size", intermediate_size},
      {"num_hidden_layers", num_hidden_layers},
      {"num_attention_heads", num_attention_heads},
      {"num_key_value_heads", num_key_value_heads > 0 ? num_key_value_heads : num_attention_heads},
      {"head_dim", head_dim > 0 ? head_dim : hidden_size / num_attention_heads},
      {"max_position_embeddings", max_position_embeddings},
      {"hidden_act", "silu"},
      {"rms_norm_eps", rms_norm_eps},
      {"rope_theta", rope_theta},
      {"tie_word_embeddings", tie_word_embeddings},
      {"attention_bias", attention_bias},
      {"mlp_bias", mlp_bias},
      {"attention_dropout", attention_dropout},
      {"initializer_range", initializer_range}};
  if (rope_scaling.type != "default") object["rope_scaling"] = scaling_json(*this);
  if (sliding_window) {
    object["sliding_window"] = *sliding_window;
    object["use_sliding_window"] = true;
    object["max_window_layers"] = 0;
  } else if (model_type == "mistral") {
    object["sliding_window"] = nullptr;  // absent, it would be 4096
  }
  if (bos_token_id) object["bos_token_id"] = *bos_token_id;
  if (eos_token_ids.size() == 1)
    object["eos_token_id"] = eos_token_ids[0];
  else if (!eos_token_ids.empty())
    object["eos_token_id"] = eos_token_ids;
  return object.dump(2) + "\n";
}

LLaMAConfig LLaMAConfig::preset(const std::string& name) {
  const nn::RopeScaling llama3{.type = "llama3",
                               .factor = 32,
                               .original_max_positions = 8192,
                               .low_freq_factor = 1,
                               .high_freq_factor = 4};
  if (name == "tiny")
    return {.vocab_size = 4096,
            .hidden_size = 192,
            .intermediate_size = 512,
            .num_hidden_layers = 4,
            .num_attention_heads = 6,
            .num_key_value_heads = 2,
            .max_position_embeddings = 512,
            .rms_norm_eps = 1e-5,
            .tie_word_embeddings = true};
  if (name == "small")
    return {.vocab_size = 16384,
            .hidden_size = 384,
            .intermediate_size = 1024,
            .num_hidden_layers = 12,
            .num_attention_heads = 6,
            .num_key_value_heads = 2,
            .max_position_embeddings = 1024,
            .rms_norm_eps = 1e-5,
            .tie_word_embeddings = true};
  if (name == "llama-3.2-1b")
    return {.vocab_size = 128256,
            .hidden_size = 2048,
            .intermediate_size = 8192,
            .num_hidden_layers = 16,
            .num_attention_heads = 32,
            .num_key_value_heads = 8,
            .max_position_embeddings = 131072,
            .rms_norm_eps = 1e-5,
            .rope_theta = 500000,
            .rope_scaling = llama3,
            .tie_word_embeddings = true,
            .bos_token_id = 128000,
            .eos_token_ids = {128001}};
  check(name == "llama-3-8b", "LLaMAConfig: there is no preset '", name,
        "'; there are tiny, small, llama-3.2-1b and llama-3-8b");
  return {.vocab_size = 128256,
          .hidden_size = 4096,
          .intermediate_size = 14336,
          .num_hidden_layers = 32,
          .num_attention_heads = 32,
          .num_key_value_heads = 8,
          .max_position_embeddings = 8192,
          .rms_norm_eps = 1e-5,
          .rope_theta = 500000,
          .bos_token_id = 128000,
          .eos_token_ids = {128001}};
}

void LLaMAConfig::check_valid() const {
  const auto positive = [](const char* name, int64_t value) {
    check(value > 0, "LLaMAConfig: ", name, " must be positive, got ", value);
  };
  positive("vocab_size", vocab_size);
  positive("hidden_size", hidden_size);
  positive("intermediate_size", intermediate_size);
  positive("num_attention_heads", num_attention_heads);
  positive("max_position_embeddings", max_position_embeddings);
  check(num_hidden_layers >= 0, "LLaMAConfig: num_hidden_layers must not be negative, got ",
        num_hidden_layers);
  check(num_key_value_heads >= 0 &&
            (num_key_value_heads == 0 || num_attention_heads % num_key_value_heads == 0),
        "LLaMAConfig: num_key_value_heads must divide num_attention_heads, got ",
        num_key_value_heads, " and ", num_attention_heads);
  check(head_dim > 0 || hidden_size % num_attention_heads == 0,
        "LLaMAConfig: num_attention_heads must divide hidden_size, got ", num_attention_heads,
        " and ", hidden_size);
  check(!sliding_window || *sliding_window > 0,
        "LLaMAConfig: sliding_window must be positive, got ", sliding_window.value_or(0));
}

}  // namespace tensora::models
