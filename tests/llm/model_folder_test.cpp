// Hugging Face folders, seen with GGUF's keys and names.

#include <filesystem>

#include "../io/files.h"
#include "tensora/llm/embed.h"
#include "tensora/llm/gguf/gguf_writer.h"
#include "tensora/llm/hugging_face/json_object.h"
#include "tensora/llm/hugging_face/tensor_names.h"
#include "tensora/llm/model_file.h"

namespace tensora::llm {
namespace {

using testing::contains;
using testing::error_of;
using testing::identical;
using testing::TemporaryFolder;
using testing::write_file;

// A config.json of two layers; `more` is added or replaces.
std::string config(const std::string& type, const std::string& more = "") {
  return concat(R"({"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1,
                    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 40,
                    "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
                    "model_type": ")",
                type, "\"", more.empty() ? "" : ", ", more, "}");
}

StateDict llama_tensors() {
  const std::string layer = "model.layers.0.";
  return {{"model.embed_tokens.weight", rand({40, 16}).to(kBFloat16)},
          {layer + "input_layernorm.weight", rand({16}).to(kBFloat16)},
          {layer + "self_attn.q_proj.weight", rand({16, 16}).to(kBFloat16)},
          {layer + "self_attn.k_proj.weight", rand({8, 16}).to(kBFloat16)},
          {layer + "post_attention_layernorm.weight", rand({16}).to(kBFloat16)},
          {layer + "mlp.down_proj.weight", rand({16, 24}).to(kBFloat16)},
          {"model.norm.weight", rand({16}).to(kBFloat16)},
          {"lm_head.weight", rand({40, 16}).to(kBFloat16)}};
}

class ModelFolder : public ::testing::Test {
 protected:
  ModelFile open(const std::string& json, const StateDict& tensors) {
    write_file(folder_ / "config.json", json);
    io::save_safetensors(tensors, folder_ / "model.safetensors");
    return ModelFile::open(folder_.path());
  }
  std::string problem(const std::string& json, const StateDict& tensors = llama_tensors()) {
    return error_of([&] { open(json, tensors); });
  }

  TemporaryFolder folder_;
};

TEST_F(ModelFolder, knows_the_pooling_of_embeddings) {
  EXPECT_FALSE(pooling_of(open(config("mistral"), llama_tensors())).has_value());
  std::filesystem::create_directory(folder_ / "1_Pooling");
  const std::string path = folder_ / "1_Pooling/config.json";
  write_file(path, R"({"pooling_mode_mean_tokens": false, "pooling_mode_lasttoken": true})");
  EXPECT_EQ(pooling_of(ModelFile::open(folder_.path())), Pooling::last);
  write_file(path, R"({"pooling_mode_max_tokens": true})");
  const ModelFile other = ModelFile::open(folder_.path());
  EXPECT_TRUE(contains(error_of([&] { pooling_of(other); }), "'pooling_mode_max_tokens' is set"));
  write_file(path, R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true})");
  EXPECT_TRUE(contains(error_of([&] { pooling_of(other); }), "'pooling_mode_mean_tokens' is set"));
  write_file(path, R"({"word_embedding_dimension": 4})");
  EXPECT_TRUE(contains(error_of([&] { pooling_of(other); }), "1_Pooling/config.json: expected"));
  for (const int64_t type : {0, 1, 2, 3, 4, 5}) {
    Metadata metadata;
    metadata.set("general.architecture", "qwen3");
    metadata.set("qwen3.pooling_type", type);
    write_gguf(folder_ / "x.gguf", metadata, StateDict{{"t", rand({2, 2})}});
    const ModelFile file = ModelFile::open(folder_ / "x.gguf");
    const std::optional<Pooling> expected[] = {std::nullopt, Pooling::mean, Pooling::first,
                                               Pooling::last, Pooling::rank};
    if (type < 5)
      EXPECT_EQ(pooling_of(file), expected[type]);
    else
      EXPECT_TRUE(contains(error_of([&] { pooling_of(file); }), "qwen3.pooling_type"));
  }
  EXPECT_EQ(pooling_named("cls"), Pooling::first);
  EXPECT_TRUE(contains(error_of([] { pooling_named("max"); }), "got 'max'"));
}

TEST_F(ModelFolder, refuses_modules_that_change_embeddings) {
  open(config("mistral"), llama_tensors());
  const ModelFile file = ModelFile::open(folder_.path());
  std::filesystem::create_directory(folder_ / "2_Pooling");
  write_file(folder_ / "2_Pooling/config.json", R"({"pooling_mode_cls_token": true})");
  const auto modules = [&](std::string_view more) {
    write_file(folder_ / "modules.json",
               concat(R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
                          {"type": "sentence_transformers.models.Pooling", "path": "2_Pooling"})",
                      more, "]"));
  };
  modules(R"(, {"type": "sentence_transformers.models.Normalize", "path": "3_Normalize"})");
  EXPECT_EQ(pooling_of(file), Pooling::first);
  modules(R"(, {"type": "sentence_transformers.models.Dense", "path": "3_Dense"})");
  EXPECT_TRUE(contains(error_of([&] { pooling_of(file); }), "models.Dense' is not supported"));
  write_file(folder_ / "modules.json", "{}");
  EXPECT_TRUE(contains(error_of([&] { pooling_of(file); }), "expected a JSON list"));
}

