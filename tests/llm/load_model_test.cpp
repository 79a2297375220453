#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "random_weights.h"
#include "sequences.h"
#include "tensora/llm/gguf/gguf_writer.h"
#include "tensora/llm/lora.h"
#include "tensora/llm/model_file.h"

namespace tensora::llm {
namespace {

namespace fs = std::filesystem;
using tensora::testing::contains;
using tensora::testing::error_of;
using namespace testing;

/// A file that is removed again.
struct TemporaryFile {
  explicit TemporaryFile(const std::string& name)
      : path((fs::temp_directory_path() / (std::to_string(getpid()) + name)).string()) {}
  ~TemporaryFile() { fs::remove(path); }
  std::string path;
};

/// All tensors of a small llama, with the numbers of RandomWeights.
StateDict small_llama() {
  RandomWeights weights;
  StateDict state;
  const auto matrix = [&](const std::string& name, const Shape& sizes) {
    state.insert(name + ".weight", weights.matrix(name + ".weight", sizes).data);
  };
  const auto norm = [&](const std::string& name) {
    state.insert(name + ".weight", weights.vector(name + ".weight", {64}));
  };
  matrix("token_embd", {50, 64});
  for (const std::string block : {"blk.0.", "blk.1."}) {
    norm(block + "attn_norm");
    matrix(block + "attn_q", {64, 64});
    matrix(block + "attn_k", {32, 64});
    matrix(block + "attn_v", {32, 64});
    matrix(block + "attn_output", {64, 64});
    norm(block + "ffn_norm");
    matrix(block + "ffn_gate", {128, 64});
    matrix(block + "ffn_up", {128, 64});
    matrix(block + "ffn_down", {64, 128});
  }
  norm("output_norm");
  matrix("output", {50, 64});
  return state;
}

Tensor logits_of(const Model& model) { return Sequences(model, {}).feed({some_tokens(9, 50)}); }

TEST(LoadModel, AFileIsTheModelThatWasWritten) {
  const TemporaryFile file("plain.gguf");
  write_gguf(file.path, small_metadata("llama"), small_llama());
  RandomWeights weights;
  ModelConfig config = checked_config(small_metadata("llama"));
  config.rope_in_halves = false;  // as in every GGUF of this architecture
  const auto model = load_model(ModelFile::open(file.path));
  EXPECT_LT(difference(logits_of(*model), logits_of(*make_model(config, weights))), 1e-6);
}

TEST(LoadModel, QuantizesOnTheWay) {
  const TemporaryFile file("types.gguf");
  write_gguf(file.path, small_metadata("llama"), small_llama());
  const ModelFile opened = ModelFile::open(file.path);
  const auto exact = load_model(opened);
  for (const std::string& type : WeightType::names()) {
    SCOPED_TRACE(type);
    const auto model = load_model(opened, {.quantize = type});
    if (type != "float32") {
      EXPECT_LT(model->bytes(), exact->bytes() * 6 / 10);
    }
    EXPECT_LT(difference(logits_of(*model), logits_of(*exact)), 1.0);
  }
  EXPECT_TRUE(contains(error_of([&] { load_model(opened, {.quantize = "q7"}); }), "'q7'"));
  EXPECT_TRUE(contains(error_of([&] { load_model(opened, {.positions = -1}); }), "negative"));
}

// What is missing or does not fit is said before a weight is loaded.
TEST(LoadModel, SaysWhatIsWrongWithAFile) {
  const TemporaryFile file("wrong.gguf");
  struct Row {
    const char* name;
    Tensor instead;  // undefined: the tensor is left out
    const char* says;
  };
  for (const Row& row :
       {Row{"token_embd.weight", {}, "no tensor token_embd.weight"},
        Row{"blk.1.ffn_down.weight", {}, "no tensor blk.1.ffn_down.weight"},
        Row{"output_norm.weight", {}, "no tensor output_norm.weight"},
        Row{"blk.0.attn_q.weight", zeros({64, 32}),
            "blk.0.attn_q.weight must have shape [64, 64] by the model's numbers, "
            "got [64, 32]"},
        Row{"blk.0.attn_norm.weight", zeros({63}), "got [63]"},
        Row{"output.weight", zeros({49, 64}), "got [49, 64]"},
        Row{"token_embd.weight", zeros({50}), "token_embd.weight must be a matrix"},
        Row{"blk.0.attn_k.weight", zeros({32, 64}, {.dtype = kInt32}),
            "floating-point or quantized"}}) {
    SCOPED_TRACE(row.name);
    StateDict state = small_llama();
    if (row.instead.defined())
      state.set(row.name, row.instead);
    else
      state.erase(row.name);
    write_gguf(file.path, small_metadata("llama"), state);
    bool began = false;
    const std::string error = error_of([&] {
      load_model(ModelFile::open(file.path), {.progress = [&](int64_t, int64_t) { began = true; }});
    });
    EXPECT_TRUE(contains(error, row.says)) << error;
    EXPECT_FALSE(began);
  }
}

// Without the check the model would answer as if the tensor were not there.
TEST(LoadModel, RefusesTensorsWithoutAPlace) {
  const TemporaryFile file("more.gguf");
  for (const std::string name :
       {"blk.0.attn_q_norm.weight", "blk.2.attn_q.weight", "cls.weight", "blk.0.ffn_gate.scale"}) {
    SCOPED_TRACE(name);
    StateDict state = small_llama();
    state.insert(name, ones({16}));
    write_gguf(file.path, small_metadata("llama"), state);
    const std::string error = error_of([&] { load_model(ModelFile::open(file.path)); });
    EXPECT_TRUE(contains(error, name + " has no place in a model of 'llama'")) << error;
  }
  StateDict state = small_llama();
  state.insert("blk.0.attn_rot_embd.weight", ones({8}));
  state.insert("blk.0.attn_q.bias", zeros({64}));
  write_gguf(file.path, small_metadata("llama"), state);
  EXPECT_EQ(error_of([&] { load_model(ModelFile::open(file.path)); }), "");
}

// Whatever is in a file, opening, loading and running it ends in logits or in an Error.
TEST(LoadModel, SurvivesDamagedFiles) {
  const TemporaryFile file("damaged.gguf");
  write_gguf(file.path, small_metadata("llama"), small_llama());
  std::ifstream stream(file.path, std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(stream)), {});
  std::mt19937 random(7);
  const size_t header = 2200;  // metadata and tensor infos
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    std::string bad = good;
    for (size_t n = 1 + random() % 3; n > 0; --n)
      bad[random() % (i % 8 == 0 ? bad.size() : header)] = static_cast<char>(random());
    std::ofstream(file.path, std::ios::binary) << bad;
    try {
      const auto model = load_model(ModelFile::open(file.path));
      if (model->config().vocab_size >= 50) Sequences(*model, {.longest = 16}).feed({{1, 2, 3}});
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(LoadModel, IsSharedByThreads) {
  RandomWeights weights;
  const auto model = make_model(checked_config(small_metadata("llama")), weights);
  const Tensor expected = logits_of(*model);
  std::vector<double> far(4, 1);
  std::vector<std::thread> threads;
  for (double& each : far)
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) each = difference(logits_of(*model), expected);
    });
  for (std::thread& thread : threads) thread.join();
  for (double each : far) EXPECT_EQ(each, 0);
}

