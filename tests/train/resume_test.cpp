// Runs that are resumed with other settings, by two processes at once, without or with damaged
// checkpoints.

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "../helpers.h"
#include "temporary_folder.h"
#include "tensora/train/language_run.h"
#include "tensora/train/run_history.h"
#include "tensora/train/run_lock.h"
#include "tensora/train/story.h"
#include "tensora/train/tensor_board_logger.h"
#ifdef TENSORA_CLI
#include "../program.h"
#endif

namespace tensora::train {
namespace {

namespace fs = std::filesystem;
using testing::contains;
using testing::error_of;
using testing::read_text;
using testing::TemporaryFolder;
using testing::write_text;

const std::string& corpus() {
  static const std::string text = story_corpus(1, 20000);
  return text;
}

LanguageConfig small_config() {
  return {.vocab_size = 280,
          .context = 16,
          .width = 16,
          .layers = 1,
          .heads = 2,
          .steps = 6,
          .batch = 2,
          .validate_batches = 1,
          .sample_tokens = 4,
          .checkpoint_every = 2};
}

TrainerOutcome train(const std::string& folder, LanguageConfig config, bool resume,
                     const std::string& text = corpus()) {
  return LanguageRun(config, {.folder = folder, .resume = resume, .text = text}).train();
}

// What a resumed run starts from, as the command line reads it.
LanguageConfig kept_config(const std::string& folder) {
  return LanguageConfig::from_json(read_text(folder + "/config.json"));
}

std::vector<double> steps_of(const std::string& folder, const std::string& name) {
  for (const Curve& curve : read_run(folder).curves)
    if (curve.name == name) return curve.steps;
  return {};
}

std::string checkpoint(const std::string& folder, int step) {
  return concat(folder, "/checkpoints/step-00000000000", step, ".pt");
}

TEST(Resume, AWrongSettingChangesNothing) {
  TemporaryFolder folder;
  const std::string run = folder.path("run");
  train(run, small_config(), false);
  const std::string settings = read_text(run + "/config.json");
  const std::string log = read_text(run + "/metrics.jsonl");
  struct Mistake {
    const char* sentence;
    void (*change)(LanguageConfig&);
  };
  const Mistake mistakes[] = {
      {"width must stay 16, with which the run", [](auto& c) { c.width = 32; }},
      {"heads must stay 2", [](auto& c) { c.heads = 4; }},
      {"layers must stay 1", [](auto& c) { c.layers = 2; }},
      {"preset must stay \"tiny\"", [](auto& c) { c.preset = "small"; }},
      {"model must stay \"llama\"", [](auto& c) { c.model = "gpt2"; }},
      {"tokenizer must stay \"bpe\"", [](auto& c) { c.tokenizer = "bytes"; }},
      {"steps must be at least 6, the step of the newest checkpoint", [](auto& c) { c.steps = 3; }},
      {"its SHA-256 must be 0000", [](auto& c) { c.text_sha256 = std::string(64, '0'); }}};
  for (const Mistake& mistake : mistakes) {
    LanguageConfig config = kept_config(run);
    mistake.change(config);
    const std::string error = error_of([&] { train(run, config, true); });
    EXPECT_TRUE(contains(error, mistake.sentence)) << mistake.sentence << ": " << error;
    EXPECT_EQ(read_text(run + "/config.json"), settings) << mistake.sentence;
    EXPECT_EQ(read_text(run + "/metrics.jsonl"), log) << mistake.sentence;
  }
  LanguageConfig longer = kept_config(run);
  longer.steps = 8;
  EXPECT_EQ(train(run, longer, true).step, 8);
  EXPECT_EQ(kept_config(run).steps, 8);
}

TEST(Resume, AChangedTextIsNoticed) {
  TemporaryFolder folder;
  const std::string run = folder.path("run");
  train(run, small_config(), false);
  LanguageConfig config = kept_config(run);
  EXPECT_EQ(config.text_sha256.size(), 64u);
  config.steps = 8;
  const std::string changed = corpus() + "Once more.";
  EXPECT_TRUE(contains(error_of([&] { train(run, config, true, changed); }),
                       "the text to learn from is not the one that the run began with"));
  config.text_sha256 = "any";
  EXPECT_EQ(train(run, config, true, changed).step, 8);
  EXPECT_NE(kept_config(run).text_sha256, "any");
  // A run from before the sum was kept.
  config.text_sha256 = "";
  config.steps = 9;
  EXPECT_EQ(train(run, config, true).step, 9);
}

TEST(Resume, OneProcessAtATime) {
  TemporaryFolder folder;
  const std::string run = folder.path("run");
  int ready[2], done[2];
  ASSERT_EQ(pipe(ready) | pipe(done), 0);
  const pid_t child = fork();
  if (child == 0) {
    const RunLock lock(run);
    char byte = 0;
    const bool told = write(ready[1], "r", 1) == 1 && read(done[0], &byte, 1) == 1;
    _exit(told ? 0 : 1);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const std::string error = error_of([&] { train(run, small_config(), true); });
  EXPECT_TRUE(contains(error, concat("another process (process ", child, ") is training in this")))
      << error;
  EXPECT_FALSE(fs::exists(run + "/config.json"));
  EXPECT_EQ(write(done[1], "d", 1), 1);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(train(run, small_config(), true).step, 6);
  for (const int end : {ready[0], ready[1], done[0], done[1]}) close(end);
}

TEST(Resume, AnOlderCheckpointIsNamed) {
  TemporaryFolder folder;
  const std::string run = folder.path("run");
  train(run, small_config(), false);
  fs::resize_file(checkpoint(run, 6), 1000);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(train(run, kept_config(run), true).step, 6);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(contains(said, "a newer checkpoint cannot be used")) << said;
  EXPECT_TRUE(contains(said, "goes on from the older checkpoint " + checkpoint(run, 4))) << said;
  EXPECT_EQ(steps_of(run, "loss/train"), (std::vector<double>{1, 2, 3, 4, 5, 6}));
}

TEST(Resume, WithoutACheckpointTheLogsAreKept) {
  TemporaryFolder folder;
  const std::string run = folder.path("run");
  train(run, small_config(), false);
  const std::string log = read_text(run + "/metrics.jsonl");
  fs::remove_all(run + "/checkpoints");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(train(run, kept_config(run), true).step, 6);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(contains(said, "there is no checkpoint, so the run starts again from step 0"))
      << said;
  EXPECT_EQ(read_text(run + "/old-logs-1/metrics.jsonl"), log);
  EXPECT_TRUE(fs::exists(run + "/old-logs-1/metrics.csv"));
  EXPECT_EQ(steps_of(run, "loss/train").size(), 6u);
}

// A run that was killed before its first checkpoint has logged its first validation and sample.
TEST(Resume, TheRowsBeforeTheFirstStepAreNotDoubled) {
  TemporaryFolder folder;
  const std::string run = folder.path("run");
  {
    RunLogger log(run);
    log.scalars(0, {{"loss/val", 1.0}});
    log.text(0, "sample", "a sample");
  }
  write_text(run + "/.config.json.tmp-999999999-0", "{");
  write_text(run + "/metrics.csv.new", "step");
  train(run, small_config(), true);
  const std::vector<double> steps = steps_of(run, "loss/val");
  EXPECT_EQ(std::count(steps.begin(), steps.end(), 0.0), 1);
  EXPECT_FALSE(fs::exists(run + "/old-logs-1"));
  EXPECT_FALSE(fs::exists(run + "/.config.json.tmp-999999999-0"));
  EXPECT_FALSE(fs::exists(run + "/metrics.csv.new"));
  int events = 0;
  for (const auto& entry : fs::directory_iterator(run)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kEventFilePrefix)) continue;
    ++events;
    EXPECT_TRUE(contains(read_text(entry.path()).substr(0, 60), "brain.Event:2"));
  }
  EXPECT_EQ(events, 1);
}

TEST(Resume, ARunInAFolderWithLogsWritesNothing) {
  TemporaryFolder folder;
  const std::string run = folder.path("run");
  RunLogger(run).scalars(1, {{"loss", 1.0}});
  EXPECT_TRUE(contains(error_of([&] { train(run, small_config(), false); }),
                       "already holds the logs of a run"));
  EXPECT_FALSE(fs::exists(run + "/config.json"));
}

#ifdef TENSORA_CLI
TEST(Resume, ASignalSavesAndIsTheExitCode) {
  TemporaryFolder folder;
  write_text(folder.path("text"), corpus());
  int64_t last = 0;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const testing::Program program(folder, {"train",
                                            "lm",
                                            "--text",
                                            folder.path("text"),
                                            "--out",
                                            folder.path("run"),
                                            "--width",
                                            "16",
                                            "--layers",
                                            "1",
                                            "--heads",
                                            "2",
                                            "--context",
                                            "16",
                                            "--vocab-size",
                                            "280",
                                            "--batch",
                                            "1",
                                            "--steps",
                                            "1000000",
                                            "--sample-every",
                                            "1000000",
                                            "--validate-batches",
                                            "1",
                                            "--resume"});
    while (true) {
      usleep(20000);
      if (!fs::exists(folder.path("run/metrics.jsonl"))) continue;
      const std::vector<double> steps = steps_of(folder.path("run"), "loss/train");
      if (!steps.empty() && steps.back() > double(last + 2)) break;
    }
    program.send(signal);
    if (signal == SIGHUP) program.send(signal);  // a closing terminal sends two
    EXPECT_EQ(program.wait(), 128 + signal) << program.error();
    EXPECT_TRUE(contains(program.error(), "continue with: tensora train lm")) << program.error();
    const auto steps = steps_of(folder.path("run"), "loss/train");
    ASSERT_FALSE(steps.empty());
    EXPECT_GT(steps.back(), double(last));
    last = int64_t(steps.back());
    int64_t newest = 0;
    for (const auto& entry : fs::directory_iterator(folder.path("run/checkpoints")))
      if (const std::string name = entry.path().filename(); name.starts_with("step-"))
        newest = std::max<int64_t>(newest, std::stoll(name.substr(5)));
    EXPECT_EQ(newest, last);
  }
}
#endif

}  // namespace
}  // namespace tensora::train