TEST_F(ModelFolder, has_ggufs_keys_and_names) {
  const StateDict tensors = llama_tensors();
  const ModelFile file = open(config("mistral", R"("sliding_window": 7, "head_dim": 4)"), tensors);
  EXPECT_EQ(file.architecture(), "llama");
  EXPECT_TRUE(file.rope_in_halves());
  EXPECT_EQ(file.folder(), folder_.path());
  const Metadata& metadata = file.metadata();
  EXPECT_EQ(metadata.get<int64_t>("llama.block_count"), 1);
  EXPECT_EQ(metadata.get<int64_t>("llama.attention.head_count_kv"), 2);
  EXPECT_EQ(metadata.get<int64_t>("llama.attention.sliding_window"), 7);
  EXPECT_EQ(metadata.get<int64_t>("llama.rope.dimension_count"), 4);
  EXPECT_EQ(metadata.get<double>("llama.rope.freq_base"), 500000.0);
  EXPECT_EQ(metadata.get<double>("llama.attention.layer_norm_rms_epsilon"), 1e-5);
  EXPECT_TRUE(identical(file.tensor("blk.0.attn_q.weight"),
                        tensors["model.layers.0.self_attn.q_proj.weight"]));
  EXPECT_TRUE(identical(file.tensor("output.weight"), tensors["lm_head.weight"]));
  // Vectors are float32 in GGUF.
  EXPECT_TRUE(identical(file.tensor("blk.0.ffn_norm.weight"),
                        tensors["model.layers.0.post_attention_layernorm.weight"].to(kFloat32)));
  EXPECT_EQ(file.info("output_norm.weight").dtype, kFloat32);
  EXPECT_EQ(file.tensor("token_embd.weight").data_ptr(),
            file.tensor("token_embd.weight").data_ptr());
}

TEST_F(ModelFolder, a_tied_head_is_left_out) {
  const std::string tied = config("llama", R"("tie_word_embeddings": true)");
  StateDict tensors = llama_tensors();
  // One that differs from the embedding is used all the same, as transformers does.
  EXPECT_TRUE(open(tied, tensors).contains("output.weight"));
  tensors.set("lm_head.weight", tensors["model.embed_tokens.weight"].clone());
  EXPECT_FALSE(open(tied, tensors).contains("output.weight"));
  tensors.erase("lm_head.weight");
  EXPECT_FALSE(open(tied, tensors).contains("output.weight"));
  EXPECT_TRUE(contains(problem(config("llama"), tensors), "there is no 'lm_head.weight'"));
}

TEST_F(ModelFolder, biases_are_those_of_the_config) {
  StateDict tensors = llama_tensors();
  EXPECT_TRUE(contains(problem(config("llama", R"("attention_bias": true)"), tensors),
                       "there is no 'blk.0.attn_"));
  EXPECT_TRUE(contains(problem(config("llama", R"("mlp_bias": true)"), tensors),
                       "there is no 'blk.0.ffn_down.bias'"));
  EXPECT_TRUE(contains(problem(config("qwen2"), tensors), "there is no 'blk.0.attn_"));
  tensors.insert("model.layers.0.self_attn.q_proj.bias", zeros({16}));
  tensors.insert("model.layers.0.self_attn.k_proj.bias", zeros({8}));
  EXPECT_TRUE(contains(problem(config("llama"), tensors), "there is a 'blk.0.attn_"));
  EXPECT_EQ(problem(config("llama", R"("attention_bias": true)"), tensors), "");
  EXPECT_EQ(problem(config("qwen2"), tensors), "");
}

