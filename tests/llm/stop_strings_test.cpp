#include "tensora/llm/sampling/stop_strings.h"

#include <random>

#include "../helpers.h"

namespace tensora::llm {
namespace {

using Texts = std::vector<std::string>;

TEST(StopStrings, HoldsBackWhatMightBeAStop) {
  StopStrings stops({"</end>", "STOP"});
  EXPECT_EQ(stops.push("hello <"), "hello ");
  EXPECT_EQ(stops.push("/e"), "");
  EXPECT_EQ(stops.push("m> ST"), "</em> ");
  EXPECT_EQ(stops.push("OP more"), "");
  EXPECT_TRUE(stops.stopped());
  EXPECT_EQ(stops.met(), 1u);
  EXPECT_EQ(stops.push("more"), "");
  EXPECT_EQ(stops.finish(), "");
}

TEST(StopStrings, TheEndReleasesWhatWasHeld) {
  StopStrings stops({"aab"});
  EXPECT_EQ(stops.push("xaaa"), "xa");
  EXPECT_EQ(stops.finish(), "aa");
  EXPECT_FALSE(stops.stopped());
  StopStrings none({});
  EXPECT_EQ(none.push("all"), "all");
  EXPECT_TRUE(testing::contains(testing::error_of([] { StopStrings({""}); }), "empty"));
}

TEST(StopStrings, PiecesDoNotMatter) {
  std::mt19937 random(1);
  const auto word = [&](size_t length) {
    std::string out;
    for (size_t i = 0; i < length; ++i) out += static_cast<char>('a' + random() % 2);
    return out;
  };
  for (int round = 0; round < 2000; ++round) {
    Texts list;
    for (size_t i = 0; i < 1 + random() % 3; ++i) list.push_back(word(1 + random() % 5));
    const std::string text = word(random() % 30);
    StopStrings whole(list), pieces(list);
    std::string expected = whole.push(text), got;
    expected += whole.finish();
    for (size_t at = 0; at < text.size();) {
      const size_t length = 1 + random() % 4;
      got += pieces.push(std::string_view(text).substr(at, length));
      at += length;
    }
    got += pieces.finish();
    ASSERT_EQ(got, expected);
    ASSERT_EQ(pieces.met(), whole.met());
    if (whole.stopped()) {
      ASSERT_TRUE(text.starts_with(expected + list[*whole.met()]));
    } else {
      ASSERT_EQ(expected, text);
    }
  }
}

}  // namespace
}  // namespace tensora::llm