TEST(LoadModel, GgufAdapters) {
  const TemporaryFile file("adapter.gguf");
  Metadata data;
  data.set("general.architecture", "llama");
  data.set("general.type", "adapter");
  data.set("adapter.type", "lora");
  data.set("adapter.lora.alpha", 8.0);
  const Tensor down = randn({4, 64}) * 0.3, up = randn({64, 4}) * 0.3;
  write_gguf(file.path, data,
             StateDict{{"blk.1.attn_q.weight.lora_a", down}, {"blk.1.attn_q.weight.lora_b", up}});
  RandomWeights plain, merged;
  merged.changes["blk.1.attn_q.weight"] = matmul(up, down) * (8.0 / 4);
  ModelConfig config = checked_config(small_metadata("llama"));
  config.rope_in_halves = false;
  const auto model = make_model(config, plain);
  const auto adapter = LoraAdapter::load(file.path, *model);
  EXPECT_LT(difference(Sequences(*model, {}).feed({some_tokens(9, 50)}, {{adapter, 0, 9}}),
                       logits_of(*make_model(config, merged))),
            1e-5);
  data.set("general.architecture", "qwen2");
  write_gguf(file.path, data, StateDict{{"blk.1.attn_q.weight.lora_a", down}});
  EXPECT_TRUE(contains(error_of([&] { LoraAdapter::load(file.path, *model); }),
                       "adapter of qwen2 models, not of llama"));
}

}  // namespace
}  // namespace tensora::llm
