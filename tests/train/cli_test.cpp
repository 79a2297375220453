// The program tensora from end to end: its exit codes, its errors, a run that is killed and
// resumed.
#ifdef TENSORA_CLI
#include <csignal>
#include <filesystem>

#include "../helpers.h"
#include "../program.h"
#include "temporary_folder.h"
#include "tensora/dispatch/build_info.h"
#include "tensora/llm/tokenizer/bpe_tokenizer.h"
#include "tensora/train/run_history.h"

namespace tensora::train {
namespace {

using testing::contains;
using testing::Program;
using testing::read_text;
using testing::TemporaryFolder;
using testing::write_text;
using Words = std::vector<std::string>;

int64_t lines_of(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

std::vector<double> losses(const std::string& folder) {
  for (const Curve& curve : read_run(folder).curves)
    if (curve.name == "loss/train") return curve.values;
  return {};
}

Words training(const TemporaryFolder& folder, const std::string& out, Words more = {}) {
  Words words = {"train",
                 "lm",
                 "--text",
                 folder.path("text"),
                 "--out",
                 folder.path(out),
                 "--width",
                 "16",
                 "--layers",
                 "1",
                 "--heads",
                 "2",
                 "--context",
                 "16",
                 "--vocab-size",
                 "300",
                 "--steps",
                 "60",
                 "--batch",
                 "2",
                 "--checkpoint-every",
                 "4",
                 "--validate-every",
                 "20",
                 "--validate-batches",
                 "1",
                 "--sample-every",
                 "30",
                 "--sample-tokens",
                 "4",
                 "--model",
                 "gpt2",
                 "--dropout",
                 "0.1"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Cli, UsageErrorsAreOneSentenceAndCode2) {
  TemporaryFolder folder;
  write_text(folder.path("text"), "x");
  const struct {
    Words words;
    std::string sentence;
  } mistakes[] = {
      {{}, "A subcommand is required"},
      {{"fly"}, "there is no command 'fly'; 'tensora --help' tells more"},
      {{"trian", "lm"}, "there is no command 'trian'; did you mean 'train'? 'tensora --help'"},
      {{"--fly"}, "there is no option '--fly'"},
      {{"train", "lm", "--stpes", "3"}, "no option '--stpes'; did you mean '--steps'?"},
      {{"train", "image", "--epoch=3"}, "no option '--epoch'; did you mean '--epochs'?"},
      {{"info", "now", "please"}, "tensora info: 'now' was not expected"},
      {{"train", "lm", "--out", "r", "--text", "t", "--steps", "-3"}, "steps must be at least 1"},
      {{"train", "image", "--out", "r", "--data", "t", "--epochs", "-3"}, "epochs must be"},
      {{"train", "lm"}, "--out is required"},
      {{"train", "lm", "--out", folder.path("r")}, "--text is required"},
      {{"train", "lm", "--out", "r", "--text", "t", "--steps", "many"}, "steps"},
      {{"train", "lm", "--out", "r", "--text", "t", "--preset", "huge"},
       "huge not in {tiny,small,gpt2}"},
      {{"plot"}, "runs is required"},
      {{"stories", "--size", "4Q"}, "expected a size such as 500k"},
      {{"stories", "--seed", "2", "--judge", "x"}, "--judge"},
      {{"train", "lm", "--out", "r", "--text", "t", "--min-lr", "-2"}, "min_lr must not be"},
      {{"train", "lm", "--out", "r", "--text", "t", "--lr", "nan"},
       "--lr: expected a finite number"},
      {{"train", "lm", "--out", "r", "--text", "t", "--lr", ""}, "--lr: expected a number, got an"},
      {{"train", "lm", "--out", "r", "--text", "t", "--batch", "1000000000000"},
       "batch must be from"},
      {{"stories", "--size", "1k", "--size", "2k"}, "--size is given 2 times;"},
      {{"stories", "--seed", "-1"}, "--seed: expected no negative number, got -1"},
      {{"stories", "--seed", "18446744073709551616"}, "18446744073709551616 is too large"},
      {{"launch", "-n", "0", "--", "true"}, "--ranks: Value 0 not in range"},
      {{"launch", "-n", "2", "--"}, "program is required"},
      {{"completion", "tcsh"}, "tcsh not in"},
  };
  for (const auto& [words, sentence] : mistakes) {
    const Program program(folder, words);
    EXPECT_EQ(program.wait(), 2) << sentence;
    EXPECT_TRUE(contains(program.error(), sentence)) << program.error();
    EXPECT_EQ(lines_of(program.error()), 1) << program.error();
  }
}

TEST(Cli, FailuresAreOneSentenceAndCode1) {
  TemporaryFolder folder;
  write_text(folder.path("text"), "too short");
  const struct {
    Words words;
    std::string sentence;
  } failures[] = {
      {training(folder, "run"), "too short for a context of 16"},
      {{"train", "lm", "--text", folder.path("none"), "--out", folder.path("r")},
       "cannot be opened"},
      {{"train", "lm", "--text", folder.path("none"), "--out", folder.path("text/run")},
       "text is not a folder"},
      {{"plot", folder.path("none")}, "cannot be opened"},
      {{"stories", "--out", folder.path("none/file")}, "could not be created"},
  };
  for (const auto& [words, sentence] : failures) {
    const Program program(folder, words);
    EXPECT_EQ(program.wait(), 1) << sentence;
    EXPECT_TRUE(contains(program.error(), sentence)) << program.error();
    EXPECT_EQ(lines_of(program.error()), 1) << program.error();
  }
}

TEST(Cli, TellsItsVersion) {
  TemporaryFolder folder;
  const Program program(folder, {"--version"});
  EXPECT_EQ(program.wait(), 0);
  EXPECT_EQ(program.out(), "tensora " + build_info().version + "\n");
}

TEST(Cli, HelpNamesWhatUsersSearchFor) {
  TemporaryFolder folder;
  const auto help = [&](Words words) {
    words.emplace_back("--help");
    const Program program(folder, words);
    EXPECT_EQ(program.wait(), 0);
    return program.out();
  };
  const std::string training = help({"train", "lm"});
  for (const char* term : {"Hidden size (d_model)", "Number of transformer layers",
                           "Number of key/value heads", "Feed-forward size", "Dropout probability",
                           "Micro-batch size", "Gradient accumulation", "Peak learning rate"})
    EXPECT_TRUE(contains(training, term)) << term;
  // What is only for the first page does not stand under the commands.
  EXPECT_TRUE(contains(help({}), "Start here:"));
  for (const char* command : {"launch", "jit"})
    EXPECT_FALSE(contains(help({command}), "Start here:")) << command;
  for (const char* command : {"run", "bench", "launch", "embed"}) {
    EXPECT_FALSE(contains(help({command}), "{false}")) << command;
    EXPECT_TRUE(contains(help({command}), "--no-")) << command;
  }
}

TEST(Cli, AReaderThatWentAwayIsNoError) {
  TemporaryFolder folder;
  const std::string error = folder.path("error");
  const std::string line =
      std::string(TENSORA_CLI) + " stories --size 4M 2>" + error + " | head -c 1 >/dev/null";
  EXPECT_EQ(std::system(line.c_str()), 0);
  EXPECT_EQ(read_text(error), "");
}

TEST(Cli, AFullDiskIsTold) {
  TemporaryFolder folder;
  std::filesystem::create_symlink("/dev/full", folder.path("stdout"));
  for (const Words& words : {Words{"info"}, {"--help"}, {"pull", "--list"}}) {
    const Program program(folder, words);
    EXPECT_EQ(program.wait(), 1) << words[0];
    EXPECT_EQ(program.error(), "tensora: standard output cannot be written to\n");
  }
}

TEST(Cli, NothingIsPrintedIntoFilesOfARun) {
  TemporaryFolder folder;
  ASSERT_EQ(Program(folder, {"stories", "--size", "20k", "--out", folder.path("text")}).wait(), 0);
  std::string line = TENSORA_CLI;
  for (const std::string& word : training(folder, "run")) line += " '" + word + "'";
  EXPECT_EQ(std::system((line + " 2>&-").c_str()), 0);
  const std::string process = read_text(folder.path("run/.lock"));
  EXPECT_EQ(process.find_first_not_of("0123456789\n"), process.npos) << process;
}

TEST(Cli, PlotsTheRunOfAFile) {
  TemporaryFolder folder;
  write_text(folder.path("metrics.jsonl"), "{\"step\": 1, \"loss\": 2}\n");
  const Program program(folder, {"plot", folder.path("metrics.jsonl")});
  EXPECT_EQ(program.wait(), 0) << program.error();
  EXPECT_EQ(program.out(), folder.path("plot.svg") + "\n" + folder.path("plot.html") + "\n");
  const auto here = std::filesystem::current_path();
  std::filesystem::current_path(folder.path("."));
  const std::string name = read_run("metrics.jsonl").name;
  std::filesystem::current_path(here);
  EXPECT_EQ(name, std::filesystem::path(folder.path("x")).parent_path().filename().string());
}

TEST(Cli, HelpTeaches) {
  TemporaryFolder folder;
  for (const Words& words :
       {Words{}, {"train"}, {"train", "lm"}, {"plot"}, {"stories"}, {"info"}, {"completion"}}) {
    Words asked = words;
    asked.emplace_back("--help");
    const Program program(folder, asked);
    EXPECT_EQ(program.wait(), 0);
    EXPECT_TRUE(contains(program.out(), "tensora ")) << program.out();
  }
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Program program(folder, {"completion", shell});
    EXPECT_EQ(program.wait(), 0);
    EXPECT_TRUE(contains(program.out(), "preset")) << shell;
  }
}

TEST(Cli, TokenizesWithATrainedTokenizer) {
  TemporaryFolder folder;
  const auto trained = llm::BpeTokenizer::train("the cat sat on the mat", {.vocab_size = 262});
  const std::string path = folder.path("tokenizer.json");
  trained.save(path);
  const std::string text = "the mat\n";
  write_text(folder.path("text"), text);
  std::string ids;
  for (const int32_t token : trained.encode(text))
    ids += (ids.empty() ? "" : " ") + std::to_string(token);
  const Program encode(folder,
                       {"tokenize", path, "--ids", "--no-bos", "--file", folder.path("text")});
  ASSERT_EQ(encode.wait(), 0) << encode.error();
  EXPECT_EQ(encode.out(), ids + "\n");
  const Program decode(folder, {"tokenize", path, "--decode", ids});
  ASSERT_EQ(decode.wait(), 0) << decode.error();
  EXPECT_EQ(decode.out(), text);
  const Program same(folder, {"tokenize", path, "--check", path});
  EXPECT_EQ(same.wait(), 0) << same.error();
  const Program wrong(folder, {"tokenize", path, "--decode", "99999"});
  EXPECT_EQ(wrong.wait(), 1);
  EXPECT_TRUE(contains(wrong.error(), "expected a number below"));
  EXPECT_EQ(Program(folder, {"tokenize", path}).wait(), 2);
}

TEST(Cli, AKilledRunResumesBitForBit) {
  TemporaryFolder folder;
  ASSERT_EQ(Program(folder, {"stories", "--size", "20k", "--out", folder.path("text")}).wait(), 0);
  const Program whole(folder, training(folder, "whole"));
  ASSERT_EQ(whole.wait(), 0) << whole.error();
  ASSERT_EQ(losses(folder.path("whole")).size(), 60u);

  int killed = 0;
  for (int round = 0; round < 8; ++round) {
    const Program program(folder, training(folder, "killed", {"--resume"}));
    // Within a few more steps each time: how long a step takes depends on the machine.
    const std::string log = folder.path("killed/metrics.jsonl");
    const auto logged = [&] {
      return std::filesystem::exists(log) ? lines_of(read_text(log)) : int64_t{0};
    };
    const int64_t begin = logged();
    while (!program.ended() && logged() <= begin + round) usleep(200);
    program.send(round % 4 == 3 ? SIGINT : SIGKILL);
    killed += program.wait() != 0;
  }
  EXPECT_GT(killed, 0);
  const Program last(folder, {"train", "lm", "--out", folder.path("killed"), "--resume"});
  ASSERT_EQ(last.wait(), 0) << last.error();
  EXPECT_EQ(losses(folder.path("killed")), losses(folder.path("whole")));
  const Program done(folder, {"train", "lm", "--out", folder.path("killed"), "--resume"});
  ASSERT_EQ(done.wait(), 0) << done.error();
  EXPECT_TRUE(contains(done.error(), "no step was left to do")) << done.error();
  EXPECT_EQ(read_text(folder.path("killed/model/model.safetensors")),
            read_text(folder.path("whole/model/model.safetensors")));

  const Program plot(
      folder, {"plot", folder.path("whole"), folder.path("killed"), "--out", folder.path("p")});
  ASSERT_EQ(plot.wait(), 0) << plot.error();
  EXPECT_TRUE(read_text(folder.path("p.svg")).ends_with("</svg>\n"));
  EXPECT_TRUE(read_text(folder.path("p.html")).ends_with("</html>\n"));
  const Program again(folder, training(folder, "whole"));
  EXPECT_EQ(again.wait(), 2);
  EXPECT_TRUE(contains(again.error(), "already holds a run: continue it with --resume"));
}

}  // namespace
}  // namespace tensora::train
#endif
