// Every field of a config.json is used, known not to matter, or refused by name.

#include "tensora/llm/hugging_face/config_fields.h"

#include "../io/files.h"
#include "tensora/llm/hugging_face/config_keys.h"
#include "tensora/llm/model_config.h"

namespace tensora::llm {
namespace {

using testing::contains;
using testing::error_of;
using testing::TemporaryFolder;
using testing::write_file;

/// Reads a config.json of this kind of model, in which `more` is added or replaces.
class ConfigFieldsTest : public ::testing::Test {
 protected:
  FolderConfig read(const std::string& type, const std::string& more = "") {
    nlohmann::json json = nlohmann::json::parse(
        R"({"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 4,
            "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 40,
            "max_position_embeddings": 64, "rms_norm_eps": 1e-5})");
    json["model_type"] = type;
    json.update(nlohmann::json::parse("{" + more + "}"));
    write_file(folder_ / "config.json", json.dump());
    return read_folder_config(folder_.path());
  }
  std::string problem(const std::string& type, const std::string& more) {
    return error_of([&] { read(type, more); });
  }
  ModelConfig model(const std::string& type, const std::string& more = "") {
    return ModelConfig::from(read(type, more).metadata);
  }
  std::vector<int64_t> local(const std::string& type, const std::string& more) {
    const ModelConfig config = model(type, more);
    std::vector<int64_t> result;
    for (int64_t i = 0; i < config.layers; ++i)
      if (config.is_local(i)) result.push_back(i);
    return result;
  }

  TemporaryFolder folder_;
};

TEST_F(ConfigFieldsTest, what_is_not_implemented_is_refused_by_name) {
  struct Row {
    const char *type, *more, *says;
  };
  for (const Row& row : {
           Row{"llama", R"("hidden_act": "gelu")", "'hidden_act' is \"gelu\""},
           Row{"llama", R"("hidden_act": null)", "'hidden_act' is null"},
           Row{"qwen2", R"("hidden_act": "relu")", "one of [\"silu\",\"swish\"]"},
           Row{"gemma", R"("hidden_act": "silu")", "'hidden_act'"},
           Row{"gemma2", R"("hidden_activation": "silu")", "'hidden_activation'"},
           Row{"gemma3_text", R"("hidden_activation": "gelu")", "'hidden_activation'"},
           Row{"gemma", R"("use_bidirectional_attention": true)", "for gemma models"},
           Row{"gemma2", R"("use_bidirectional_attention": true)", "'use_bidirectional_attention'"},
           Row{"gemma3_text", R"("use_bidirectional_attention": true)", "bidirectional"},
           Row{"gemma3_text", R"("attn_logit_softcapping": 50.0)", "'attn_logit_softcapping'"},
           Row{"gemma2", R"("attn_logit_softcapping": 0.0)", "must be positive or null"},
           Row{"llama", R"("is_causal": false)", "'is_causal'"},
           Row{"llama", R"("per_layer_config": {"0": {"hidden_size": 8}})", "'per_layer_config'"},
           Row{"llama", R"("pruned_heads": {"0": [1]})", "'pruned_heads'"},
           Row{"qwen3_moe", R"("mlp_only_layers": [0])", "'mlp_only_layers' is [0]"},
           Row{"qwen3_moe", R"("decoder_sparse_step": 2)", "'decoder_sparse_step' is 2"},
           Row{"llama", R"("partial_rotary_factor": 0.5)", "'partial_rotary_factor' is 0.5"},
           Row{"qwen2", R"("rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5})",
               "'partial_rotary_factor' is 0.5"},
           Row{"llama", R"("rope_scaling": {"rope_type": "proportional"})", "'proportional'"},
           Row{"phi3", R"("rope_scaling": {"rope_type": "linear", "factor": 2.0})",
               "'linear' is not supported for phi3"},
           Row{"qwen2", R"("rope_parameters": {"full_attention": {"rope_theta": 5.0}})",
               "'full_attention'"},
           Row{"gemma3_text", R"("rope_parameters": {"rope_theta": 5.0})", "'rope_theta'"},
           Row{"gemma3_text", R"("rope_scaling": {"type": "linear", "factor": 2.0})",
               "expected rope_type"},
           Row{"gemma3_text", R"("rope_parameters": {"sliding_attention":
               {"rope_type": "linear", "factor": 2.0}})",
               "'linear' of sliding_attention"},
           Row{"llama", R"("rope_scaling": {"rope_type": "llama3", "factor": 2.0})",
               "'low_freq_factor'"},
           Row{"mistral", R"("sliding_window": 0)", "'sliding_window' must be positive or null"},
           Row{"gemma2", R"("sliding_window": null)", "there is no 'sliding_window'"},
           Row{"qwen2", R"("layer_types": ["sliding_attention", "full_attention",
               "full_attention", "full_attention"])",
               "'use_sliding_window'"},
           Row{"qwen3", R"("layer_types": ["full_attention"])", "1 entries for 4 layers"},
           Row{"llama", R"("tie_word_embeddings": null)", "'tie_word_embeddings'"},
           Row{"llama", R"("attention_bias": "yes")", "'attention_bias': expected true or false"},
       }) {
    const std::string error = problem(row.type, row.more);
    EXPECT_TRUE(contains(error, row.says)) << row.type << " " << row.more << "\n" << error;
  }
}

