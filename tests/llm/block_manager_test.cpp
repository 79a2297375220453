#include "tensora/llm/block_manager.h"

#include <chrono>
#include <numeric>
#include <random>

#include "../helpers.h"

namespace tensora::llm {
namespace {

using Blocks = BlockManager::Blocks;
using Tokens = std::vector<int32_t>;

Tokens counted(int32_t from, int32_t count) {
  Tokens tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), from);
  return tokens;
}

// Computes all tokens of a text, as a sequence would, and ends it.
PrefixMatch read(BlockManager& manager, const Tokens& tokens, const std::string& salt = "") {
  Blocks blocks;
  std::vector<BlockCopy> copies;
  const auto size = static_cast<int64_t>(tokens.size());
  const PrefixMatch match = manager.begin(blocks, salt, tokens, size - 1);
  EXPECT_TRUE(manager.prepare(blocks, match.cached_tokens, size, copies));
  manager.publish(blocks, tokens);
  manager.release(blocks);
  return match;
}

TEST(BlockManager, SharesWholeBlocksAndPartsOfThem) {
  BlockManager manager({.blocks = 8, .block_size = 4});
  const Tokens text = counted(0, 11);
  EXPECT_EQ(read(manager, text).cached_tokens, 0);
  EXPECT_EQ(manager.use().cached, 2);
  // The third block was never full.
  EXPECT_EQ(read(manager, text).cached_tokens, 8);
  Tokens other = text;
  other[6] = 99;
  const PrefixMatch match = read(manager, other);
  EXPECT_EQ(match.cached_tokens, 6);  // two of the second block by copy
  EXPECT_EQ(match.broken_at, 6);
  EXPECT_EQ(manager.use().used, 0);
}

TEST(BlockManager, TheLastTokenIsAlwaysComputed) {
  BlockManager manager({.blocks = 8, .block_size = 4});
  read(manager, counted(0, 8));
  const PrefixMatch match = read(manager, counted(0, 8));
  EXPECT_EQ(match.cached_tokens, 7);
  EXPECT_FALSE(match.broken_at);
}

TEST(BlockManager, SaltsNeverMeet) {
  BlockManager manager({.blocks = 16, .block_size = 4});
  read(manager, counted(0, 12), "tenant a");
  EXPECT_EQ(read(manager, counted(0, 12), "tenant b").cached_tokens, 0);
  EXPECT_FALSE(read(manager, counted(0, 12), "tenant c").broken_at);
  EXPECT_EQ(read(manager, counted(0, 12), "tenant a").cached_tokens, 11);
}

TEST(BlockManager, WritingToASharedBlockCopiesIt) {
  BlockManager manager({.blocks = 8, .block_size = 4});
  Blocks first, second;
  std::vector<BlockCopy> copies;
  manager.begin(first, "", counted(0, 6), 5);
  ASSERT_TRUE(manager.prepare(first, 0, 6, copies));
  EXPECT_TRUE(copies.empty());
  manager.fork(first, second);
  EXPECT_EQ(manager.use().used, 2);
  ASSERT_TRUE(manager.prepare(second, 6, 7, copies));
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].from, first.list[1]);
  EXPECT_EQ(copies[0].to, second.list[1]);
  EXPECT_EQ(first.list[0], second.list[0]);
  copies.clear();
  // Its other user is alone with the block now.
  ASSERT_TRUE(manager.prepare(first, 6, 7, copies));
  EXPECT_TRUE(copies.empty());
  manager.release(first);
  manager.release(second);
  EXPECT_EQ(manager.use().free, 8);
}

TEST(BlockManager, GivesUpTheLeastRecentlyUsedAndEndsBeforeBeginnings) {
  BlockManager manager({.blocks = 6, .block_size = 4});
  read(manager, counted(0, 12));    // 3 blocks kept
  read(manager, counted(100, 12));  // 3 more
  read(manager, counted(0, 12));    // uses the first text again
  EXPECT_EQ(read(manager, counted(200, 4)).cached_tokens, 0);
  // The end of the second text made room.
  EXPECT_EQ(read(manager, counted(100, 9)).cached_tokens, 8);
  EXPECT_EQ(read(manager, counted(0, 9)).cached_tokens, 8);
}

TEST(BlockManager, TooFewBlocksChangeNothing) {
  BlockManager manager({.blocks = 4, .block_size = 4});
  Blocks blocks, more;
  std::vector<BlockCopy> copies;
  manager.begin(blocks, "", counted(0, 12), 11);
  ASSERT_TRUE(manager.prepare(blocks, 0, 12, copies));
  manager.begin(more, "", counted(50, 8), 7);
  EXPECT_FALSE(manager.prepare(more, 0, 8, copies));
  EXPECT_TRUE(more.list.empty());
  EXPECT_EQ(manager.use().free, 1);
  EXPECT_TRUE(manager.prepare(more, 0, 4, copies));
  manager.release(more);
  manager.release(blocks);
}

// Of a few tokens a copy costs more than computing them again.
TEST(BlockManager, LeavesPartsThatAreShorterThanWanted) {
  BlockManager manager({.blocks = 16, .block_size = 4, .least_part = 3});
  read(manager, counted(0, 8));
  Tokens other = counted(0, 8);
  other[6] = 99;
  const PrefixMatch match = read(manager, other);
  EXPECT_EQ(match.cached_tokens, 4);
  EXPECT_EQ(match.broken_at, 6);
  other[6] = 6;
  other[7] = 99;
  EXPECT_EQ(read(manager, other).cached_tokens, 7);
}

