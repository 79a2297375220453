#include "tensora/llm/hugging_face/rope_keys.h"

#include <algorithm>
#include <cmath>

#include "tensora/base/check.h"
#include "tensora/llm/hugging_face/config_fields.h"
#include "tensora/llm/hugging_face/config_json.h"

namespace tensora::llm {
namespace {

using Json = JsonObject::Json;

// The fields of each type of scaling. Numbers whose default depends on others are null.
struct RopeType {
  std::string_view name;
  ConfigFields fields;
};
constexpr std::string_view kShared = R"({"rope_theta": null, "rope_type": null, "type": null,
                                         "partial_rotary_factor": null})";
constexpr RopeType kTypes[] = {
    {"default", {}},
    {"linear", {.used = R"({"factor": null})"}},
    {"dynamic", {.used = R"({"factor": null})"}},
    {"llama3", {.used = R"({"factor": null, "original_max_position_embeddings": null,
                  "low_freq_factor": null, "high_freq_factor": null})"}},
    {"yarn", {.used = R"({"factor": null, "original_max_position_embeddings": null,
                  "attention_factor": null, "beta_fast": 32, "beta_slow": 1, "mscale": null,
                  "mscale_all_dim": null, "truncate": true})"}},
    {"longrope", {.used = R"({"factor": null, "original_max_position_embeddings": null,
                  "attention_factor": null, "short_factor": null, "long_factor": null})"}},
};

class RopeKeys {
 public:
  RopeKeys(FolderConfig& result, const JsonObject& config, std::string_view model_type)
      : result_(result), config_(config), model_type_(model_type) {
    const int64_t heads = config.integer("num_attention_heads");
    check(heads > 0, "config.json: 'num_attention_heads' must be positive, got ", heads);
    head_dim_ = config.integer("head_dim", config.integer("hidden_size") / heads);
    positions_ = config.integer("max_position_embeddings");
    check(positions_ > 0, "config.json: 'max_position_embeddings' must be positive, got ",
          positions_);
  }

  void set_all() {
    if (model_type_ == "gemma3_text") return set_both_kinds();
    // transformers prefers the older name, unless it is empty.
    JsonObject rope = object_or_empty(config_, "rope_scaling");
    if (rope.json().empty()) rope = object_or_empty(config_, "rope_parameters");
    for (const char* kind : {"full_attention", "sliding_attention"})
      check(!rope.contains(kind), "config.json: rope parameters per kind of layer ('", kind,
            "') are not supported for ", model_type_, " models");
    set_global(rope, rope.number("rope_theta", config_.number("rope_theta")));
  }

 private:
  template <class T>
  void set(std::string_view key, T value) {
    result_.metadata.set(concat(result_.architecture, ".rope.", key), value);
  }

  static JsonObject object_or_empty(const JsonObject& from, const std::string& key) {
    return from.object(key).value_or(JsonObject(Json::object(), from.file()));
  }

  // gemma3: numbers of its own for each kind of layer. `rope_scaling` is of the global ones.
  void set_both_kinds() {
    const JsonObject both = object_or_empty(config_, "rope_parameters");
    for (const auto& [name, value] : both.json().items())
      check(name == "full_attention" || name == "sliding_attention", "config.json: '", name,
            "' in rope_parameters is not supported for ", model_type_,
            " models; expected full_attention and sliding_attention");
    Json global = object_or_empty(both, "full_attention").json();
    const JsonObject scaling = object_or_empty(config_, "rope_scaling");
    // transformers overlooks the old name here, and does not scale.
    check(!scaling.contains("type") || scaling.contains("rope_type"),
          "config.json: 'type' in rope_scaling is not supported for ", model_type_,
          " models; expected rope_type");
    global.update(scaling.json());
    const JsonObject local = object_or_empty(both, "sliding_attention");
    const std::string local_type = type_of(local);
    check(local_type == "default", "config.json: the rope scaling '", local_type,
          "' of sliding_attention is not supported; expected default");
    set("freq_base_swa", local.number("rope_theta", config_.number("rope_local_base_freq")));
    const JsonObject rope(global, config_.file());
    set_global(rope, rope.number("rope_theta", config_.number("rope_theta")));
  }

  static std::string type_of(const JsonObject& rope) {
    return rope.text("rope_type", rope.text("type", "default"));
  }

  JsonObject checked(const JsonObject& rope, const std::string& type) {
    std::string known;
    for (const RopeType& row : kTypes) {
      if (row.name != type) {
        known += concat(known.empty() ? "" : ", ", row.name);
        continue;
      }
      const ConfigFields groups[] = {row.fields, {.used = kShared}};
      std::vector<std::string> ignored;
      JsonObject result = checked_fields(rope, groups, concat("the rope scaling ", type), ignored);
      for (const std::string& name : ignored) result_.ignored.push_back("rope_scaling." + name);
      return result;
    }
    fail("config.json: the rope scaling '", type, "' is not supported; known are ", known);
  }

