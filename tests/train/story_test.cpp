#include "tensora/train/story.h"

#include <set>

#include "../helpers.h"

namespace tensora::train {
namespace {

TEST(Story, TheSameOnEveryMachine) {
  EXPECT_EQ(story(1, 0).substr(0, 47), "Long ago, there was a little bear called Anna. ");
  EXPECT_EQ(story(1, 7), story(1, 7));
  EXPECT_NE(story(1, 7), story(2, 7));
  // FNV-1a of the first 100 KiB.
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char byte : story_corpus(1, 100 << 10).substr(0, 100 << 10))
    hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001B3u;
  EXPECT_EQ(hash, 8263426667984470186u);
}

TEST(Story, StoriesDiffer) {
  std::set<std::string> seen;
  for (int i = 0; i < 2000; ++i) seen.insert(story(3, i));
  EXPECT_EQ(seen.size(), 2000u);
}

TEST(Story, EveryStoryHoldsTogether) {
  for (int i = 0; i < 2000; ++i) {
    const std::string text = story(11, i);
    EXPECT_DOUBLE_EQ(judge_story(text).mean(), 1) << text;
  }
}

TEST(Story, TheJudgeSeesMistakes) {
  const std::string good = story(1, 0);
  const auto changed = [&](std::string from, std::string to, bool last = false) {
    std::string text = good;
    const size_t at = last ? text.rfind(from) : text.find(from);
    EXPECT_NE(at, text.npos);
    return judge_story(text.replace(at, from.size(), to));
  };
  EXPECT_LT(changed(" yellow lamp", " green lamp").things, 1);
  EXPECT_LT(changed(" yellow lamp", " yelow lampe").known_words, 1);
  EXPECT_LT(changed(" The end.", "").ending, 1);
  EXPECT_LT(changed("asked Jack", "asked Rosa").people, 1);
  EXPECT_LT(changed("\"Yes,", "Yes,").quotes, 1);
  EXPECT_LT(changed("She had", "she had").sentences, 1);
  EXPECT_EQ(judge_story("").mean(), 0);
  EXPECT_LT(judge_story("the the the").mean(), 0.7);
  EXPECT_LT(judge_story("\xFF\xFE \x01").mean(), 0.1);
}

TEST(Story, ACorpusHasItsSize) {
  const std::string text = story_corpus(1, 10000);
  EXPECT_GE(text.size(), 10000u);
  EXPECT_LT(text.size(), 13000u);
  EXPECT_TRUE(text.ends_with("The end.\n<|endoftext|>\n"));
  EXPECT_EQ(story_corpus(1, 0), "");
  EXPECT_ANY_THROW(story_corpus(1, -1));
}

}  // namespace
}  // namespace tensora::train
