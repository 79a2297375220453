// tensora inspect, quantize, convert and plan from end to end: exit codes, errors, output.
#ifdef TENSORA_CLI
#include <filesystem>
#include <nlohmann/json.hpp>

#include "../helpers.h"
#include "../program.h"
#include "tensora/llm/gguf/gguf_writer.h"
#include "tensora/llm/model_file.h"

namespace tensora::llm {
namespace {

using testing::contains;
using testing::Program;
using testing::TemporaryFolder;
using testing::write_text;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

class ModelCommands : public ::testing::Test {
 protected:
  // A tiny model of one layer.
  ModelCommands() : model_(folder_.path("tiny.gguf")) { write(64); }

  void write(int64_t queries) {
    Metadata metadata;
    metadata.set("general.architecture", "llama");
    const auto set = [&](const char* key, auto value) {
      metadata.set(concat("llama.", key), value);
    };
    set("context_length", 128);
    set("embedding_length", 64);
    set("block_count", 1);
    set("feed_forward_length", 96);
    set("attention.head_count", 4);
    set("attention.layer_norm_rms_epsilon", 1e-5);
    set("odd", "\x1b[31mred\n");
    StateDict tensors = {{"token_embd.weight", rand({32, 64})}, {"output_norm.weight", rand({64})}};
    tensors.insert("blk.0.attn_norm.weight", rand({64}));
    tensors.insert("blk.0.attn_q.weight", rand({queries, 64}));
    tensors.insert("blk.0.ffn_down.weight", rand({64, 96}));
    write_gguf(model_, metadata, tensors);
  }

  int run(const Words& words) {
    const Program program(folder_, words);
    const int code = program.wait();
    out_ = program.out();
    error_ = program.error();
    return code;
  }

