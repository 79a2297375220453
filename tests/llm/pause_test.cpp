#include <chrono>
#include <ctime>

#include "tensora/llm/engine.h"
#include "toy_model.h"

namespace tensora::llm {
namespace {

using namespace testing;

EngineParts toy(std::chrono::microseconds delay = {}) {
  auto model = std::make_shared<ToyModel>(256);
  model->delay = delay;
  return {model, std::make_shared<ToyTokenizer>(), {}};
}

Request request_of(int32_t first, int64_t tokens = 60) {
  return {.tokens = {kBos, kFirstLetter + first},
          .sampling = {.temperature = 0},
          .max_tokens = tokens,
          .ignore_end = true};
}

// Waits until nothing has come for a while.
size_t settle(Generation& generation, size_t tokens = 0) {
  Piece piece;
  while (generation.is_ready(0.05)) {
    const bool goes_on = generation.take(piece);
    tokens += piece.tokens.size();
    if (!goes_on) break;
  }
  return tokens;
}

TEST(PauseTest, StopsAndGoesOnWithTheSameAnswer) {
  Engine engine(toy(std::chrono::microseconds(500)), {.cache_dtype = kFloat32});
  const Completion expected = engine.generate(request_of(3));
  Generation generation = engine.submit(request_of(3));
  size_t tokens = generation.next()->tokens.size();
  generation.pause();
  tokens = settle(generation, tokens);
  EXPECT_LT(tokens, 60u);
  EXPECT_FALSE(generation.is_done());
  EXPECT_EQ(engine.stats().running + engine.stats().waiting, 0);
  generation.resume();
  EXPECT_EQ(generation.wait().text, expected.text);
}

// An engine whose requests all pause sleeps: it computes no steps and takes no processor time.
TEST(PauseTest, SleepsWhileAllPause) {
  Engine engine(toy(), {.cache_dtype = kFloat32});
  std::vector<Generation> generations;
  for (int32_t i = 0; i < 4; ++i) {
    generations.push_back(engine.submit(request_of(i, 200)));
    generations.back().pause();
  }
  for (Generation& generation : generations) settle(generation);
  const int64_t steps = engine.stats().steps;
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(engine.stats().steps, steps);
  EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 0.1);
  // Others are served meanwhile, and cancelling is heard.
  EXPECT_EQ(engine.generate(request_of(7, 10)).tokens.size(), 10u);
  generations[0].cancel();
  EXPECT_EQ(generations[0].wait().reason, FinishReason::cancelled);
  for (size_t i = 1; i < 4; ++i) generations[i].resume();
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(generations[i].wait().tokens.size(), 200u);
}

TEST(PauseTest, ADeadlineEndsWhatPauses) {
  Engine engine(toy(), {.cache_dtype = kFloat32});
  Request request = request_of(2, 200);
  request.deadline = 0.2;
  Generation generation = engine.submit(request);
  generation.pause();
  EXPECT_EQ(generation.wait().reason, FinishReason::deadline);
}

// Those that pause take neither places nor memory from others, and are read again when they go on.
TEST(PauseTest, GivesPlaceAndBlocksToOthers) {
  for (const bool invariant : {false, true}) {
    Engine engine(toy(std::chrono::microseconds(100)), {.context = 128,
                                                        .max_sequences = 2,
                                                        .block_size = 4,
                                                        .cache_tokens = 256,
                                                        .cache_dtype = kFloat32,
                                                        .batch_invariant = invariant});
    const Completion first = engine.generate(request_of(1, 100));
    const Completion second = engine.generate(request_of(2, 100));
    const Completion third = engine.generate(request_of(3, 100));
    std::vector<Generation> slow;
    for (int32_t i = 1; i <= 2; ++i) {
      slow.push_back(engine.submit(request_of(i, 100)));
      if (invariant && i == 2) break;  // it needs all its memory at once
      slow.back().next();
      slow.back().pause();
    }
    if (invariant) slow.back().wait();
    EXPECT_EQ(engine.generate(request_of(3, 100)).text, third.text);
    EXPECT_EQ(engine.generate(request_of(3, 100)).text, third.text);
    for (Generation& generation : slow) generation.resume();
    EXPECT_EQ(slow[0].wait().text, first.text);
    EXPECT_EQ(slow[1].wait().text, second.text);
    EXPECT_EQ(engine.stats().blocks.used, 0);
  }
}

}  // namespace
}  // namespace tensora::llm
