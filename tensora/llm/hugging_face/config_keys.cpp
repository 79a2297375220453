#include "tensora/llm/hugging_face/config_keys.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "tensora/base/check.h"
#include "tensora/io/mapped_file.h"
#include "tensora/llm/hugging_face/config_fields.h"
#include "tensora/llm/hugging_face/json_object.h"
#include "tensora/llm/hugging_face/rope_keys.h"

namespace tensora::llm {
namespace {

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

// A soft cap, which null turns off; GGUF says so by 0.
void set_cap(Keys& keys, const JsonObject& config, const char* name) {
  const double cap = config.number(name, 0);
  check(cap > 0 || !config.contains(name), "config.json: '", name,
        "' must be positive or null, got ", cap);
  keys.set(name, cap);
}

void set_attention(Keys& keys, const JsonObject& config, const ConfigFamily& family) {
  const int64_t heads = config.integer("num_attention_heads");
  keys.set("attention.head_count", heads);
  keys.set("attention.head_count_kv", config.integer("num_key_value_heads", heads));
  keys.set("attention.layer_norm_rms_epsilon", config.number("rms_norm_eps"));
  check(heads > 0, "config.json: 'num_attention_heads' must be positive, got ", heads);
  const int64_t head_dim = config.integer("head_dim", config.integer("hidden_size") / heads);
  keys.set("attention.key_length", head_dim);
  keys.set("attention.value_length", head_dim);
  if (is_used(family, "query_pre_attn_scalar"))
    keys.set("attention.scale", 1 / std::sqrt(config.number("query_pre_attn_scalar")));
  for (const char* name : {"attn_logit_softcapping", "final_logit_softcapping"})
    if (is_used(family, name)) set_cap(keys, config, name);
}

// Which layers see a window only.
std::vector<int64_t> local_layers(const JsonObject& config, const ConfigFamily& family,
                                  int64_t window) {
  const int64_t layers = config.integer("num_hidden_layers");
  check(layers > 0 && layers <= (1 << 16), "config.json: 'num_hidden_layers' is ", layers);
  std::vector<int64_t> local(static_cast<size_t>(layers), window > 0);
  if (config.contains("layer_types")) {
    const std::vector<std::string> types = config.texts("layer_types");
    check(types.size() == local.size(), "config.json: 'layer_types' has ", types.size(),
          " entries for ", layers, " layers");
    for (size_t i = 0; i < types.size(); ++i) {
      check(types[i] == "sliding_attention" || types[i] == "full_attention", "config.json: layer ",
            i, " is of '", types[i],
            "', which is not supported; expected full_attention or sliding_attention");
      local[i] = types[i] == "sliding_attention";
    }
  } else if (family.window_period > 0) {
    const int64_t period = config.integer("sliding_window_pattern", family.window_period);
    check(period > 0, "config.json: 'sliding_window_pattern' must be positive, got ", period);
    for (int64_t i = 0; i < layers; ++i) local[static_cast<size_t>(i)] = (i + 1) % period != 0;
  } else if (is_used(family, "max_window_layers")) {
    const int64_t first = config.integer("max_window_layers");
    for (int64_t i = 0; i < std::min(first, layers); ++i) local[static_cast<size_t>(i)] = 0;
  }
  return local;
}

void set_window(Keys& keys, const JsonObject& config, const ConfigFamily& family) {
  if (!is_used(family, "sliding_window")) return;
  const bool on = !is_used(family, "use_sliding_window") || config.boolean("use_sliding_window");
  const int64_t window = on ? config.integer("sliding_window", 0) : 0;
  check(window > 0 || !on || !config.contains("sliding_window"),
        "config.json: 'sliding_window' must be positive or null, got ", window);
  const std::vector<int64_t> local = local_layers(config, family, window);
  const auto count = std::count(local.begin(), local.end(), 1);
  if (count == 0) return;
  check(window > 0, "config.json: some layers have sliding attention, but there is no ",
        on ? "'sliding_window'" : "'use_sliding_window'");
  keys.set("attention.sliding_window", window);
  const int64_t period = family.window_period;
  bool periodic = period > 0;
  for (size_t i = 0; periodic && i < local.size(); ++i)
    periodic = (local[i] == 0) == ((static_cast<int64_t>(i) + 1) % period == 0);
  if (periodic)
    keys.set("attention.sliding_window_pattern", period);
  else if (period > 0 || count < std::ssize(local))
    keys.set("attention.sliding_window_pattern", MetadataValue(local, MetadataType::boolean));
}

void set_experts(Keys& keys, const JsonObject& config, const ConfigFamily& family) {
  if (!is_used(family, "num_experts_per_tok")) return;
  // Two names of one field; the one that a family does not prefer is null unless a file has it.
  const bool prefers_local = family.model_type == "mixtral";
  const char* const first = prefers_local ? "num_experts" : "num_local_experts";
  const char* const second = prefers_local ? "num_local_experts" : "num_experts";
  keys.set("expert_count", config.integer(first, config.integer(second)));
  keys.set("expert_used_count", config.integer("num_experts_per_tok"));
  if (is_used(family, "moe_intermediate_size"))
    keys.set("expert_feed_forward_length", config.integer("moe_intermediate_size"));
  if (is_used(family, "norm_topk_prob"))
    keys.set("expert_weights_norm", config.boolean("norm_topk_prob"));
}

void set_tokens(Metadata& metadata, const JsonObject& file) {
  const auto set = [&](const char* key, const std::vector<int64_t>& ids, size_t which) {
    if (ids.size() > which) metadata.set(concat("tokenizer.ggml.", key), ids[which]);
  };
  set("bos_token_id", file.integers("bos_token_id"), 0);
  set("eos_token_id", file.integers("eos_token_id"), 0);
  set("eot_token_id", file.integers("eos_token_id"), 1);
  set("eom_token_id", file.integers("eos_token_id"), 2);
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
  check(!whole.contains("quantization_config"),
        "config.json: weights that are quantized in Hugging Face's ways are not supported; use the "
        "original folder");
  // gemma3 also sees; of it, the part that reads and writes.
  const bool nested = whole.text("model_type") == "gemma3";
  const ConfigFamily& family = find_family(nested ? "gemma3_text" : whole.text("model_type"));
  FolderConfig result;
  const ConfigFields groups[] = {family.fields, common_config_fields()};
  const JsonObject config =
      checked_fields(nested ? whole.object("text_config").value_or(whole) : whole, groups,
                     concat(family.model_type, " models"), result.ignored);
  result.architecture = family.architecture;
  result.metadata.set("general.architecture", result.architecture);
  result.metadata.set("general.type", "model");
  result.metadata.set("general.name",
                      std::filesystem::weakly_canonical(folder).filename().string());
  // Several families share an architecture of GGUF; this tells them apart when a folder is written.
  result.metadata.set("hugging_face.model_type", std::string(family.model_type));
  Keys keys(result);
  keys.set("context_length", config.integer("max_position_embeddings"));
  keys.set("embedding_length", config.integer("hidden_size"));
  keys.set("block_count", config.integer("num_hidden_layers"));
  keys.set("feed_forward_length", config.integer("intermediate_size"));
  keys.set("vocab_size", config.integer("vocab_size"));
  set_attention(keys, config, family);
  set_window(keys, config, family);
  set_experts(keys, config, family);
  set_rope(result, config, family.model_type);
  const bool tied = config.boolean("tie_word_embeddings");
  result.tied = nested ? whole.boolean("tie_word_embeddings", tied) : tied;
  const bool attention_bias = is_used(family, "attention_bias") && config.boolean("attention_bias");
  result.biases = {.qkv = family.qkv_bias || attention_bias,
                   .output = attention_bias,
                   .feed_forward = is_used(family, "mlp_bias") && config.boolean("mlp_bias")};
  set_tokens(result.metadata, whole);
  if (const auto generation = JsonObject::read_if_there(folder + "/generation_config.json")) {
    set_tokens(result.metadata, *generation);
    set_sampling(result.metadata, *generation);
  }
  set_chat_template(result.metadata, folder);
  return result;
}

}  // namespace tensora::llm
