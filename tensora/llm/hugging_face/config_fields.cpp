#include "tensora/llm/hugging_face/config_fields.h"

#include <algorithm>

#include "tensora/base/check.h"

namespace tensora::llm {
namespace {

using Json = JsonObject::Json;

constexpr ConfigFields kCommon = {
    .used = R"({"bos_token_id": null, "eos_token_id": null, "pad_token_id": null,
                "rope_parameters": null, "rope_scaling": null, "rope_theta": 10000.0,
                "partial_rotary_factor": null, "head_dim": null})",
    .fixed = R"({"quantization_config": [null], "compression_config": [null],
                 "per_layer_config": [null, {}], "pruned_heads": [null, {}],
                 "is_causal": [true, null], "is_encoder_decoder": [false, null],
                 "add_cross_attention": [false, null]})",
    .irrelevant =
        // About the file and the program that wrote it.
    "model_type architectures auto_map _name_or_path name_or_path transformers_version "
    "transformers.js_config torch_dtype dtype unsloth_version unsloth_fixed unsloth_training "
    // Training: dropout and noise are off in inference, and there is no loss.
    "attention_dropout resid_pdrop embd_pdrop hidden_dropout initializer_range "
    "initializer_factor router_aux_loss_coef router_jitter_noise output_router_logits "
    "pretraining_tp neftune_noise_alpha gradient_checkpointing "
    // How transformers computes the same numbers, and what a call returns.
    "use_cache cache_implementation attn_implementation _attn_implementation "
    "_attn_implementation_autoset experts_implementation _flash_attn_2_enabled "
    "chunk_size_feed_forward torchscript use_bfloat16 tf_legacy_loss output_attentions "
    "output_hidden_states return_dict output_scores return_dict_in_generate is_decoder "
    "tie_encoder_decoder cross_attention_hidden_size decoder_start_token_id sep_token_id "
    // Heads for classification, which folders of language models do not have.
    "id2label label2id num_labels problem_type finetuning_task task_specific_params "
    "classifier_dropout summary_type tokenizer_class prefix "
    // Generation: options of the request decide; see generation_config.json.
    "max_length min_length max_new_tokens do_sample early_stopping num_beams num_beam_groups "
    "diversity_penalty temperature top_k top_p typical_p repetition_penalty length_penalty "
    "no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids num_return_sequences "
    "forced_bos_token_id forced_eos_token_id remove_invalid_values suppress_tokens "
    "exponential_decay_length_penalty begin_suppress_tokens",
};

constexpr std::string_view kSilu = R"({"hidden_act": ["silu", "swish"]})";