TEST_F(ModelFolder, gemmas_norms_get_their_one) {
  StateDict tensors = llama_tensors();
  tensors.erase("lm_head.weight");
  const ModelFile file = open(config("gemma2", R"("query_pre_attn_scalar": 16, "sliding_window": 8,
      "attn_logit_softcapping": 50.0, "layer_types": ["sliding_attention"])"),
                              tensors);
  EXPECT_TRUE(
      identical(file.tensor("output_norm.weight"), tensors["model.norm.weight"].to(kFloat32) + 1));
  EXPECT_TRUE(
      identical(file.tensor("blk.0.post_attention_norm.weight"),
                tensors["model.layers.0.post_attention_layernorm.weight"].to(kFloat32) + 1));
  EXPECT_EQ(file.metadata().get<double>("gemma2.attention.scale"), 0.25);
  EXPECT_EQ(file.metadata().get<double>("gemma2.attn_logit_softcapping"), 50);
  EXPECT_TRUE(contains(problem(config("gemma2", R"("sliding_window": 8,
      "layer_types": ["chunked_attention"])")),
                       "layer 0 is of 'chunked_attention', which is not supported"));
}

TEST_F(ModelFolder, experts_are_stacked) {
  StateDict tensors = llama_tensors();
  const std::string prefix = "model.layers.0.block_sparse_moe.";
  tensors.insert(prefix + "gate.weight", rand({3, 16}).to(kBFloat16));
  std::vector<Tensor> parts;
  for (int i : {2, 0, 1})
    tensors.insert(concat(prefix, "experts.", i, ".w1.weight"), rand({24, 16}));
  for (int i = 0; i < 3; ++i) parts.push_back(tensors[concat(prefix, "experts.", i, ".w1.weight")]);
  const std::string json = config("mixtral", R"("num_local_experts": 3, "num_experts_per_tok": 2)");
  const ModelFile file = open(json, tensors);
  EXPECT_EQ(file.info("blk.0.ffn_gate_exps.weight").sizes, (Shape{3, 24, 16}));
  EXPECT_TRUE(identical(file.tensor("blk.0.ffn_gate_exps.weight"), stack(parts)));
  EXPECT_EQ(file.info("blk.0.ffn_gate_inp.weight").dtype, kFloat32);
  EXPECT_EQ(file.metadata().get<int64_t>("llama.expert_count"), 3);
  tensors.erase(prefix + "experts.1.w1.weight");
  EXPECT_TRUE(contains(problem(json, tensors), "lacks expert 1"));
}

TEST_F(ModelFolder, llama3_has_divisors_as_a_tensor) {
  // Llama 3.1 8B, whose divisors are known from its GGUF files.
  const std::string rope =
      R"("head_dim": 128, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
      "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})";
  const ModelFile file = open(config("llama", rope), llama_tensors());
  const std::vector<double> divisors = to_vector<double>(file.tensor("rope_freqs.weight"));
  ASSERT_EQ(divisors.size(), 64u);
  const double between[] = {1.207484, 1.553415, 2.026313, 2.694530, 3.684253, 5.257327};
  for (size_t i = 0; i < 64; ++i)
    EXPECT_NEAR(divisors[i], i < 29 ? 1 : i < 35 ? between[i - 29] : 8, 1e-5) << i;
}

TEST_F(ModelFolder, longrope_and_yarn) {
  const ModelFile phi = open(config("phi3", R"("original_max_position_embeddings": 32,
      "tie_word_embeddings": true,
      "rope_scaling": {"type": "longrope", "long_factor": [1.5, 2], "short_factor": [1, 1.25]})"),
                             {{"model.norm.weight", ones({16})}});
  EXPECT_EQ(to_vector<double>(phi.tensor("rope_factors_long.weight")),
            (std::vector<double>{1.5, 2}));
  EXPECT_NEAR(phi.metadata().get<double>("phi3.rope.scaling.attn_factor"), std::sqrt(1.2), 1e-12);
  const ModelFile yarn = open(config("qwen2", R"("tie_word_embeddings": true,
      "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 16})"),
                              {{"model.norm.weight", ones({16})}});
  EXPECT_EQ(yarn.metadata().get<std::string>("qwen2.rope.scaling.type"), "yarn");
  EXPECT_EQ(yarn.metadata().get<int64_t>("qwen2.rope.scaling.original_context_length"), 16);
}

TEST_F(ModelFolder, small_files_beside_it) {
  write_file(folder_ / "generation_config.json",
             R"({"eos_token_id": [5, 6], "temperature": 0.6, "top_k": 20})");
  write_file(folder_ / "tokenizer_config.json", R"({"chat_template": "{{ x }}"})");
  const Metadata metadata =
      open(config("llama", R"("eos_token_id": 2)"), llama_tensors()).metadata();
  EXPECT_EQ(metadata.get<int64_t>("tokenizer.ggml.eos_token_id"), 5);
  EXPECT_EQ(metadata.get<int64_t>("tokenizer.ggml.eot_token_id"), 6);
  EXPECT_EQ(metadata.get<double>("general.sampling.temp"), 0.6);
  EXPECT_EQ(metadata.get<std::string>("tokenizer.chat_template"), "{{ x }}");
}

TEST_F(ModelFolder, shards_are_one) {
  const StateDict tensors = llama_tensors();
  write_file(folder_ / "config.json", config("llama"));
  std::string map;
  StateDict halves[2];
  size_t count = 0;
  for (const auto& [name, tensor] : tensors) {
    const size_t half = count++ % 2;
    halves[half].insert(name, tensor);
    map += concat(map.empty() ? "" : ",", "\"", name, "\":\"part", half, ".safetensors\"");
  }
  for (size_t i : {0u, 1u})
    io::save_safetensors(halves[i], folder_ / concat("part", i, ".safetensors"));
  const auto index = [&](const std::string& entries) {
    write_file(folder_ / "model.safetensors.index.json",
               concat("{\"weight_map\":{", entries, "}}"));
    return error_of([&] { ModelFile::open(folder_.path()); });
  };
  EXPECT_EQ(index(map), "");
  EXPECT_TRUE(identical(ModelFile::open(folder_.path()).tensor("output.weight"),
                        tensors["lm_head.weight"]));
  EXPECT_TRUE(
      contains(index(R"("lm_head.weight": "../part0.safetensors")"), "not the name of a file"));
  EXPECT_TRUE(contains(index(R"("other": "part0.safetensors")"), "has no tensor 'other'"));
  EXPECT_TRUE(contains(index(R"("lm_head.weight": "part7.safetensors")"), "part7.safetensors"));
}

TEST_F(ModelFolder, problems_are_named) {
  EXPECT_TRUE(contains(problem("{"), "not valid JSON at byte"));
  EXPECT_TRUE(contains(problem("[]"), "expected a JSON object, got array"));
  EXPECT_TRUE(contains(problem(std::string(100, '[')), "nested more than 64 deep"));
  EXPECT_TRUE(contains(problem("{}"), "there is no 'model_type'"));
  EXPECT_TRUE(contains(problem(config("bert")), "known are llama, mistral"));
  EXPECT_TRUE(contains(problem(R"({"model_type": "llama", "max_position_embeddings": "x"})"),
                       "'max_position_embeddings': expected an integer, got string"));
  EXPECT_TRUE(contains(problem(config("llama", R"("rope_scaling": {"type": "odd"})")), "'odd'"));
  EXPECT_TRUE(contains(problem(config("llama", R"("quantization_config": {})")), "quantized"));
  EXPECT_TRUE(contains(problem(config("llama"), {{"strange", ones({1})}}), "the tensor 'strange'"));
  EXPECT_TRUE(contains(error_of([] { ModelFile::open("/tmp"); }), "has no config.json"));
}

TEST(TensorNames, go_both_ways) {
  for (const char* architecture :
       {"llama", "qwen2", "qwen3", "qwen3moe", "gemma", "gemma2", "gemma3", "phi3"})
    for (const char* name :
         {"model.embed_tokens.weight", "model.layers.12.self_attn.q_proj.weight",
          "model.layers.3.mlp.up_proj.weight", "model.layers.3.mlp.gate_up_proj.weight",
          "model.layers.0.self_attn.k_proj.bias", "model.layers.0.post_attention_layernorm.weight",
          "model.layers.0.pre_feedforward_layernorm.weight",
          "model.layers.0.block_sparse_moe.experts.7.w2.weight",
          "model.layers.0.mlp.experts.31.up_proj.weight", "model.layers.1.mlp.gate.weight"}) {
      const auto gguf = gguf_name(architecture, name);
      if (!gguf) continue;
      EXPECT_EQ(hugging_face_name(architecture, gguf->name, gguf->expert), name) << architecture;
    }
  EXPECT_EQ(gguf_name("llama", "model.layers.12.self_attn.q_proj.weight")->name,
            "blk.12.attn_q.weight");
  for (const char* name :
       {"", "model.layers.", "model.layers.x.mlp.up_proj.weight", "model.layers.1",
        "model.layers.1.mlp.up_proj", "model.layers.-1.a.weight"})
    EXPECT_FALSE(gguf_name("llama", name).has_value()) << name;
}

}  // namespace
}  // namespace tensora::llm