TEST(BlockManager, FindsTheLongestAgreementAmongManyTexts) {
  BlockManager manager({.blocks = 4000, .block_size = 4});
  std::mt19937 random(11);
  std::vector<Tokens> texts;
  const auto agreement = [](const Tokens& a, const Tokens& b) {
    int64_t count = 0;
    while (count < 4 && count < std::ssize(b) - 1 &&
           a[static_cast<size_t>(count)] == b[static_cast<size_t>(count)])
      ++count;
    return count;
  };
  for (int round = 0; round < 2000; ++round) {
    Tokens text;
    for (auto left = 1 + random() % 6; left > 0; --left)
      text.push_back(static_cast<int32_t>(random() % 12));
    int64_t longest = 0;
    for (const Tokens& other : texts) longest = std::max(longest, agreement(other, text));
    ASSERT_EQ(read(manager, text).cached_tokens, longest) << round;
    if (text.size() >= 4) texts.push_back(text);
  }
}

// Each prompt is compared with its neighbours, not with all texts.
TEST(BlockManager, ManyCachedTextsDoNotSlowPromptsDown) {
  constexpr int32_t kMany = 40000, kFew = 40, kPrompts = 2000;
  const auto seconds = [&](int32_t count) {
    BlockManager manager({.blocks = 2 * kMany, .block_size = 4});
    for (int32_t i = 0; i < count; ++i) read(manager, {i, 0, 0, 0, 0});
    const auto began = std::chrono::steady_clock::now();
    for (int32_t i = 0; i < kPrompts; ++i) read(manager, {i % count, 1, 1});
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  EXPECT_LT(seconds(kMany), 50 * seconds(kFew) + 0.01);
}

TEST(BlockManager, ClearedCacheIsFree) {
  BlockManager manager({.blocks = 8, .block_size = 4});
  read(manager, counted(0, 20));
  EXPECT_EQ(manager.use().cached, 5);
  manager.clear_cache();
  EXPECT_EQ(manager.use().free, 8);
  EXPECT_EQ(read(manager, counted(0, 20)).cached_tokens, 0);
}

TEST(BlockManager, RefusesNonsense) {
  EXPECT_TRUE(testing::contains(testing::error_of([] { BlockManager({.blocks = 0}); }),
                                "expected from 1 to 2^31 blocks, got 0"));
  EXPECT_TRUE(testing::contains(
      testing::error_of([] { BlockManager({.blocks = 1, .block_size = -1}); }), "block size"));
}

// Many sequences at random. A model of the cache's memory says what each place holds, so that a
// block given to two writers, or a stale copy, shows.
TEST(BlockManager, HoldsWhatWasWrittenThroughRandomUse) {
  constexpr int64_t kSize = 4, kBlocks = 24;
  BlockManager manager({.blocks = kBlocks, .block_size = kSize});
  std::vector<Tokens> memory(kBlocks, Tokens(kSize, -1));
  struct Text {
    Tokens tokens;
    Blocks blocks;
    int64_t computed = 0;
  };
  std::vector<Text> texts;
  std::mt19937 random(7);
  const auto check_text = [&](const Text& text) {
    for (int64_t i = 0; i < text.computed; ++i)
      ASSERT_EQ(memory[static_cast<size_t>(text.blocks.list[static_cast<size_t>(i / kSize)])]
                      [static_cast<size_t>(i % kSize)],
                text.tokens[static_cast<size_t>(i)]);
  };
  const auto compute = [&](Text& text) {
    std::vector<BlockCopy> copies;
    const auto size = static_cast<int64_t>(text.tokens.size());
    if (!manager.prepare(text.blocks, text.computed, size, copies)) return false;
    for (const BlockCopy& copy : copies)
      memory[static_cast<size_t>(copy.to)] = memory[static_cast<size_t>(copy.from)];
    for (int64_t i = text.computed; i < size; ++i)
      memory[static_cast<size_t>(text.blocks.list[static_cast<size_t>(i / kSize)])]
            [static_cast<size_t>(i % kSize)] = text.tokens[static_cast<size_t>(i)];
    text.computed = size;
    manager.publish(text.blocks, text.tokens);
    return true;
  };
  for (int round = 0; round < 20000; ++round) {
    if (texts.size() < 6 && random() % 2 == 0) {
      Text text;
      for (auto left = 1 + random() % 20; left > 0; --left)
        text.tokens.push_back(static_cast<int32_t>(random() % 2));
      text.computed = manager
                          .begin(text.blocks, random() % 8 == 0 ? "other" : "", text.tokens,
                                 static_cast<int64_t>(text.tokens.size()) - 1)
                          .cached_tokens;
      check_text(text);
      if (compute(text))
        texts.push_back(std::move(text));
      else
        manager.release(text.blocks);
    } else if (!texts.empty()) {
      Text& text = texts[random() % texts.size()];
      check_text(text);
      text.tokens.push_back(static_cast<int32_t>(random() % 2));
      if (random() % 3 == 0 || !compute(text)) {
        manager.release(text.blocks);
        std::swap(text, texts.back());
        texts.pop_back();
      }
    }
    const BlockUse use = manager.use();
    ASSERT_EQ(use.free + use.cached + use.used, kBlocks);
  }
}

}  // namespace
}  // namespace tensora::llm
