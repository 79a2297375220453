#include "tensora/llm/hugging_face/config_keys.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "tensora/base/check.h"
#include "tensora/io/mapped_file.h"
#include "tensora/llm/hugging_face/config_json.h"
#include "tensora/llm/hugging_face/json_object.h"

namespace tensora::llm {
namespace {

struct Kind {
  std::string_view model_type, architecture;
};
constexpr Kind kKinds[] = {
    {"llama", "llama"},   {"mistral", "llama"},      {"mixtral", "llama"}, {"qwen2", "qwen2"},
    {"qwen3", "qwen3"},   {"qwen3_moe", "qwen3moe"}, {"gemma", "gemma"},   {"gemma2", "gemma2"},
    {"gemma3", "gemma3"}, {"gemma3_text", "gemma3"}, {"phi3", "phi3"},
};

std::string architecture_of(const std::string& model_type) {
  std::string known;
  for (const Kind& kind : kKinds) {
    if (kind.model_type == model_type) return std::string(kind.architecture);
    known += concat(known.empty() ? "" : ", ", kind.model_type);
  }
  fail("config.json: models of the type '", model_type, "' are not supported; known are ", known);
}

// Writes one architecture's keys.
class Keys {
 public:
  explicit Keys(FolderConfig& config) : config_(config) {}
  template <class T>
  void set(std::string_view key, T value) {
    config_.metadata.set(concat(config_.architecture, ".", key), value);
  }

