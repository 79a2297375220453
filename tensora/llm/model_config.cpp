#include "tensora/llm/model_config.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tensora/llm/architecture.h"
#include "tensora/llm/metadata.h"
#include "tensora/llm/model_file.h"
#include "tensora/ops/creation/tensor.h"

namespace tensora::llm {

namespace {

/// Values under the architecture's own name: `llama.block_count`.
class Keys {
 public:
  Keys(const Metadata& metadata, const std::string& architecture)
      : metadata_(metadata), prefix_(architecture + ".") {}

  std::string name(std::string_view key) const { return prefix_ + std::string(key); }
  bool contains(std::string_view key) const { return metadata_.contains(name(key)); }
  int64_t integer(std::string_view key) const { return uniform(key).value(); }
  int64_t integer(std::string_view key, int64_t otherwise) const {
    return contains(key) ? integer(key) : otherwise;
  }
  double number(std::string_view key) const { return metadata_.get<double>(name(key)); }
  double number(std::string_view key, double otherwise) const {
    return contains(key) ? number(key) : otherwise;
  }
  /// Null where the key is absent or holds one number for all layers.
  const std::vector<int64_t>* list(std::string_view key) const {
    const MetadataValue* value = metadata_.find(name(key));
    return value && value->is_array() ? &metadata_.get<std::vector<int64_t>>(name(key)) : nullptr;
  }
  bool boolean(std::string_view key, bool otherwise) const {
    return metadata_.get_or(name(key), otherwise);
  }
  std::string text(std::string_view key, std::string otherwise) const {
    return metadata_.get_or(name(key), std::move(otherwise));
  }

 private:
  /// Some numbers may be given per layer; here all layers must have the same.
  std::optional<int64_t> uniform(std::string_view key) const {
    const MetadataValue* value = metadata_.find(name(key));
    if (!value || !value->is_array()) return metadata_.get<int64_t>(name(key));
    const auto& list = metadata_.get<std::vector<int64_t>>(name(key));
    check(!list.empty(), "model: ", name(key), " is an empty list");
    for (int64_t number : list)
      check(number == list[0], "model: ", name(key), " differs between layers (", list[0], " and ",
            number, "), which is not supported");
    return list[0];
  }

