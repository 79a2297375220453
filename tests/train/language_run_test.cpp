#include "tensora/train/language_run.h"

#include "../helpers.h"
#include "temporary_folder.h"
#include "tensora/io/safetensors.h"
#include "tensora/train/story.h"

namespace tensora::train {
namespace {

using testing::contains;
using testing::error_of;
using testing::TemporaryFolder;
using testing::write_text;

LanguageConfig small_config() {
  return {.vocab_size = 300,
          .context = 32,
          .width = 32,
          .layers = 2,
          .heads = 2,
          .steps = 12,
          .batch = 4,
          .validate_batches = 2,
          .sample_tokens = 8};
}

TEST(LanguageConfig, PresetsFillInWhatIsNotGiven) {
  const LanguageConfig tiny = LanguageConfig{}.resolved();
  EXPECT_EQ(tiny.model, "llama");
  EXPECT_EQ(tiny.kv_heads, 2);
  const LanguageConfig wider = LanguageConfig{.width = 192, .heads = 6}.resolved();
  EXPECT_EQ(wider.kv_heads, 6);
  EXPECT_EQ(wider.hidden, 512);
  const LanguageConfig gpt2 = LanguageConfig{.preset = "gpt2"}.resolved();
  EXPECT_EQ(gpt2.width, 768);
  EXPECT_EQ(gpt2.hidden, 3072);
  // A resolved configuration stays as it is.
  EXPECT_EQ(gpt2.resolved().to_json(), gpt2.to_json());
  EXPECT_EQ(LanguageConfig::from_json(gpt2.to_json()).to_json(), gpt2.to_json());
}

// A 0 was once taken for "not given", and a tenth of lr was what --min-lr 0 ended at.
TEST(LanguageConfig, ZerosAreKept) {
  const LanguageConfig given{
      .warmup = 0, .min_lr = 0, .validate_every = 0, .sample_every = 0, .checkpoint_every = 0};
  const LanguageConfig zeros = given.resolved();
  EXPECT_EQ(zeros.min_lr, 0);
  for (const int64_t setting :
       {zeros.warmup, zeros.validate_every, zeros.sample_every, zeros.checkpoint_every})
    EXPECT_EQ(setting, 0);
  const LanguageConfig tiny = LanguageConfig{}.resolved();
  EXPECT_EQ(tiny.min_lr, tiny.lr / 10);
  EXPECT_EQ(tiny.warmup, 50);
  EXPECT_EQ(tiny.checkpoint_every, tiny.steps / 10);
}

TEST(LanguageConfig, MistakesAreNamed) {
  const auto error = [](const LanguageConfig& config) {
    return error_of([&] { config.resolved(); });
  };
  EXPECT_TRUE(contains(error({.preset = "huge"}), "there is no preset 'huge'"));
  EXPECT_TRUE(
      contains(error({.width = 100, .heads = 3}), "heads must divide the width 100, got 3"));
  EXPECT_TRUE(contains(error({.model = "bert"}), "model must be llama or gpt2, got 'bert'"));
  EXPECT_TRUE(contains(error({.amp = "f16"}), "needs a GPU"));
  EXPECT_TRUE(contains(error({.validation = 1}), "validation must be in [0, 1), got 1"));
  EXPECT_TRUE(contains(error({.steps = -3}), "steps must be at least 1, got -3"));
  EXPECT_TRUE(contains(error({.dropout = 0.1}), "dropout must be 0 for a llama"));
  EXPECT_EQ(error({.model = "gpt2", .dropout = 0.1}), "");
  EXPECT_TRUE(contains(error({.lr = INFINITY}), "lr must be positive, got inf"));
  EXPECT_TRUE(contains(error({.min_lr = -0.5}), "min_lr must not be negative, got -0.5"));
  EXPECT_TRUE(contains(error({.weight_decay = NAN}), "weight_decay must not be negative"));
  EXPECT_TRUE(contains(error({.beta2 = 1}), "beta2 must be in [0, 1), got 1"));
  EXPECT_TRUE(contains(error({.clip_norm = -1}), "clip_norm must not be negative, got -1"));
  EXPECT_TRUE(contains(error_of([] { LanguageConfig::from_json("{\"stepz\": 3}"); }),
                       "there is no setting 'stepz'"));
  EXPECT_TRUE(contains(error_of([] { LanguageConfig::from_json("{\"steps\": \"x\"}"); }),
                       "the value of 'steps' is of the wrong kind"));
  EXPECT_NE(error_of([] { LanguageConfig::from_json("[1"); }), "");
}

TEST(TokenWindows, TargetsFollowInputs) {
  std::vector<int32_t> tokens(100);
  for (int i = 0; i < 100; ++i) tokens[size_t(i)] = i;
  const TokenWindows windows(tokens, 8);
  const auto [inputs, targets] = windows.random(5, 16);
  EXPECT_EQ(inputs.shape(), (Shape{16, 8}));
  EXPECT_TRUE(equal(inputs + 1, targets));
  EXPECT_TRUE(equal(inputs, windows.random(5, 16).inputs));
  EXPECT_FALSE(equal(inputs, windows.random(6, 16).inputs));
  EXPECT_EQ(windows.even(0, 4, 2).inputs[0][0].item<int>(), 0);
  EXPECT_EQ(windows.even(3, 4, 2).targets[1][7].item<int>(), 99);
  EXPECT_EQ(TokenWindows(tokens, 99).random(1, 1).inputs[0][0].item<int>(), 0);
  EXPECT_TRUE(contains(error_of([&] { TokenWindows w(tokens, 100); }),
                       "the text has 100 tokens, which is too short for a context of 100"));
}

TEST(LanguageRun, TrainsWritesAndLeavesAModel) {
  TemporaryFolder folder;
  for (const char* model : {"llama", "gpt2"}) {
    LanguageConfig config = small_config();
    config.model = model;
    const std::string path = folder.path(model);
    LanguageRun run(config, {.folder = path, .text = story_corpus(1, 20000)});
    const double before = *run.validation_loss();
    const TrainerOutcome outcome = run.train();
    EXPECT_EQ(outcome.step, 12);
    EXPECT_LT(*run.validation_loss(), before);
    EXPECT_EQ(run.write("Once", {.max_new_tokens = 5, .temperature = 0}),
              run.write("Once", {.max_new_tokens = 5, .temperature = 0}));
    for (const char* file : {"config.json", "tokenizer.json", "metrics.jsonl", "metrics.csv",
                             "model/config.json", "model/tokenizer.json"})
      EXPECT_TRUE(std::filesystem::exists(path + "/" + file)) << file;
    EXPECT_GT(io::load_safetensors(path + "/model/model.safetensors").size(), 10u);
    EXPECT_TRUE(
        contains(error_of([&] {
                   LanguageRun(config, {.folder = path, .text = story_corpus(1, 20000)}).train();
                 }),
                 "already holds a run"));
  }
}

TEST(LanguageRun, BadTextsAreNamed) {
  TemporaryFolder folder;
  const auto error = [&](const LanguageConfig& config, const std::string& text) {
    return error_of([&] { LanguageRun(config, {.folder = folder.path("run"), .text = text}); });
  };
  LanguageConfig config = small_config();
  EXPECT_TRUE(contains(error(config, ""), "no text to learn from"));
  EXPECT_TRUE(contains(error(config, " \n "), "the text to learn from is empty"));
  EXPECT_TRUE(contains(error(config, "Once upon a time"), "too short for a context of 32"));
  config.validation = 0.01;
  EXPECT_TRUE(contains(error(config, story(1, 0)), "the part of the text for validation has"));
  config.text = {folder.path("none.txt")};
  EXPECT_TRUE(contains(error(config, ""), "none.txt: cannot be opened"));
  config.text = {folder.path()};
  EXPECT_TRUE(contains(error(config, ""), "is a folder, not a text"));
  config.tokenizer = folder.path("tokenizer.json");
  EXPECT_TRUE(contains(error(config, story(1, 0)), "tokenizer.json: cannot be opened"));
}

}  // namespace
}  // namespace tensora::train