 private:
  FolderConfig& config_;
};

void set_attention(Keys& keys, const JsonObject& config) {
  const int64_t heads = config.integer("num_attention_heads");
  keys.set("attention.head_count", heads);
  keys.set("attention.head_count_kv", config.integer("num_key_value_heads", heads));
  keys.set("attention.layer_norm_rms_epsilon", config.number("rms_norm_eps"));
  if (config.contains("head_dim")) {
    keys.set("attention.key_length", config.integer("head_dim"));
    keys.set("attention.value_length", config.integer("head_dim"));
  }
  if (config.contains("query_pre_attn_scalar"))
    keys.set("attention.scale", 1 / std::sqrt(config.number("query_pre_attn_scalar")));
  for (const char* name : {"attn_logit_softcapping", "final_logit_softcapping"})
    if (config.contains(name)) keys.set(name, config.number(name));
}

// Which layers look at a window only. GGUF's readers know the pattern of an architecture, so that a
// folder with another one cannot be expressed.
void set_window(Keys& keys, const JsonObject& config, std::string_view architecture) {
  const bool used = config.boolean("use_sliding_window", true) && config.contains("sliding_window");
  const int64_t period = architecture == "gemma2" ? 2 : architecture == "gemma3" ? 6 : 0;
  bool any = used;
  if (config.contains("layer_types")) {
    const std::vector<std::string> types = config.texts("layer_types");
    any = std::count(types.begin(), types.end(), "sliding_attention") > 0;
    for (size_t i = 0; i < types.size(); ++i) {
      const bool local = period > 0 ? static_cast<int64_t>(i) % period < period - 1 : any;
      check((types[i] == "sliding_attention") == local, "config.json: layer ", i, " is of '",
            types[i], "', which is not the pattern of ", architecture);
    }
  }
  if (!used || !any) return;
  keys.set("attention.sliding_window", config.integer("sliding_window"));
  if (period > 0) keys.set("attention.sliding_window_pattern", period);
}

void set_experts(Keys& keys, const JsonObject& config) {
  const char* const count =
      config.contains("num_local_experts") ? "num_local_experts" : "num_experts";
  if (!config.contains(count)) return;
  keys.set("expert_count", config.integer(count));
  keys.set("expert_used_count", config.integer("num_experts_per_tok"));
  if (config.contains("moe_intermediate_size"))
    keys.set("expert_feed_forward_length", config.integer("moe_intermediate_size"));
  if (config.contains("norm_topk_prob"))
    keys.set("expert_weights_norm", config.boolean("norm_topk_prob", true));
}

void set_longrope(FolderConfig& result, Keys& keys, const JsonObject& config,
                  const JsonObject& rope) {
  result.rope_factors_long = rope.numbers("long_factor");
  result.rope_factors_short = rope.numbers("short_factor");
  const auto context = static_cast<double>(config.integer("max_position_embeddings"));
  const double original = rope.number("original_max_position_embeddings",
                                      config.number("original_max_position_embeddings", context));
  const double factor = rope.number("factor", context / original);
  const double strength = factor > 1 ? std::sqrt(1 + std::log(factor) / std::log(original)) : 1;
  keys.set("rope.scaling.original_context_length", static_cast<int64_t>(original));
  keys.set("rope.scaling.attn_factor", rope.number("attention_factor", strength));
}

void set_yarn(Keys& keys, const JsonObject& config, const JsonObject& rope) {
  const double factor = rope.number("factor");
  keys.set("rope.scaling.type", "yarn");
  keys.set("rope.scaling.factor", factor);
  keys.set(
      "rope.scaling.original_context_length",
      rope.integer("original_max_position_embeddings", config.integer("max_position_embeddings")));
  if (rope.contains("beta_fast")) keys.set("rope.scaling.yarn_beta_fast", rope.number("beta_fast"));
  if (rope.contains("beta_slow")) keys.set("rope.scaling.yarn_beta_slow", rope.number("beta_slow"));
  // GGUF's factor stands beside the usual strength of yarn, this one instead of it.
  if (rope.contains("attention_factor"))
    keys.set("rope.scaling.attn_factor",
             rope.number("attention_factor") / (1 + 0.1 * std::log(std::max(1.0, factor))));
}

void set_rope(FolderConfig& result, Keys& keys, const JsonObject& config) {
  std::optional<JsonObject> rope = config.object("rope_parameters");
  if (!rope) rope = config.object("rope_scaling");
  double local_base = config.number("rope_local_base_freq", 0);
  if (rope && rope->contains("full_attention")) {  // a set of numbers per kind of layer
    if (const auto local = rope->object("sliding_attention"))
      local_base = local->number("rope_theta");
    rope = rope->object("full_attention");
  }
  const double base = config.number("rope_theta", rope ? rope->number("rope_theta", 10000) : 10000);
  const int64_t heads = config.integer("num_attention_heads");
  check(heads > 0, "config.json: 'num_attention_heads' must be positive, got ", heads);
  const int64_t head_dim = config.integer("head_dim", config.integer("hidden_size") / heads);
  const double share =
      config.number("partial_rotary_factor", rope ? rope->number("partial_rotary_factor", 1) : 1);
  check(head_dim > 0 && head_dim <= (1 << 16) && share > 0 && share <= 1, "config.json: heads of ",
        head_dim, " numbers, of which ", share, " rotate, make no sense");
  const auto dim = static_cast<int64_t>(static_cast<double>(head_dim) * share);
  keys.set("rope.freq_base", base);
  keys.set("rope.dimension_count", dim);
  if (local_base > 0) keys.set("rope.freq_base_swa", local_base);
  if (!rope) return;
  const std::string type = rope->text("rope_type", rope->text("type", "default"));
  // "dynamic" changes nothing within the length that the model was trained for.
  if (type == "default" || type == "dynamic") return;
  if (type == "linear") {
    keys.set("rope.scaling.type", "linear");
    keys.set("rope.scaling.factor", rope->number("factor"));
  } else if (type == "llama3") {
    const Llama3Rope numbers{.factor = rope->number("factor", 8),
                             .low = rope->number("low_freq_factor", 1),
                             .high = rope->number("high_freq_factor", 4),
                             .length = rope->number("original_max_position_embeddings", 8192)};
    result.rope_freqs = llama3_divisors(numbers, base, dim);
    keys.set("rope.scaling.original_context_length", static_cast<int64_t>(numbers.length));
  } else if (type == "yarn") {
    set_yarn(keys, config, *rope);
  } else if (type == "longrope" || type == "su") {
    set_longrope(result, keys, config, *rope);
  } else {
    fail("config.json: the rope scaling '", type,
         "' is not supported; known are linear, dynamic, llama3, yarn and longrope");
  }
}

void set_tokens(Metadata& metadata, const JsonObject& file) {
  const auto set = [&](const char* key, const std::vector<int64_t>& ids, size_t which) {
    if (ids.size() > which) metadata.set(concat("tokenizer.ggml.", key), ids[which]);
  };
  set("bos_token_id", file.integers("bos_token_id"), 0);
  set("eos_token_id", file.integers("eos_token_id"), 0);
  set("eot_token_id", file.integers("eos_token_id"), 1);
  set("padding_token_id", file.integers("pad_token_id"), 0);
}

void set_sampling(Metadata& metadata, const JsonObject& file) {
  const auto set = [&](const char* name, const char* key) {
    if (file.contains(name)) metadata.set(concat("general.sampling.", key), file.number(name));
  };
  set("temperature", "temp");
  set("top_p", "top_p");
  set("min_p", "min_p");
  set("repetition_penalty", "penalty_repeat");
  if (file.contains("top_k"))
    metadata.set("general.sampling.top_k", file.integer("top_k"), MetadataType::int32);
}

// The template is in tokenizer_config.json, or in a file of its own.
void set_chat_template(Metadata& metadata, const std::string& folder) {
  constexpr const char* kKey = "tokenizer.chat_template";
  const std::string own = folder + "/chat_template.jinja";
  std::error_code ignored;
  if (std::filesystem::exists(own, ignored)) {
    const auto file = io::reading("chat template", own, [&] { return io::MappedFile::open(own); });
    const io::ConstBytes bytes = file->bytes();
    metadata.set(kKey, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    return;
  }
  const auto config = JsonObject::read_if_there(folder + "/tokenizer_config.json");
  const JsonObject::Json* found = config ? config->find("chat_template") : nullptr;
  if (!found) return;
  if (found->is_string()) return metadata.set(kKey, found->get<std::string>());
  if (!found->is_array()) return;
  for (const auto& entry : *found) {  // {name, template}
    if (!entry.is_object() || !entry.contains("name") || !entry.contains("template")) continue;
    if (!entry["name"].is_string() || !entry["template"].is_string()) continue;
    const auto name = entry["name"].get<std::string>();
    metadata.set(name == "default" ? kKey : concat(kKey, ".", name),
                 entry["template"].get<std::string>());
  }
}

}  // namespace

FolderConfig read_folder_config(const std::string& folder) {
  const JsonObject whole = JsonObject::read(folder + "/config.json");
  // Of a model that also sees, the part that reads and writes.
  const JsonObject config = whole.object("text_config").value_or(whole);
  check(!whole.contains("quantization_config"),
        "config.json: weights that are quantized in Hugging Face's ways are not supported; use the "
        "original folder");
  FolderConfig result;
  result.architecture = architecture_of(whole.text("model_type"));
  result.metadata.set("general.architecture", result.architecture);
  result.metadata.set("general.type", "model");
  result.metadata.set("general.name",
                      std::filesystem::weakly_canonical(folder).filename().string());
  Keys keys(result);
  keys.set("context_length", config.integer("max_position_embeddings"));
  keys.set("embedding_length", config.integer("hidden_size"));
  keys.set("block_count", config.integer("num_hidden_layers"));
  keys.set("feed_forward_length", config.integer("intermediate_size"));
  keys.set("vocab_size", config.integer("vocab_size"));
  set_attention(keys, config);
  set_window(keys, config, result.architecture);
  set_experts(keys, config);
  set_rope(result, keys, config);
  const bool gemma = result.architecture.starts_with("gemma");
  result.tied = whole.boolean("tie_word_embeddings", config.boolean("tie_word_embeddings", gemma));
  set_tokens(result.metadata, whole);
  if (const auto generation = JsonObject::read_if_there(folder + "/generation_config.json")) {
    set_tokens(result.metadata, *generation);
    set_sampling(result.metadata, *generation);
  }
  set_chat_template(result.metadata, folder);
  return result;
}

}  // namespace tensora::llm