TEST_F(ConfigFieldsTest, neutral_values_are_taken) {
  EXPECT_EQ(problem("llama", R"("hidden_act": "swish", "pruned_heads": {}, "is_causal": true,
      "partial_rotary_factor": 1.0, "attention_dropout": 0.1, "pretraining_tp": 2,
      "torch_dtype": "bfloat16", "use_cache": false, "auto_map": {"AutoModel": "x"})"),
            "");
  EXPECT_EQ(problem("gemma", R"("hidden_act": "gelu", "hidden_activation": null)"), "");
  EXPECT_EQ(problem("gemma3_text", R"("attn_logit_softcapping": null, "hidden_act": "x")"), "");
  EXPECT_EQ(problem("qwen3_moe", R"("mlp_only_layers": [], "decoder_sparse_step": 1)"), "");
}

TEST_F(ConfigFieldsTest, others_are_ignored_and_named) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(read("llama", R"("initializer_range": 0.02, "_name_or_path": "x")").ignored, Names());
  // Not of this family in transformers, or not known at all; those that are off are not named.
  EXPECT_EQ(read("llama", R"("sliding_window": 7, "strange": {"a": 1}, "odd": false, "no": null,
      "rope_scaling": {"type": "linear", "factor": 2.0, "mrope_section": [1, 1]})")
                .ignored,
            (Names{"sliding_window", "strange", "rope_scaling.mrope_section"}));
}

TEST_F(ConfigFieldsTest, windows_are_those_of_transformers) {
  using Layers = std::vector<int64_t>;
  const Layers none, all{0, 1, 2, 3};
  EXPECT_EQ(local("llama", R"("sliding_window": 7)"), none);
  EXPECT_EQ(local("gemma", R"("sliding_window": 7)"), none);
  EXPECT_EQ(local("mistral", R"("sliding_window": 7)"), all);
  EXPECT_EQ(local("mistral", R"("sliding_window": null)"), none);
  EXPECT_EQ(model("mistral").window, 4096);  // the default
  EXPECT_EQ(local("mistral", R"("sliding_window": 7, "layer_types": ["full_attention",
      "sliding_attention", "full_attention", "sliding_attention"])"),
            (Layers{1, 3}));
  EXPECT_EQ(local("mixtral", ""), none);
  EXPECT_EQ(local("phi3", R"("sliding_window": 7)"), all);
  EXPECT_EQ(local("qwen2", R"("sliding_window": 7)"), none);  // use_sliding_window is false
  const std::string used = R"("use_sliding_window": true, "sliding_window": 7)";
  EXPECT_EQ(local("qwen2", used), none);  // the first 28 layers see everything
  EXPECT_EQ(local("qwen2", used + R"(, "max_window_layers": 1)"), (Layers{1, 2, 3}));
  EXPECT_EQ(local("qwen3", used + R"(, "max_window_layers": 0)"), all);
  EXPECT_EQ(local("qwen3_moe", used), all);
  EXPECT_EQ(local("qwen3", used + R"(, "layer_types": ["sliding_attention", "full_attention",
      "full_attention", "sliding_attention"])"),
            (Layers{0, 3}));
  EXPECT_EQ(local("gemma2", ""), (Layers{0, 2}));
  EXPECT_EQ(local("gemma2", R"("layer_types": ["full_attention", "sliding_attention",
      "full_attention", "full_attention"])"),
            Layers{1});
  EXPECT_EQ(local("gemma3_text", ""), all);
  EXPECT_EQ(local("gemma3_text", R"("sliding_window_pattern": 2)"), (Layers{0, 2}));
}

