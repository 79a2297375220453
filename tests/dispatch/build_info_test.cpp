#include "tests/helpers.h"

namespace tensora::testing {
namespace {

TEST(BuildInfo, SaysWhatIsInUse) {
  const BuildInfo info = build_info();
  EXPECT_TRUE(contains(info.version, "."));
  EXPECT_FALSE(info.compiler.empty());
  EXPECT_EQ(info.threads, get_num_threads());
  ASSERT_GE(info.devices.size(), 2u);
  EXPECT_EQ(info.devices[0].name, "cpu");
  EXPECT_EQ(info.devices[0].count, 1);
  for (const BuildInfo::DeviceKind& kind : info.devices)
    EXPECT_EQ(kind.count == 0, !kind.unavailable_reason.empty()) << kind.name;
  const std::string text = info.to_string();
  for (const std::string& part :
       {info.version, info.compiler, info.instruction_set, info.matrix_libraries})
    EXPECT_TRUE(contains(text, part)) << part << " in\n" << text;
}

TEST(BuildInfo, AMissingDeviceIsToldOnce) {
  const BuildInfo info{
      .version = "1",
      .compiler = "c",
      .instruction_set = "i",
      .matrix_libraries = "m",
      .missing_libraries = "",
      .threads = 2,
      .devices = {{.name = "cpu", .count = 1, .unavailable_reason = ""},
                  {.name = "cuda", .count = 0, .unavailable_reason = "cuda: no driver here"}}};
  EXPECT_TRUE(contains(info.to_string(), "\ncpu: 1 device\ncuda: no device; no driver here\n"))
      << info.to_string();
}

}  // namespace
}  // namespace tensora::testing
