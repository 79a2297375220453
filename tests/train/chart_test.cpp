#include "tensora/train/chart.h"

#include <cmath>

#include "../helpers.h"
#include "temporary_folder.h"
#include "tensora/train/run_logger.h"

namespace tensora::train {
namespace {

using testing::contains;
using testing::error_of;
using testing::TemporaryFolder;
using testing::write_text;

// Every element that is opened is closed, in order, and no value is missing.
void expect_well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (size_t at = xml.find('<'); at != xml.npos; at = xml.find('<', at + 1)) {
    const size_t end = xml.find('>', at);
    ASSERT_NE(end, xml.npos);
    const std::string tag = xml.substr(at + 1, end - at - 1);
    if (tag.starts_with("/")) {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back(), tag.substr(1));
      open.pop_back();
    } else if (!tag.ends_with("/")) {
      open.push_back(tag.substr(0, tag.find_first_of(" \n")));
    }
  }
  EXPECT_TRUE(open.empty());
  EXPECT_FALSE(contains(xml, "nan"));
  EXPECT_FALSE(contains(xml, "inf"));
}

RunHistory run(const std::string& name, int points) {
  RunHistory out{name, {{"loss/train", {}, {}}, {"loss/val", {}, {}}, {"lr", {}, {}}}};
  for (int i = 1; i <= points; ++i) {
    for (Curve& curve : out.curves) curve.steps.push_back(i);
    out.curves[0].values.push_back(i == 3 ? double(NAN) : 5.0 / i);
    out.curves[1].values.push_back(6.0 / i);
    out.curves[2].values.push_back(0);
  }
  return out;
}

TEST(Chart, PicturesAreWellFormed) {
  for (const bool log_y : {false, true}) {
    for (const int points : {0, 1, 2, 100, 5000}) {
      const std::vector<RunHistory> one = {run("a", points)};
      const std::vector<RunHistory> two = {run("<a> & b", points), run("b", 2 * points)};
      expect_well_formed(chart_svg(one, {.log_y = log_y}));
      expect_well_formed(chart_svg(two, {.title = "<&>", .log_y = log_y}));
    }
  }
  expect_well_formed(chart_svg({}));
}

TEST(Chart, ManyPointsMakeASmallPicture) {
  const std::vector<RunHistory> runs = {run("a", 1000000)};
  EXPECT_LT(chart_svg(runs).size(), 300000u);
  EXPECT_LT(chart_html(runs).size(), 400000u);
}

TEST(Chart, APageNeedsNothingElse) {
  std::vector<RunHistory> runs = {run("</script><script>alert(1)</script>", 10), run("b", 10)};
  const std::string page = chart_html(runs);
  EXPECT_FALSE(contains(page, "alert(1)</script>"));
  EXPECT_FALSE(contains(page, "src="));
  EXPECT_FALSE(contains(page, "href="));
}

TEST(Chart, StepsAreWholeNumbers) {
  const std::vector<RunHistory> runs = {run("a", 3)};
  const std::string picture = chart_svg(runs);
  EXPECT_FALSE(contains(picture, "text-anchor='middle'>1.5</text>"));
  EXPECT_TRUE(contains(picture, ">2</text>"));
}

TEST(Chart, TicksAreRound) {
  using V = std::vector<double>;
  EXPECT_EQ(nice_ticks(0, 10, 5), (V{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(nice_ticks(0.9, 4.2, 4), (V{1, 2, 3, 4}));
  EXPECT_EQ(nice_ticks(-1, 1, 4), (V{-1, -0.5, 0, 0.5, 1}));
  EXPECT_FALSE(std::signbit(nice_ticks(0, 10, 5)[0]));
  EXPECT_LE(nice_ticks(1.7e18, 1.7e18 + 256, 5).size(), 1u);  // once without end
}

TEST(RunHistory, ReadsWhatTheLoggerWrote) {
  TemporaryFolder folder;
  {
    RunLogger log(folder.path("my run"));
    log.scalars(1, {{"loss", 0.1}, {"lr", 2}});
    log.text(1, "sample", "text");
    log.scalars(2, {{"loss", NAN}});
  }
  const RunHistory history = read_run(folder.path("my run/"));
  EXPECT_EQ(history.name, "my run");
  ASSERT_EQ(history.curves.size(), 2u);
  EXPECT_EQ(history.curves[0].name, "loss");
  EXPECT_EQ(history.curves[0].values[0], 0.1);
  EXPECT_TRUE(std::isnan(history.curves[0].values[1]));
  EXPECT_EQ(history.curves[1].steps, std::vector<double>{1});
  EXPECT_EQ(read_run(folder.path("my run/metrics.jsonl")).curves.size(), 2u);
}

TEST(RunHistory, BadFilesAreNamed) {
  TemporaryFolder folder;
  EXPECT_TRUE(contains(error_of([&] { read_run(folder.path("none")); }), "cannot be opened"));
  write_text(folder.path("torn"), "{\"step\":1,\"loss\":2}\n{\"step\":2,\"lo");
  EXPECT_EQ(read_run(folder.path("torn")).curves[0].values.size(), 1u);
  write_text(folder.path("bad"), "{\"step\":1}\nhello\n{\"step\":2}\n");
  EXPECT_TRUE(contains(error_of([&] { read_run(folder.path("bad")); }), "bad:2: expected a JSON"));
  write_text(folder.path("list"), "[1,2]\n");
  EXPECT_TRUE(contains(error_of([&] { read_run(folder.path("list")); }), "list:1: expected"));
}

}  // namespace
}  // namespace tensora::train
