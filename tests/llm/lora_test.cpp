#include "tensora/llm/lora.h"

#include <filesystem>
#include <fstream>

#include "random_weights.h"
#include "sequences.h"
#include "tensora/io/safetensors.h"

namespace tensora::llm {
namespace {

namespace fs = std::filesystem;
using tensora::testing::contains;
using tensora::testing::error_of;
using namespace testing;

/// A PEFT folder that is removed again.
class Folder {
 public:
  explicit Folder(const std::string& name)
      : path_(fs::temp_directory_path() / ("tensora-lora-" + name)) {
    fs::remove_all(path_);
    fs::create_directories(path_);
    config(R"({"peft_type": "LORA", "r": 3, "lora_alpha": 6})");
  }
  ~Folder() { fs::remove_all(path_); }
  void config(const std::string& text) const {
    std::ofstream(path_ / "adapter_config.json") << text;
  }
  void save(const StateDict& tensors) const {
    io::save_safetensors(tensors, (path_ / "adapter_model.safetensors").string());
  }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

struct Matrix {
  std::string peft, gguf;
  int64_t rows, width;
};
const Matrix matrices[] = {
    {"self_attn.q_proj", "attn_q", 64, 64}, {"self_attn.k_proj", "attn_k", 32, 64},
    {"self_attn.v_proj", "attn_v", 32, 64}, {"self_attn.o_proj", "attn_output", 64, 64},
    {"mlp.gate_proj", "ffn_gate", 128, 64}, {"mlp.up_proj", "ffn_up", 128, 64},
    {"mlp.down_proj", "ffn_down", 64, 128},
};

/// Fills a folder, and gives the sums of the products by the matrices' names.
std::map<std::string, Tensor> fill(const Folder& folder, uint64_t seed) {
  Generator generator(seed);
  const GeneratorScope scope(generator);
  StateDict state;
  std::map<std::string, Tensor> changes;
  for (const std::string layer : {"0", "1"})
    for (const Matrix& m : matrices) {
      const Tensor down = randn({3, m.width}) * 0.3, up = randn({m.rows, 3}) * 0.3;
      const std::string name = "base_model.model.model.layers." + layer + "." + m.peft;
      state.insert(name + ".lora_A.weight", down);
      state.insert(name + ".lora_B.weight", up);
      changes["blk." + layer + "." + m.gguf + ".weight"] = matmul(up, down) * (6.0 / 3);
    }
  folder.save(state);
  return changes;
}

TEST(LoraAdapter, IsTheModelWithTheSumOfBoth) {
  const Folder first("first"), second("second");
  RandomWeights plain, merged_first, merged_second;
  merged_first.changes = fill(first, 1);
  merged_second.changes = fill(second, 2);
  const ModelConfig config = checked_config(small_metadata("llama"));
  const auto model = make_model(config, plain);
  const auto a = LoraAdapter::load(first.path(), *model);
  const auto b = LoraAdapter::load(second.path(), *model);
  EXPECT_EQ(a->size(), 14U);
  const Tokens text = some_tokens(9, 50), other = some_tokens(5, 50, 4), third = some_tokens(4, 50);
  const auto alone = [&](const Model& merged, const Tokens& tokens) {
    return Sequences(merged, {}).feed({tokens});
  };
  // Three requests of one batch: with one adapter, with the other, and with none.
  const Tensor logits = Sequences(*model, {.count = 3})
                            .feed({text, other, third}, {{.adapter = a, .begin = 0, .end = 9},
                                                         {.adapter = b, .begin = 9, .end = 14}});
  EXPECT_LT(difference(logits.narrow(0, 0, 9), alone(*make_model(config, merged_first), text)),
            1e-5);
  EXPECT_LT(difference(logits.narrow(0, 9, 5), alone(*make_model(config, merged_second), other)),
            1e-5);
  EXPECT_LT(difference(logits.narrow(0, 14, 4), alone(*model, third)), 1e-5);
  EXPECT_GT(difference(logits.narrow(0, 0, 9), alone(*model, text)), 1e-2);
}

TEST(LoraAdapter, IsTurnedForModelsThatPairNeighbours) {
  const Folder folder("pairs");
  RandomWeights plain, merged;
  merged.changes = fill(folder, 5);
  ModelConfig config = checked_config(small_metadata("llama"));
  config.rope_in_halves = false;
  // Rows [2, d/2] of a head become [d/2, 2].
  for (auto& [name, change] : merged.changes)
    if (contains(name, "attn_q.") || contains(name, "attn_k."))
      change = change.reshape({change.size(0) / 16, 2, 8, 64}).transpose(1, 2).reshape({-1, 64});
  const auto model = make_model(config, plain);
  const auto adapter = LoraAdapter::load(folder.path(), *model);
  const Tokens text = some_tokens(9, 50);
  EXPECT_LT(difference(Sequences(*model, {}).feed({text}, {{adapter, 0, 9}}),
                       Sequences(*make_model(config, merged), {}).feed({text})),
            1e-5);
}

TEST(LoraAdapter, RankAndAlphaMayDifferByModule) {
  const Folder folder("patterns");
  fill(folder, 5);
  RandomWeights weights;
  const auto model = make_model(checked_config(small_metadata("llama")), weights);
  folder.config(R"({"peft_type": "LORA", "r": 8, "lora_alpha": 6, "alpha_pattern":
      {"q_proj": 12, "layers.1.mlp.up_proj": 3}, "rank_pattern": {"self_attn.q_proj": 3,
       "k_proj": 3, "v_proj": 3, "o_proj": 3, "gate_proj": 3, "up_proj": 3, "down_proj": 3}})");
  const auto adapter = LoraAdapter::load(folder.path(), *model);
  EXPECT_EQ(adapter->find("blk.0.attn_q")->scale, 4);
  EXPECT_EQ(adapter->find("blk.0.attn_k")->scale, 2);
  EXPECT_EQ(adapter->find("blk.0.ffn_up")->scale, 2);
  EXPECT_EQ(adapter->find("blk.1.ffn_up")->scale, 1);
}

TEST(LoraAdapter, SaysWhatDoesNotFit) {
  RandomWeights weights;
  const auto model = make_model(checked_config(small_metadata("llama")), weights);
  const Folder folder("wrong");
  const auto load = [&] { LoraAdapter::load(folder.path(), *model); };
  const std::string layer = "base_model.model.model.layers.";
  const auto with = [&](const std::string& name, const Shape& down, const Shape& up) {
    folder.save({{layer + name + ".lora_A.weight", zeros(down)},
                 {layer + name + ".lora_B.weight", zeros(up)}});
    return error_of(load);
  };
  EXPECT_TRUE(contains(with("0.self_attn.q_proj", {3, 65}, {64, 3}), "got [3, 65] and [64, 3]"));
  EXPECT_TRUE(contains(with("0.self_attn.q_proj", {3, 64}, {64, 4}), "the rank of"));
  EXPECT_TRUE(contains(with("0.self_attn.q_proj", {0, 64}, {64, 0}), "the rank of"));
  EXPECT_TRUE(contains(with("2.self_attn.q_proj", {3, 64}, {64, 3}), "no matrix blk.2.attn_q"));
  EXPECT_TRUE(contains(with("0.self_attn.x_proj", {3, 64}, {64, 3}), "x_proj"));
  folder.save({{layer + "0.self_attn.q_proj.lora_A.weight", zeros({3, 64})}});
  EXPECT_TRUE(contains(error_of(load), "only one of the two factors"));
  for (const char* config :
       {"{}", "[", R"({"lora_alpha": "6"})", R"({"lora_alpha": 6, "use_dora": true})",
        R"({"lora_alpha": 6, "rank_pattern": 2})"}) {
    folder.config(config);
    EXPECT_TRUE(contains(error_of(load), "adapter_config.json")) << config;
  }
  // What changes the computation is refused by name, unless it is off.
  const auto problem = [&](const std::string& fields) {
    folder.config(concat(R"({"peft_type": "LORA", "r": 3, "lora_alpha": 6, )", fields, "}"));
    return error_of(load);
  };
  fill(folder, 1);
  for (const auto& [field, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"bias", "\"all\""},
           {"bias", "\"lora_only\""},
           {"modules_to_save", R"(["lm_head"])"},
           {"fan_in_fan_out", "true"},
           {"use_dora", "true"},
           {"lora_bias", "true"},
           {"layer_replication", "[[0, 1]]"},
           {"trainable_token_indices", "[3]"},
           {"target_parameters", R"(["mlp.experts"])"},
           {"alora_invocation_tokens", "[1, 2]"},
           {"use_qalora", "true"},
           {"megatron_config", R"({"a": 1})"},
           {"arrow_config", R"({"a": 1})"},
           {"init_lora_weights", "\"pissa\""},
           {"init_lora_weights", "\"olora\""},
           {"peft_type", "\"LOHA\""},
           {"from_the_future", "1"},
           {"rank_pattern", R"({"q_proj": 2})"},  // the file has 3
           {"alpha_pattern", R"({".*q_proj": 2})"},
       }) {
    const std::string error = problem(concat("\"", field, "\": ", value));
    EXPECT_TRUE(contains(error, contains(field, "rank") ? "the rank of" : field))
        << field << ": " << error;
  }
  EXPECT_EQ(problem(R"("bias": "none", "modules_to_save": null, "fan_in_fan_out": false,
      "target_modules": ["q_proj"], "layers_to_transform": [0, 1], "layers_pattern": null,
      "lora_dropout": 0.1, "init_lora_weights": true, "task_type": "CAUSAL_LM", "new": null)"),
            "");
  EXPECT_NE(error_of([&] { LoraAdapter::load("/no/such/adapter.gguf", *model); }), "");
}

}  // namespace
}  // namespace tensora::llm
