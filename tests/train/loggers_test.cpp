#include <cmath>

#include "../helpers.h"
#include "temporary_folder.h"
#include "tensora/train/csv_logger.h"
#include "tensora/train/jsonl_logger.h"
#include "tensora/train/run_logger.h"
#include "tensora/train/tensor_board_logger.h"

namespace tensora::train {
namespace {

using testing::contains;
using testing::error_of;
using testing::read_text;
using testing::TemporaryFolder;
using testing::write_text;

std::string event_file(const TemporaryFolder& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    if (entry.path().filename().string().starts_with("events.out.")) return entry.path().string();
  return "";
}

// The lines of a file without their times.
std::vector<std::string> rows(const std::string& path) {
  std::vector<std::string> out;
  std::istringstream text(read_text(path));
  for (std::string line; std::getline(text, line);) {
    const size_t from = line.find("\"wall\":"), to = line.find(',', from);
    if (from != line.npos) line.erase(from, to - from);
    out.push_back(line);
  }
  return out;
}

TEST(Crc32c, KnownAnswers) {
  const auto unmasked = [](std::string_view text) {
    const uint32_t turned = masked_crc32c(text) - 0xA282EAD8u;
    return turned << 15 | turned >> 17;
  };
  EXPECT_EQ(unmasked("123456789"), 0xE3069283u);
  EXPECT_EQ(unmasked(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(unmasked(""), 0u);
}

TEST(JsonlLogger, RowsReadBackExactly) {
  TemporaryFolder folder;
  JsonlLogger log(folder.path("m.jsonl"));
  log.scalars(3, {{"loss", 0.1}, {"bad", NAN}, {"a \"name\"", 1e300}});
  log.text(4, "sample", "two\nlines \x01 \xFF");
  const auto lines = rows(folder.path("m.jsonl"));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], R"({"step":3,,"loss":0.1,"bad":null,"a \"name\"":1e+300})");
  EXPECT_EQ(lines[1], "{\"step\":4,,\"tag\":\"sample\",\"text\":\"two\\nlines \\u0001 \uFFFD\"}");
}

TEST(CsvLogger, NewColumnsAndResuming) {
  TemporaryFolder folder;
  const std::string path = folder.path("m.csv");
  {
    CsvLogger log(path);
    log.scalars(1, {{"loss", 2}});
    log.scalars(2, {{"loss", 1.5}, {"val, loss", 1.75}});
    log.scalars(3, {{"loss", 1}});
  }
  {
    CsvLogger log(path);
    log.rewind(2);
    log.scalars(3, {{"loss", 1.25}, {"val, loss", 3}});
  }
  std::istringstream text(read_text(path));
  std::string line, all;
  while (std::getline(text, line)) {
    const size_t from = line.find(','), to = line.find(',', from + 1);
    all += line.substr(0, from) + line.substr(to) + "\n";
  }
  EXPECT_EQ(all, "step,loss,\"val, loss\"\n1,2,\n2,1.5,1.75\n3,1.25,3\n");
}

TEST(RunLogger, ResumesWithoutLosingOrRepeatingSteps) {
  TemporaryFolder folder;
  for (const int64_t crash : {-1, 5, 3}) {
    RunLoggerOptions options;
    if (crash >= 0) options.resume_after = crash;
    RunLogger log(folder.path(), options);
    for (int64_t step = std::max<int64_t>(crash, 0) + 1; step <= 8; ++step) {
      log.scalars(step, {{"loss", 1.0 / double(step)}});
      if (step % 4 == 0) log.text(step, "sample", "Once");
    }
  }
  const auto lines = rows(folder.path("metrics.jsonl"));
  ASSERT_EQ(lines.size(), 10u);
  // The same without a crash gives the same but for the times.
  TemporaryFolder other;
  RunLogger log(other.path());
  for (int64_t step = 1; step <= 8; ++step) {
    log.scalars(step, {{"loss", 1.0 / double(step)}});
    if (step % 4 == 0) log.text(step, "sample", "Once");
  }
  EXPECT_EQ(rows(other.path("metrics.jsonl")), lines);
  EXPECT_EQ(read_text(event_file(other)).size(), read_text(event_file(folder)).size());
}

TEST(RunLogger, ATornTailIsCutOff) {
  TemporaryFolder folder;
  {
    RunLogger log(folder.path());
    for (int64_t step = 1; step <= 4; ++step) log.scalars(step, {{"loss", 1}});
  }
  const std::string events = read_text(event_file(folder));
  const std::string lines = read_text(folder.path("metrics.jsonl"));
  // Whatever a crash leaves of the last row, the rows before it stay.
  for (size_t cut = 1; cut < 20; ++cut) {
    write_text(event_file(folder), events.substr(0, events.size() - cut));
    write_text(folder.path("metrics.jsonl"), lines.substr(0, lines.size() - cut));
    {
      RunLogger log(folder.path(), {.resume_after = 3});
      EXPECT_EQ(rows(folder.path("metrics.jsonl")).size(), 3u);
      log.scalars(4, {{"loss", 1}});
    }
    EXPECT_EQ(read_text(event_file(folder)).size(), events.size());
  }
  // A damaged record ends the file too.
  std::string damaged = events;
  damaged[events.size() / 2] = static_cast<char>(damaged[events.size() / 2] ^ 1);
  write_text(event_file(folder), damaged);
  TensorBoardLogger(folder.path()).rewind(100);
  EXPECT_LT(read_text(event_file(folder)).size(), events.size());
}

TEST(RunLogger, MistakesAreNamed) {
  TemporaryFolder folder;
  { RunLogger log(folder.path("run")); }
  EXPECT_TRUE(contains(error_of([&] { RunLogger again(folder.path("run")); }),
                       "already holds the logs of a run"));
  write_text(folder.path("file"), "x");
  EXPECT_TRUE(
      contains(error_of([&] { RunLogger log(folder.path("file/run")); }), "cannot be created"));
  EXPECT_TRUE(contains(error_of([&] { JsonlLogger log(folder.path()); }), "cannot be opened"));
}

TEST(TensorBoardLogger, HistogramsOfOddTensors) {
  TemporaryFolder folder;
  TensorBoardLogger log(folder.path());
  log.histogram(1, "normal", randn({1000}));
  log.histogram(1, "empty", zeros({0}));
  log.histogram(1, "equal", ones({7}, {.dtype = kBFloat16}));
  log.histogram(1, "not finite", tensor({1.0, INFINITY, NAN}));
  const size_t size = read_text(event_file(folder)).size();
  log.rewind(1);
  EXPECT_EQ(read_text(event_file(folder)).size(), size);
}

}  // namespace
}  // namespace tensora::train