  void set_global(const JsonObject& given, double base) {
    std::string type = type_of(given);
    const bool phi = model_type_ == "phi3";
    if (type == "su" || (phi && type == "yarn")) type = "longrope";  // names of early files
    check(!phi || type == "default" || type == "longrope", "config.json: the rope scaling '", type,
          "' is not supported for phi3 models; expected default or longrope");
    const JsonObject rope = checked(given, type);
    const double share =
        rope.number("partial_rotary_factor", config_.number("partial_rotary_factor", 1));
    check(phi || share == 1, "config.json: 'partial_rotary_factor' is ", share,
          ", which is not supported for ", model_type_, " models; expected 1");
    check(head_dim_ > 0 && head_dim_ <= (1 << 16) && share > 0 && share <= 1,
          "config.json: heads of ", head_dim_, " numbers, of which ", share,
          " rotate, make no sense");
    const auto dim = static_cast<int64_t>(static_cast<double>(head_dim_) * share);
    set("freq_base", base);
    set("dimension_count", dim);
    // phi3 has the original length beside the scaling, and prefers that one.
    original_ = phi ? config_.integer("original_max_position_embeddings")
                    : rope.integer("original_max_position_embeddings", positions_);
    check(original_ > 0, "config.json: 'original_max_position_embeddings' must be positive, got ",
          original_);
    if (phi) set("scaling.original_context_length", original_);
    if (type == "linear") {
      set("scaling.type", "linear");
      set("scaling.factor", rope.number("factor"));
    } else if (type == "dynamic") {
      // No type of GGUF: other programs read the file as unscaled, which it is up to the context
      // that the model was trained for.
      set("scaling.dynamic_factor", rope.number("factor"));
    } else if (type == "llama3") {
      set_llama3(rope, base, dim);
    } else if (type == "yarn") {
      set_yarn(rope);
    } else if (type == "longrope") {
      set_longrope(rope);
    }
  }

  // The numbers beside the divisors are for writing a config.json again.
  void set_llama3(const JsonObject& rope, double base, int64_t dim) {
    const Llama3Rope numbers{.factor = rope.number("factor"),
                             .low = rope.number("low_freq_factor"),
                             .high = rope.number("high_freq_factor"),
                             .length = static_cast<double>(original_)};
    result_.rope_freqs = llama3_divisors(numbers, base, dim);
    set("scaling.original_context_length", original_);
    set("scaling.llama3_factor", numbers.factor);
    set("scaling.low_freq_factor", numbers.low);
    set("scaling.high_freq_factor", numbers.high);
  }

  void set_yarn(const JsonObject& rope) {
    const double factor =
        rope.number("factor", static_cast<double>(positions_) / static_cast<double>(original_));
    set("scaling.type", "yarn");
    set("scaling.factor", factor);
    set("scaling.original_context_length", original_);
    // 0 stands for the default, as in transformers.
    const double fast = rope.number("beta_fast", 0), slow = rope.number("beta_slow", 0);
    set("scaling.yarn_beta_fast", fast == 0 ? 32 : fast);
    set("scaling.yarn_beta_slow", slow == 0 ? 1 : slow);
    const bool truncates = rope.boolean("truncate", true);
    check(truncates || model_type_ != "gemma3_text",
          "config.json: yarn's 'truncate' is false, which is not supported for gemma3_text models");
    if (!truncates) set("scaling.yarn_truncate", false);
    double strength = yarn_strength(factor);
    const double numerator = rope.number("mscale", 0),
                 denominator = rope.number("mscale_all_dim", 0);
    if (numerator != 0 && denominator != 0 && factor > 1)
      strength =
          (1 + 0.1 * numerator * std::log(factor)) / (1 + 0.1 * denominator * std::log(factor));
    strength = rope.number("attention_factor", strength);
    // GGUF's factor is multiplied with the usual strength of yarn, this one replaces it.
    if (strength != yarn_strength(factor))
      set("scaling.attn_factor", strength / yarn_strength(factor));
  }

  void set_longrope(const JsonObject& rope) {
    result_.rope_factors_long = rope.numbers("long_factor");
    result_.rope_factors_short = rope.numbers("short_factor");
    const auto original = static_cast<double>(original_);
    const double factor = rope.number("factor", static_cast<double>(positions_) / original);
    set("scaling.original_context_length", original_);
    set("scaling.attn_factor",
        rope.number("attention_factor", longrope_strength(factor, original)));
  }

  FolderConfig& result_;
  const JsonObject& config_;
  std::string_view model_type_;
  int64_t head_dim_ = 0, positions_ = 0, original_ = 0;
};

}  // namespace

double yarn_strength(double factor) { return 1 + 0.1 * std::log(std::max(1.0, factor)); }

double longrope_strength(double factor, double original) {
  return factor > 1 ? std::sqrt(1 + std::log(factor) / std::log(original)) : 1;
}

void set_rope(FolderConfig& result, const JsonObject& config, std::string_view model_type) {
  RopeKeys(result, config, model_type).set_all();
}

}  // namespace tensora::llm