  TemporaryFolder folder_;
  std::string model_, out_, error_;
};

TEST_F(ModelCommands, inspect_shows_and_checks) {
  EXPECT_EQ(run({"inspect", model_, "--tensors"}), 0) << error_;
  EXPECT_TRUE(contains(out_, "llama.block_count") && contains(out_, "blk.0.attn_q.weight"));
  EXPECT_FALSE(contains(out_, "\x1b")) << "a terminal must not obey a file";
  EXPECT_EQ(run({"inspect", model_, "--json"}), 0);
  const Json json = Json::parse(out_);
  EXPECT_EQ(json["architecture"], "llama");
  EXPECT_EQ(json["metadata"]["llama.context_length"], 128);
  EXPECT_EQ(json["contents"].size(), 5u);
  write(60);
  EXPECT_EQ(run({"inspect", model_}), 1);
  EXPECT_TRUE(contains(error_, "has shape [60, 64]; the model's numbers imply [64, 64]")) << error_;
  EXPECT_EQ(std::count(error_.begin(), error_.end(), '\n'), 1);
  write_text(folder_.path("bad.gguf"), "GGUF and nothing else");
  EXPECT_EQ(run({"inspect", folder_.path("bad.gguf")}), 1);
  EXPECT_TRUE(contains(error_, "tensora inspect: gguf: '")) << error_;
  EXPECT_EQ(std::count(error_.begin(), error_.end(), '\n'), 1);
}

TEST_F(ModelCommands, quantize_writes_beside_the_model) {
  EXPECT_EQ(run({"quantize", model_, "q8_0", "--dry-run"}), 0) << error_;
  EXPECT_FALSE(std::filesystem::exists(folder_.path("tiny-q8_0.gguf")));
  EXPECT_EQ(run({"quantize", model_, "q8_0", "--json"}), 0) << error_;
  EXPECT_LT(Json::parse(out_)["output_bytes"], Json::parse(out_)["input_bytes"]);
  EXPECT_EQ(ModelFile::open(folder_.path("tiny-q8_0.gguf")).info("blk.0.attn_q.weight").dtype,
            kQ8_0);
  EXPECT_EQ(run({"quantize", model_, "q8_0"}), 2);
  EXPECT_TRUE(contains(error_, "--overwrite replaces it")) << error_;
  EXPECT_EQ(run({"quantize", model_, "q8_0", "-o", model_, "--overwrite"}), 2);
  EXPECT_TRUE(contains(error_, "is what is read")) << error_;
  EXPECT_EQ(run({"quantize", model_, "q77"}), 2);
  EXPECT_TRUE(contains(error_, "expected one of")) << error_;
}

// What would be read and then not used, or taken for something else.
TEST_F(ModelCommands, words_without_effect_are_refused) {
  const struct {
    Words words;
    int code;
    const char* sentence;
  } mistakes[] = {
      {{"bench", model_, "-s", "0"}, 2, "at least one sequence"},
      {{"bench", model_, "--type", "q8_0"}, 2, "--type requires --synthetic"},
      {{"run", model_, "--temp", ""}, 2, "--temp: expected a number, got an empty text"},
      {{"run", model_, "--cache-type", "int8"}, 2, "no KV-cache type 'int8'"},
      {{"run", "none.gguf", "-f", folder_.path("none")}, 1, "none: cannot be opened"},
      {{"perplexity", "none.gguf", "-f", folder_.path("none")}, 1, "none: cannot be opened"},
      {{"quantize", model_, "q9"}, 2, "no type of weights 'q9'"},
      {{"convert", model_, folder_.path("hf"), "--type", "q9"}, 2, "no type of weights 'q9'"},
      {{"plan", model_, "--quantize", "q9"}, 2, "no type of weights 'q9'"},
      {{"plan", model_, "--device", "gpu"}, 2, "unknown kind in 'gpu'"},
      {{"plan", model_, "--memory", "0"}, 2, "--memory: expected a size above 0"},
      {{"run", model_, "--template-var", "x=1"}, 2, "are for messages: add --chat"},
      {{"run", model_, "--echo", "--json"}, 2, "--echo does not go with --json"},
      {{"run", model_, "--echo", "--chat"}, 2, "use --show-prompt"},
      {{"run", model_, "--lora-scale", "2"}, 2, "--lora-scale requires --lora"},
      {{"run", model_, "--grammar", "x", "--grammar-file", "y"},
       2,
       "--grammar excludes --grammar-file"},
      {{"bench", model_, "--out", folder_.path("none/x.json")}, 1, "x.json: cannot be written"},
      {{"bench", model_, "--out", model_ + "/x.json"}, 1, "cannot be written: Not a directory"},
      {{"bench", model_, "--framework", "native,plain", "--plot", "x.svg"}, 2, "--html FILE"},
      {{"serve", model_, "-ngl", "99"}, 2, "-ngl has no equivalent here: one device"},
      {{"serve", model_, "--api-key", "sk-1"}, 2, "use --api-keys FILE"},
      {{"serve", model_, "--deadline", "-1"}, 2, "expected a number from 0 on, got -1;"},
      {{"serve", model_, "--max-active", "0"}, 2, "not in range 1 to"},
      {{"serve", model_, "--no-log", "--log-file", "x"}, 2, "excludes"},
      {{"serve", model_, "--type", "q8_0"}, 2, "--type requires --synthetic"},
  };
  for (const auto& [words, code, sentence] : mistakes) {
    EXPECT_EQ(run(words), code) << sentence;
    EXPECT_TRUE(contains(error_, sentence)) << sentence << " / " << error_;
  }
}

TEST_F(ModelCommands, convert_goes_both_ways) {
  EXPECT_EQ(run({"convert", model_, folder_.path("hf")}), 0) << error_;
  EXPECT_EQ(run({"convert", folder_.path("hf"), folder_.path("back.gguf"), "--json"}), 0) << error_;
  EXPECT_EQ(Json::parse(out_)["tensors"], 5);
  EXPECT_EQ(run({"convert", model_, folder_.path("hf")}), 2);
  EXPECT_EQ(run({"convert", model_, folder_.path("new"), "--type", "q8_0"}), 1);
  EXPECT_TRUE(contains(error_, "f32, f16 or bf16")) << error_;
  EXPECT_FALSE(std::filesystem::exists(folder_.path("new")));
}

TEST_F(ModelCommands, plan_tells_what_would_fit) {
  EXPECT_EQ(run({"plan", model_, "--memory", "1G", "--json"}), 0) << error_;
  EXPECT_EQ(Json::parse(out_)["fits"], true);
  EXPECT_EQ(Json::parse(out_)["largest_context"], 128);
  EXPECT_EQ(run({"plan", model_, "--memory", "1k"}), 1);
  EXPECT_TRUE(contains(error_, "it does not fit")) << error_;
  EXPECT_EQ(run({"plan", model_, "--memory", "much"}), 2);
}

}  // namespace
}  // namespace tensora::llm
#endif
