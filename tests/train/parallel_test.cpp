// `tensora train lm --parallel` on the ranks of `tensora launch`.
#ifdef TENSORA_CLI

#include <fstream>
#include <sstream>

#include "tensora/io/safetensors.h"
#include "tests/helpers.h"
#include "tests/program.h"

namespace tensora::testing {
namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class ParallelTraining : public ::testing::Test {
 protected:
  ParallelTraining() {
    std::string text;
    for (int i = 0; i < 600; ++i) text += concat("the number ", i * i % 97, " follows ", i, ".\n");
    write_text(folder_.path("text.txt"), text);
  }

  /// Trains a small model on `ranks` ranks; the exit code.
  int train(int ranks, const std::string& parallel, const std::string& run,
            const std::vector<std::string>& more) {
    std::vector<std::string> words = {"launch",         "-n",     std::to_string(ranks),
                                      "--threads",      "1",      "--",
                                      TENSORA_CLI,      "train",  "lm",
                                      "--parallel",     parallel, "--out",
                                      folder_.path(run)};
    words.insert(words.end(), more.begin(), more.end());
    return Program(folder_, words).wait();
  }
  /// Without clipping: the norm of shards is added up in another order than that of whole
  /// gradients.
  std::vector<std::string> settings() const {
    return {"--text",
            folder_.path("text.txt"),
            "--tokenizer",
            "bytes",
            "--width",
            "16",
            "--heads",
            "2",
            "--kv-heads",
            "1",
            "--layers",
            "2",
            "--hidden",
            "32",
            "--context",
            "16",
            "--batch",
            "2",
            "--steps",
            "8",
            "--sample-tokens",
            "0",
            "--clip-norm",
            "0",
            "--warmup",
            "2",
            "--validate-batches",
            "1",
            "--checkpoint-every",
            "4"};
  }
  std::string model(const std::string& run) const {
    return bytes_of(folder_.path(run) + "/model/model.safetensors");
  }

  /// The largest difference between the models of two runs.
  double far_from(const std::string& run, const std::string& other) const {
    const StateDict a = io::load_safetensors(folder_.path(run) + "/model/model.safetensors");
    const StateDict b = io::load_safetensors(folder_.path(other) + "/model/model.safetensors");
    double worst = a.size() == b.size() ? 0 : 1e9;
    for (const auto& [name, tensor] : a)
      worst = std::max(worst, (tensor - b.at(name)).abs().max().item<double>());
    return worst;
  }

  TemporaryFolder folder_;
};

TEST_F(ParallelTraining, StagesGiveTheSameModelAndResume) {
  ASSERT_EQ(train(2, "dp", "dp", settings()), 0);
  ASSERT_EQ(train(2, "zero3", "zero3", settings()), 0);
  ASSERT_FALSE(model("dp").empty());
  EXPECT_TRUE(model("zero3") == model("dp"));
  // As if the job had been killed behind step 4; other stages and numbers of ranks may go on.
  std::filesystem::remove(folder_.path("zero3") + "/checkpoints/step-000000000008/index.json");
  ASSERT_EQ(train(2, "zero1", "zero3", {"--resume"}), 0);
  EXPECT_TRUE(model("zero3") == model("dp"));
  EXPECT_EQ(train(3, "zero2", "zero3", {"--resume", "--steps", "10"}), 0);
  // One process has checkpoints of another kind.
  Program alone(folder_, {"train", "lm", "--out", folder_.path("dp"), "--resume", "--steps", "9"});
  EXPECT_NE(alone.wait(), 0);
}

TEST_F(ParallelTraining, AStoppedJobTellsHowToGoOn) {
  std::vector<std::string> words = {"train", "lm",    "--parallel",
                                    "dp",    "--out", folder_.path("run")};
  for (const std::string& word : settings()) words.push_back(word);
  *(std::find(words.begin(), words.end(), "--steps") + 1) = "1000000";
  const Program program(folder_, words);
  while (!program.ended() && !std::filesystem::exists(folder_.path("run/metrics.jsonl")))
    usleep(20000);
  program.send(SIGINT);
  EXPECT_EQ(program.wait(), 130) << program.error();
  // Without --parallel the checkpoints would be refused.
  EXPECT_TRUE(contains(program.error(), "continue with: tensora train lm --parallel dp --out "))
      << program.error();
}

TEST_F(ParallelTraining, TensorParallelRanksTrainOneModel) {
  std::vector<std::string> clipped = settings();
  *(std::find(clipped.begin(), clipped.end(), "--clip-norm") + 1) = "0.5";
  ASSERT_EQ(train(2, "dp", "dp", clipped), 0);
  ASSERT_EQ(train(4, "tp=2,dp=2", "tp", clipped), 0);
  EXPECT_LT(far_from("tp", "dp"), 1e-4);
  // Behind step 4 another layout goes on.
  std::filesystem::remove(folder_.path("tp") + "/checkpoints/step-000000000008/index.json");
  ASSERT_EQ(train(2, "dp", "tp", {"--resume"}), 0);
  EXPECT_LT(far_from("tp", "dp"), 1e-4);
  EXPECT_NE(train(3, "tp=2", "wrong", settings()), 0);
  EXPECT_NE(train(2, "tp=2,pp=2", "wrong", settings()), 0);
}

TEST_F(ParallelTraining, PipelineRanksTrainOneModel) {
  std::vector<std::string> clipped = settings();
  *(std::find(clipped.begin(), clipped.end(), "--clip-norm") + 1) = "0.5";
  std::vector<std::string> divided = clipped;
  divided.insert(divided.end(), {"--grad-accum", "2"});
  ASSERT_EQ(train(2, "dp", "dp", clipped), 0);
  ASSERT_EQ(train(2, "pp=2,zero-bubble", "pp", divided), 0);
  EXPECT_LT(far_from("pp", "dp"), 1e-4);
  // Behind step 4 one rank goes on, with the whole model.
  std::filesystem::remove(folder_.path("pp") + "/checkpoints/step-000000000008/index.json");
  ASSERT_EQ(train(1, "dp", "pp", {"--resume"}), 0);
  EXPECT_LT(far_from("pp", "dp"), 1e-4);
  EXPECT_NE(train(3, "pp=2", "wrong", divided), 0);     // another number of ranks
  EXPECT_NE(train(3, "pp=3", "wrong", divided), 0);     // more ranks than layers
  EXPECT_NE(train(2, "pp=2,sp", "wrong", divided), 0);  // no schedule
  divided.insert(divided.end(), {"--amp", "bf16"});
  EXPECT_EQ(train(2, "pp=2", "wrong", divided), 2);
}

}  // namespace
}  // namespace tensora::testing

#endif