// The defaults are those of transformers' configuration classes.
constexpr ConfigFamily kFamilies[] = {
    {.model_type = "llama",
     .architecture = "llama",
     .model_class = "LlamaForCausalLM",
     .fields = {.used = R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": null,
         "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "tie_word_embeddings": false,
         "attention_bias": false, "mlp_bias": false, "head_dim": null})",
                .fixed = kSilu}},
    {.model_type = "mistral",
     .architecture = "llama",
     .model_class = "MistralForCausalLM",
     .fields = {.used = R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
         "max_position_embeddings": 131072, "rms_norm_eps": 1e-6, "tie_word_embeddings": false,
         "head_dim": null, "sliding_window": 4096, "layer_types": null})",
                .fixed = kSilu}},
    {.model_type = "mixtral",
     .architecture = "llama",
     .model_class = "MixtralForCausalLM",
     .fields = {.used = R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
         "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "tie_word_embeddings": false,
         "head_dim": null, "sliding_window": null, "num_experts_per_tok": 2,
         "num_local_experts": 8, "num_experts": null, "rope_theta": 1000000.0})",
                .fixed = kSilu}},
    {.model_type = "qwen2",
     .architecture = "qwen2",
     .model_class = "Qwen2ForCausalLM",
     .fields = {.used = R"({"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
         "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "tie_word_embeddings": false,
         "use_sliding_window": false, "sliding_window": 4096, "max_window_layers": 28,
         "layer_types": null})",
                .fixed = kSilu},
     .qkv_bias = true},
    {.model_type = "qwen3",
     .architecture = "qwen3",
     .model_class = "Qwen3ForCausalLM",
     .fields = {.used = R"({"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
         "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "tie_word_embeddings": false,
         "head_dim": 128, "attention_bias": false, "use_sliding_window": false,
         "sliding_window": 4096, "max_window_layers": 28, "layer_types": null})",
                .fixed = kSilu}},
    {.model_type = "qwen3_moe",
     .architecture = "qwen3moe",
     .model_class = "Qwen3MoeForCausalLM",
     .fields = {.used = R"({"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144,
         "num_hidden_layers": 24, "num_attention_heads": 32, "num_key_value_heads": 4,
         "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "tie_word_embeddings": false,
         "attention_bias": false, "use_sliding_window": false, "sliding_window": 4096,
         "moe_intermediate_size": 768, "num_experts_per_tok": 8, "num_experts": 128,
         "num_local_experts": null, "norm_topk_prob": false})",
                // Layers without experts are not implemented.
                .fixed = R"({"hidden_act": ["silu", "swish"], "mlp_only_layers": [null, []],
                             "decoder_sparse_step": [1]})"}},
    {.model_type = "gemma",
     .architecture = "gemma",
     .model_class = "GemmaForCausalLM",
     .fields = {.used = R"({"vocab_size": 256000, "hidden_size": 3072, "intermediate_size": 24576,
         "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 16,
         "head_dim": 256, "max_position_embeddings": 8192, "rms_norm_eps": 1e-6,
         "tie_word_embeddings": true, "attention_bias": false})",
                // The first files say "gelu" and mean its approximation.
                .fixed = R"({"hidden_act": ["gelu_pytorch_tanh", "gelu", "gelu_new"],
                             "use_bidirectional_attention": [false, null]})",
                .irrelevant = "hidden_activation"}},
    {.model_type = "gemma2",
     .architecture = "gemma2",
     .model_class = "Gemma2ForCausalLM",
     .fields = {.used = R"({"vocab_size": 256000, "hidden_size": 2304, "intermediate_size": 9216,
         "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
         "head_dim": 256, "max_position_embeddings": 8192, "rms_norm_eps": 1e-6,
         "tie_word_embeddings": true, "attention_bias": false, "query_pre_attn_scalar": 256,
         "sliding_window": 4096, "layer_types": null, "final_logit_softcapping": 30.0,
         "attn_logit_softcapping": 50.0})",
                .fixed = R"({"hidden_activation": ["gelu_pytorch_tanh", "gelu_new"],
                             "use_bidirectional_attention": [false, null]})",
                .irrelevant = "hidden_act"},
     .window_period = 2},
    {.model_type = "gemma3_text",
     .architecture = "gemma3",
     .model_class = "Gemma3ForCausalLM",
     .fields = {.used = R"({"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216,
         "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
         "head_dim": 256, "max_position_embeddings": 131072, "rms_norm_eps": 1e-6,
         "tie_word_embeddings": true, "attention_bias": false, "query_pre_attn_scalar": 256,
         "sliding_window": 4096, "layer_types": null, "sliding_window_pattern": 6,
         "final_logit_softcapping": null, "rope_theta": 1000000.0,
         "rope_local_base_freq": 10000.0})",
                // transformers stores attn_logit_softcapping, and does not apply it.
                .fixed = R"({"hidden_activation": ["gelu_pytorch_tanh", "gelu_new"],
                             "attn_logit_softcapping": [null],
                             "use_bidirectional_attention": [false, null]})",
                // The second is what transformers saves beside layer_types, and does not read.
                .irrelevant = "hidden_act _sliding_window_pattern"},
     .window_period = 6},
    {.model_type = "phi3",
     .architecture = "phi3",
     .model_class = "Phi3ForCausalLM",
     .fields = {.used = R"({"vocab_size": 32064, "hidden_size": 3072, "intermediate_size": 8192,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": null,
         "max_position_embeddings": 4096, "original_max_position_embeddings": 4096,
         "rms_norm_eps": 1e-5, "tie_word_embeddings": false, "sliding_window": null})",
                .fixed = kSilu}},
};

bool is_listed(std::string_view names, std::string_view name) {
  return concat(" ", names, " ").find(concat(" ", name, " ")) != std::string::npos;
}

bool is_off(const Json& value) {
  return value.is_null() || value == false || value == 0 || value == "" ||
         (value.is_structured() && value.empty());
}

}  // namespace

std::span<const ConfigFamily> config_families() { return kFamilies; }
const ConfigFields& common_config_fields() { return kCommon; }

const ConfigFamily& find_family(const std::string& model_type) {
  std::string known;
  for (const ConfigFamily& family : kFamilies) {
    if (family.model_type == model_type) return family;
    known += concat(known.empty() ? "" : ", ", family.model_type);
  }
  fail("config.json: models of the type '", model_type, "' are not supported; known are ", known,
       ", gemma3");
}

bool is_used(const ConfigFamily& family, const std::string& field) {
  return Json::parse(family.fields.used).contains(field);
}

JsonObject checked_fields(const JsonObject& object, std::span<const ConfigFields> groups,
                          std::string_view what, std::vector<std::string>& ignored) {
  Json used = Json::object(), fixed = Json::object();
  for (const ConfigFields& group : groups) {
    // The first group goes first: `insert` keeps what is there.
    const Json more_used = Json::parse(group.used), more_fixed = Json::parse(group.fixed);
    used.insert(more_used.begin(), more_used.end());
    fixed.insert(more_fixed.begin(), more_fixed.end());
  }
  for (const auto& item : object.json().items()) {
    // Plain references: clang before 16 lets no lambda hold a structured binding.
    const std::string& name = item.key();
    const Json& value = item.value();
    if (used.contains(name)) {
      used[name] = value;
      continue;
    }
    if (const auto accepted = fixed.find(name); accepted != fixed.end()) {
      check(std::count(accepted->begin(), accepted->end(), value) > 0, object.file(), ": '", name,
            "' is ", value.dump().substr(0, 60), ", which is not supported for ", what,
            "; expected ", accepted->size() == 1 ? "" : "one of ",
            accepted->size() == 1 ? accepted->front().dump() : accepted->dump());
      continue;
    }
    const bool known = std::any_of(groups.begin(), groups.end(), [&](const ConfigFields& group) {
      return is_listed(group.irrelevant, name);
    });
    if (!known && !is_off(value)) ignored.push_back(name);
  }
  return JsonObject(std::move(used), object.file());
}

}  // namespace tensora::llm