TEST_F(ConfigFieldsTest, defaults_are_those_of_transformers) {
  const ModelConfig gemma2 = model("gemma2");
  EXPECT_EQ(gemma2.attention_softcap, 50);
  EXPECT_EQ(gemma2.final_softcap, 30);
  EXPECT_EQ(gemma2.head_dim, 256);
  EXPECT_EQ(gemma2.attention_scale, 1.0 / 16);
  const ModelConfig plain =
      model("gemma2", R"("attn_logit_softcapping": null, "final_logit_softcapping": null)");
  EXPECT_EQ(plain.attention_softcap, 0);
  EXPECT_EQ(plain.final_softcap, 0);
  EXPECT_FALSE(model("qwen3_moe").normalize_experts);
  EXPECT_TRUE(model("qwen3_moe", R"("norm_topk_prob": true)").normalize_experts);
  EXPECT_TRUE(model("mixtral", R"("norm_topk_prob": false)").normalize_experts);
  EXPECT_EQ(model("mixtral", R"("num_experts": 3)").experts, 3);
  EXPECT_EQ(model("mixtral").rope.base, 1e6);
  EXPECT_EQ(model("gemma3_text").rope.base, 1e6);
  EXPECT_EQ(model("gemma3_text").local_rope_base, 1e4);
  EXPECT_TRUE(read("gemma").tied);
  EXPECT_FALSE(read("phi3").tied);
  // The 4B model's file says no more than this.
  write_file(folder_ / "config.json", R"({"model_type": "gemma3", "text_config":
      {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
       "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024}})");
  const ModelConfig small = ModelConfig::from(read_folder_config(folder_.path()).metadata);
  EXPECT_EQ(small.heads, 8);
  EXPECT_EQ(small.kv_heads, 4);
  EXPECT_EQ(small.rope.scaling.factor, 8);
  EXPECT_EQ(small.context_length, 131072);
}

TEST_F(ConfigFieldsTest, rope_is_that_of_transformers) {
  const auto rope = [&](const std::string& fields) {
    return model("llama", concat(R"("rope_theta": 7.0, "rope_scaling": {)", fields, "}")).rope;
  };
  // What the object says goes before what stands beside it.
  EXPECT_EQ(rope(R"("rope_theta": 5.0)").base, 5);
  EXPECT_EQ(rope("").base, 7);
  const auto dynamic = rope(R"("type": "dynamic", "factor": 3.0)").scaling;
  EXPECT_EQ(dynamic.type, "dynamic");
  EXPECT_EQ(dynamic.factor, 3);
  const auto yarn = rope(R"("type": "yarn", "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 0.5,
      "truncate": false, "beta_fast": 16)")
                        .scaling;
  EXPECT_FALSE(yarn.truncate);
  EXPECT_EQ(yarn.beta_fast, 16);
  EXPECT_EQ(yarn.original_max_positions, 64);
  const double log = 0.1 * std::log(4.0);
  EXPECT_NEAR(yarn.attention_factor.value(), (1 + log) / (1 + 0.5 * log), 1e-7);
  EXPECT_EQ(rope(R"("type": "yarn", "factor": 4.0)").scaling.attention_factor, std::nullopt);
  // phi3's original length stands beside the scaling, and is 4096 unless given.
  const FolderConfig phi = read("phi3", R"("rope_scaling": {"type": "su",
      "long_factor": [1, 2], "short_factor": [1, 1], "original_max_position_embeddings": 5})");
  EXPECT_EQ(phi.metadata.get<int64_t>("phi3.rope.scaling.original_context_length"), 4096);
}

}  // namespace
}  // namespace tensora::llm