  const Metadata& metadata_;
  std::string prefix_;
};

nn::RopeScaling scaling_from(const Keys& keys) {
  nn::RopeScaling scaling;
  scaling.original_max_positions = keys.integer("rope.scaling.original_context_length", 0);
  scaling.factor = keys.number("rope.scaling.factor", keys.number("rope.scale_linear", 1));
  scaling.type = keys.text("rope.scaling.type", scaling.factor == 1 ? "none" : "linear");
  if (scaling.type == "none") scaling.type = "default";
  if (keys.contains("rope.scaling.dynamic_factor")) {
    scaling.type = "dynamic";
    scaling.factor = keys.number("rope.scaling.dynamic_factor");
    scaling.original_max_positions = 0;
  }
  scaling.truncate = keys.boolean("rope.scaling.yarn_truncate", true);
  scaling.low_freq_factor = keys.number("rope.scaling.low_freq_factor", 1);
  scaling.high_freq_factor = keys.number("rope.scaling.high_freq_factor", 4);
  scaling.beta_fast = keys.number("rope.scaling.yarn_beta_fast", 32);
  scaling.beta_slow = keys.number("rope.scaling.yarn_beta_slow", 1);
  if (keys.contains("rope.scaling.attn_factor")) {
    scaling.attention_factor = keys.number("rope.scaling.attn_factor");
    // GGUF's factor stands beside the usual strength of yarn.
    if (scaling.type == "yarn")
      scaling.attention_factor =
          *scaling.attention_factor * (1 + 0.1 * std::log(std::max(1.0, scaling.factor)));
  }
  return scaling;
}

void read_attention(ModelConfig& config, const Keys& keys) {
  config.heads = keys.integer("attention.head_count");
  config.kv_heads = keys.integer("attention.head_count_kv", config.heads);
  check(config.heads > 0, "model: ", keys.name("attention.head_count"), " must be positive, got ",
        config.heads);
  config.head_dim = keys.integer("attention.key_length", config.hidden_size / config.heads);
  const int64_t value_dim = keys.integer("attention.value_length", config.head_dim);
  check(value_dim == config.head_dim, "model: keys of ", config.head_dim, " and values of ",
        value_dim, " numbers are not supported; they must be of one size");
  check(config.head_dim > 0, "model: heads must not be empty, got ", config.heads, " heads of ",
        config.hidden_size, " numbers in all");
  config.attention_scale =
      keys.number("attention.scale", 1 / std::sqrt(static_cast<double>(config.head_dim)));
  check(keys.boolean("attention.causal", true), "model: ", keys.name("attention.causal"),
        " is false; only causal attention is supported");
  config.attention_softcap = keys.number("attn_logit_softcapping", 0);
  config.window = keys.integer("attention.sliding_window", 0);
  // Every n-th layer is global (0: none is); or a list with 1 for each local layer.
  constexpr auto pattern = "attention.sliding_window_pattern";
  if (const std::vector<int64_t>* local = keys.list(pattern)) {
    config.local_layers = *local;
  } else if (keys.contains(pattern)) {
    const int64_t period = keys.integer(pattern);
    config.window_period = period == 0 ? 1 : period;
    if (period == 1) config.window = 0;  // all layers are global
  }
}

/// Divisors of the frequencies that a file has as a tensor; empty where it has none.
std::vector<double> divisors(const ModelFile& file, const ModelConfig& config,
                             const std::string& name) {
  if (!file.contains(name)) return {};
  const TensorInfo& info = file.info(name);
  check(info.dtype == kFloat32 && info.sizes == Shape{config.rotary_dim / 2}, "model: ", name,
        " must be float32 of shape [", config.rotary_dim / 2, "], got ", info.dtype, " ",
        info.sizes);
  std::vector<double> result = to_vector<double>(file.tensor(name));
  for (double divisor : result)
    check(std::isfinite(divisor) && divisor > 0, "model: ", name,
          " must hold positive numbers, got ", divisor);
  return result;
}

void check_range(std::string_view what, int64_t value, int64_t most) {
  check(value > 0 && value <= most, "model: the ", what, " must be in [1, ", most, "], got ",
        value);
}

void check_positive(std::string_view what, double value) {
  check(std::isfinite(value) && value > 0, "model: the ", what, " must be a positive number, got ",
        value);
}

void check_cap(std::string_view what, double value) {
  check(std::isfinite(value) && value >= 0, "model: the ", what,
        " must not be negative or NaN, got ", value);
}

}  // namespace

ModelConfig ModelConfig::from(const Metadata& metadata) {
  ModelConfig config;
  config.architecture = metadata.get<std::string>("general.architecture");
  const Architecture& architecture = find_architecture(config.architecture);
  config.name = metadata.get_or("general.name", std::string());
  const Keys keys(metadata, config.architecture);
  config.context_length = keys.integer("context_length");
  config.layers = keys.integer("block_count");
  config.hidden_size = keys.integer("embedding_length");
  config.experts = keys.integer("expert_count", 0);
  config.experts_used = keys.integer("expert_used_count", 0);
  config.feed_forward = config.experts > 0 && keys.contains("expert_feed_forward_length")
                            ? keys.integer("expert_feed_forward_length")
                            : keys.integer("feed_forward_length");
  config.norm_eps = keys.number("attention.layer_norm_rms_epsilon");
  config.normalize_experts = keys.boolean("expert_weights_norm", true);
  config.expert_scale = keys.number("expert_weights_scale", 1);
  read_attention(config, keys);
  config.rotary_dim = keys.integer("rope.dimension_count", config.head_dim);
  config.rope.base = keys.number("rope.freq_base", 10000);
  config.rope.max_positions = config.context_length;
  config.rope.scaling = scaling_from(keys);
  if (keys.contains("rope.freq_base_swa"))
    config.local_rope_base = keys.number("rope.freq_base_swa");
  config.final_softcap = keys.number("final_logit_softcapping", 0);
  config.vocab_size = keys.integer("vocab_size", 0);
  constexpr auto tokens = "tokenizer.ggml.tokens";
  if (config.vocab_size == 0 && metadata.contains(tokens))
    config.vocab_size = static_cast<int64_t>(metadata.get<std::vector<std::string>>(tokens).size());
  if (architecture.configure) architecture.configure(config, metadata);
  return config;
}

ModelConfig ModelConfig::from(const ModelFile& file) {
  ModelConfig config = from(file.metadata());
  config.rope_in_halves = file.rope_in_halves();
  // A padded vocabulary has more rows than tokens; the weights decide.
  if (file.contains("token_embd.weight")) {
    const Shape& sizes = file.info("token_embd.weight").sizes;
    check(sizes.size() == 2, "model: token_embd.weight must be a matrix, got shape ", sizes);
    config.vocab_size = sizes[0];
  }
  check_range("rotary size", config.rotary_dim, 1 << 16);
  nn::RopeScaling& scaling = config.rope.scaling;
  if (auto found = divisors(file, config, "rope_freqs.weight"); !found.empty())
    scaling = {
        .type = "longrope", .attention_factor = 1, .short_factor = found, .long_factor = found};
  if (auto found = divisors(file, config, "rope_factors_long.weight"); !found.empty()) {
    scaling.type = "longrope";
    scaling.long_factor = std::move(found);
    scaling.short_factor = divisors(file, config, "rope_factors_short.weight");
  }
  config.validate();
  return config;
}

void ModelConfig::validate() const {
  check_range("number of layers", layers, 512);
  check_range("context length", context_length, int64_t{1} << 30);
  check_range("hidden size", hidden_size, 1 << 18);
  check_range("size of the feed-forward layer", feed_forward, 1 << 20);
  check_range("number of heads", heads, 4096);
  check_range("number of key heads", kv_heads, heads);
  check(heads % kv_heads == 0, "model: ", heads, " heads cannot share ", kv_heads,
        " key heads evenly");
  check_range("size of a head", head_dim, 1024);
  check_range("size of the vocabulary", vocab_size, 1 << 24);
  check_range("rotary size", rotary_dim, head_dim);
  check(rotary_dim % 2 == 0, "model: the rotary size must be even, got ", rotary_dim);
  check_positive("epsilon of the norms", norm_eps);
  check_positive("scale of attention", attention_scale);
  check_positive("base of the rotary frequencies", rope.base);
  check_positive("base of the local rotary frequencies", local_rope_base.value_or(1));
  check_positive("scale of the embedding", embedding_scale);
  check_positive("scale of the experts", expert_scale);
  check_cap("soft cap of attention", attention_softcap);
  check_cap("soft cap of the logits", final_softcap);
  check(window >= 0, "model: the window must not be negative, got ", window);
  check(window_period >= 1, "model: the period of windows must be positive, got ", window_period);
  check(local_layers.empty() || std::ssize(local_layers) >= layers, "model: the list of local ",
        "layers has ", local_layers.size(), " entries for ", layers, " layers");
  check(experts >= 0 && experts <= 4096, "model: the number of experts must be in [0, 4096], got ",
        experts);
  check(experts == 0 || (experts_used >= 1 && experts_used <= experts), "model: of ", experts,
        " experts, between 1 and all must be used, got ", experts_used);
  const nn::RotaryEmbedding checked(rotary_dim, rope);
}

int64_t ModelConfig::cache_bytes_per_token(DType dtype) const {
  const int64_t cached =
      kv_heads_by_rank.empty()
          ? kv_heads
          : std::accumulate(kv_heads_by_rank.begin(), kv_heads_by_rank.end(), int64_t{0});
  return 2 * layers * cached * bytes_of(dtype, head_dim);
}

}  // namespace tensora::llm
