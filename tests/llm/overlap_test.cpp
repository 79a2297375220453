// See Note [Overlapped steps]. On the CPU the device and the host take turns, so these tests judge
// what is planned and fed, not the order on a GPU.
#include <random>

#include "tensora/llm/engine.h"
#include "toy_model.h"

namespace tensora::llm {
namespace {

using namespace testing;
using tensora::testing::contains;
using tensora::testing::error_of;

Engine engine_of(bool overlaps, EngineOptions options = {}, int64_t fails_at = -1) {
  auto model = std::make_shared<ToyModel>(256);
  model->fails_at = fails_at;
  options.cache_dtype = kFloat32;
  options.block_size = 4;
  if (options.max_batch_tokens == 512) options.max_batch_tokens = 16;
  options.overlap = overlaps;
  return Engine({model, std::make_shared<ToyTokenizer>(), {}}, options);
}

// Requests of many kinds: some draw, some are judged by the host, some end early.
Request request_of(uint32_t number) {
  Request request{.tokens = {kBos}, .max_tokens = 5 + 13 * (number % 4), .ignore_end = true};
  std::mt19937 random(number);
  for (uint32_t i = 0; i < 1 + number % 9; ++i)
    request.tokens.push_back(kFirstLetter + static_cast<int32_t>(random() % (kVocabulary - 2)));
  request.sampling.temperature = number % 3 == 0 ? 0 : 1.5;
  request.sampling.top_k = 20;
  request.sampling.seed = number;
  if (number % 4 == 1) request.stop = {"Q", "XY"};
  request.ignore_end = number % 5 != 2;
  if (number % 7 == 3) request.max_tokens = 0;
  if (number % 7 == 5) request.max_tokens = 1;
  return request;
}

std::vector<std::vector<int32_t>> answers_of(Engine& engine, uint32_t count, bool with_host) {
  std::vector<Generation> running;
  for (uint32_t i = 0; i < count; ++i) {
    Request request = request_of(i);
    if (with_host && i % 6 == 4) request.sampling.logprobs = true;
    if (with_host && i % 6 == 5) request.sampling.repeat_penalty = 1.2f;
    running.push_back(engine.submit(std::move(request)));
  }
  std::vector<std::vector<int32_t>> out;
  for (Generation& one : running) out.push_back(one.wait().tokens);
  EXPECT_EQ(engine.stats().blocks.used, 0);
  EXPECT_EQ(engine.stats().running, 0);
  return out;
}

TEST(Overlap, ChoosesTheSameTokens) {
  for (const bool with_host : {false, true})
    for (const int64_t sequences : {1, 3, 8, 16}) {
      Engine one = engine_of(false, {.max_sequences = sequences});
      Engine other = engine_of(true, {.max_sequences = sequences});
      EXPECT_EQ(answers_of(other, 40, with_host), answers_of(one, 40, with_host))
          << sequences << " at once";
    }
}

TEST(Overlap, GoesOnWhenTheContextIsFull) {
  const auto text = [](bool overlaps) {
    Engine engine = engine_of(overlaps, {.context = 24, .cache_tokens = 96});
    std::vector<Generation> running;
    for (uint32_t i = 0; i < 5; ++i) {
      Request request = request_of(i);
      request.max_tokens = 90;
      request.overflow = i % 2 == 0 ? Overflow::shift : Overflow::truncate;
      request.keep = 2;
      running.push_back(engine.submit(std::move(request)));
    }
    std::string out;
    for (Generation& one : running) out += one.wait().text + "/";
    return out;
  };
  EXPECT_EQ(text(true), text(false));
}

// Requests come, pause, go on and are cancelled at any time; what is left is right.
TEST(Overlap, BearsPausesAndCancels) {
  Engine alone = engine_of(false);
  Engine engine = engine_of(true, {.context = 64, .max_sequences = 6, .cache_tokens = 160});
  std::mt19937 random(5);
  for (uint32_t round = 0; round < 60; ++round) {
    std::vector<Generation> running;
    for (uint32_t i = 0; i < 9; ++i) running.push_back(engine.submit(request_of(i)));
    for (int act = 0; act < 12; ++act) {
      Generation& one = running[random() % running.size()];
      switch (random() % 3) {
        case 0:
          one.pause();
          break;
        case 1:
          one.resume();
          break;
        default:
          if (act % 4 == 3) one.cancel();
      }
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
    }
    for (uint32_t i = 0; i < running.size(); ++i) {
      running[i].resume();
      const Completion got = running[i].wait();
      const auto expected = alone.generate(request_of(i)).tokens;
      if (got.reason != FinishReason::cancelled)
        EXPECT_EQ(got.tokens, expected) << "request " << i;
      else
        EXPECT_TRUE(std::equal(got.tokens.begin(), got.tokens.end(), expected.begin()));
    }
    ASSERT_EQ(engine.stats().blocks.used, 0);
  }
}

TEST(Overlap, AStepThatFailsEndsItsRequestsOnly) {
  Engine engine = engine_of(true, {}, /*fails_at=*/4);
  Generation first = engine.submit(request_of(9));
  EXPECT_TRUE(contains(error_of([&] { first.wait(); }), "this step fails"));
  Engine alone = engine_of(false);
  EXPECT_EQ(engine.generate(request_of(6)).tokens, alone.generate(request_of(6)).tokens);
  EXPECT_EQ(engine.stats().blocks.used, 0);
}

TEST(Overlap, SharesPrefixesAsWithout) {
  Engine engine = engine_of(true);
  Request request = request_of(8);
  request.max_tokens = 30;
  const Completion first = engine.generate(request);
  request.tokens.insert(request.tokens.end(), first.tokens.begin(), first.tokens.end());
  const Completion second = engine.generate(request);
  // All but the last token, whose keys nobody needed.
  EXPECT_EQ(second.usage.cached_tokens,
            second.usage.prompt_tokens - 1 - (second.usage.prompt_tokens - 1) % 4);
}

TEST(Overlap, RefusesWhatNeedsTheTokensFirst) {
  EXPECT_TRUE(contains(error_of([] { engine_of(true, {.batch_invariant = true}); }), "overlap"));
  EXPECT_TRUE(contains(error_of([] { engine_of(true, {.steps_at_once = 4}); }), "overlap"));
  EXPECT_TRUE(
      contains(error_of([] { engine_of(true, {.speculation = {.draft_tokens = 2}}); }), "overlap"));
}

}  // namespace
}  // namespace tensora::llm
