#include "tensora/llm/engine.h"

#include <cmath>
#include <numeric>
#include <random>

#include "toy_model.h"

namespace tensora::llm {
namespace {

using namespace testing;
using tensora::testing::contains;
using tensora::testing::error_of;
using Tokens = std::vector<int32_t>;

const SamplingOptions kGreedy{.temperature = 0};

Tokens prompt_of(uint32_t seed, size_t size) {
  std::mt19937 random(seed);
  Tokens tokens{kBos};
  while (tokens.size() < size)
    tokens.push_back(kFirstLetter + static_cast<int32_t>(random() % (kVocabulary - 2)));
  return tokens;
}

EngineOptions small(EngineOptions options = {}) {
  options.cache_dtype = kFloat32;
  if (options.block_size == 32) options.block_size = 4;
  if (options.max_batch_tokens == 512) options.max_batch_tokens = 16;
  return options;
}

EngineParts toy(int64_t context = 256) {
  return {std::make_shared<ToyModel>(context), std::make_shared<ToyTokenizer>(), {}};
}

TEST(Engine, ContinuesAPrompt) {
  Engine engine(toy(), small());
  const Tokens prompt = prompt_of(1, 10);
  const Completion answer =
      engine.generate({.tokens = prompt, .sampling = kGreedy, .max_tokens = 40});
  const Tokens expected = continued(prompt, 40);
  EXPECT_EQ(answer.tokens, expected);
  EXPECT_EQ(answer.text, ToyTokenizer().decode(expected, {}));
  EXPECT_EQ(answer.usage.prompt_tokens, 10);
  EXPECT_EQ(answer.usage.completion_tokens, static_cast<int64_t>(expected.size()));
  EXPECT_EQ(answer.reason, expected.back() == kEnd ? FinishReason::stop : FinishReason::length);
  EXPECT_GT(answer.timings.total, 0);
  EXPECT_GE(answer.timings.total, answer.timings.first_token);
}

// The same answers, whatever is computed together, cached, cut or guessed.
TEST(Engine, AnswersDoNotDependOnHowTheyAreComputed) {
  const struct {
    const char* what;
    EngineOptions options;
  } ways[] = {
      {"one by one", {.max_sequences = 1}},
      {"eight at once", {.max_sequences = 8}},
      {"whole prompts", {.max_batch_tokens = 256}},
      {"tokens one by one", {.max_sequences = 1, .max_batch_tokens = 1}},
      {"no shared prefixes", {.share_prefixes = false}},
      {"blocks of one token", {.block_size = 1}},
      {"blocks that no prompt fills", {.block_size = 128}},
      {"too few blocks for all", {.context = 128, .cache_tokens = 128}},
      {"batch-invariant", {.batch_invariant = true}},
      {"guesses by n-grams", {.speculation = {.draft_tokens = 4, .min_ngram = 1}}},
      {"five steps at once", {.steps_at_once = 5}},
      {"steps at once in few blocks", {.context = 128, .cache_tokens = 128, .steps_at_once = 7}},
      {"steps at once, one by one", {.batch_invariant = true, .steps_at_once = 3}},
      {"overlapped steps", {.overlap = true}},
      {"overlapped steps in few blocks", {.context = 128, .cache_tokens = 128, .overlap = true}},
      {"overlapped steps of three", {.max_sequences = 3, .overlap = true}},
      {"overlapped steps, blocks of one", {.block_size = 1, .overlap = true}},
  };
  for (const auto& [what, options] : ways) {
    Engine engine(toy(), small(options));
    std::vector<Generation> running;
    std::vector<Tokens> expected;
    for (uint32_t i = 0; i < 12; ++i) {
      const Tokens prompt = prompt_of(i % 5, 5 + 7 * (i % 4));  // some begin alike
      running.push_back(engine.submit({.tokens = prompt, .sampling = kGreedy, .max_tokens = 60}));
      expected.push_back(continued(prompt, 60));
    }
    for (size_t i = 0; i < running.size(); ++i)
      EXPECT_EQ(running[i].wait().tokens, expected[i]) << what << ", request " << i;
    const EngineStats stats = engine.stats();
    EXPECT_EQ(stats.requests, 12) << what;
    EXPECT_EQ(stats.running, 0) << what;
    EXPECT_EQ(stats.blocks.used, 0) << what;
  }
}

TEST(Engine, StepsAtOnceChooseTheSameTokens) {
  const auto answers = [](int64_t steps) {
    Engine engine(toy(), small({.steps_at_once = steps}));
    std::vector<Generation> running;
    for (uint32_t i = 0; i < 6; ++i)
      running.push_back(engine.submit({.tokens = prompt_of(i, 5),
                                       .sampling = {.temperature = 2, .top_k = 20, .seed = i},
                                       .max_tokens = 11 + 7 * i,
                                       .stop = {"q", "xy"},
                                       .ignore_end = i % 2 == 0}));
    std::vector<Tokens> out;
    for (Generation& generation : running) out.push_back(generation.wait().tokens);
    EXPECT_EQ(engine.stats().blocks.used, 0);
    return out;
  };
  const std::vector<Tokens> one = answers(1);
  EXPECT_EQ(answers(2), one);
  EXPECT_EQ(answers(8), one);
}

TEST(Engine, WhatFollowsTheEndOfAnAnswerIsComputedInVain) {
  const auto steps = [](int64_t at_once) {
    EngineParts parts = toy();
    auto model = std::make_shared<ToyModel>();
    model->fails_at = 1 << 30;  // never, but it counts
    parts.model = model;
    Engine engine(parts, small({.steps_at_once = at_once}));
    const Tokens prompt = prompt_of(2, 5), expected = continued(prompt, 40, false);
    const Completion answer = engine.generate({.tokens = prompt,
                                               .sampling = kGreedy,
                                               .max_tokens = 40,
                                               .stop_tokens = {expected[2]},
                                               .ignore_end = true});
    EXPECT_LE(answer.tokens.size(), 3u);
    return model->steps.load();
  };
  EXPECT_LE(steps(1), 3);
  EXPECT_EQ(steps(8), 1 + 8);  // the prompt, then eight at once
}

TEST(Engine, ComputesRequestsTogether) {
  EngineParts parts = toy();
  auto model = std::make_shared<ToyModel>();
  model->delay = std::chrono::milliseconds(1);
  parts.model = model;
  Engine engine(parts, small({.max_sequences = 4}));
  std::vector<Generation> running;
  for (uint32_t i = 0; i < 6; ++i)
    running.push_back(engine.submit(
        {.tokens = prompt_of(i, 4), .sampling = kGreedy, .max_tokens = 20, .ignore_end = true}));
  for (Generation& generation : running) generation.wait();
  EXPECT_EQ(model->largest_batch, 4);
  EXPECT_LE(model->largest_step, 16);
}

TEST(Engine, TellsWhatWasCachedAndWhatBrokeThePrefix) {
  Engine engine(toy(), small());
  Tokens prompt = prompt_of(3, 30);
  const auto ask = [&](const Tokens& tokens, const std::string& tenant = "") {
    return engine
        .generate({.tokens = tokens, .sampling = kGreedy, .max_tokens = 1, .tenant = tenant})
        .usage;
  };
  EXPECT_EQ(ask(prompt).cached_tokens, 0);
  EXPECT_EQ(ask(prompt).cached_tokens, 28);
  EXPECT_EQ(ask(prompt, "somebody else").cached_tokens, 0);
  // A second turn goes on where the first one ended.
  const Completion turn =
      engine.generate({.tokens = prompt, .sampling = kGreedy, .max_tokens = 9, .ignore_end = true});
  Tokens second = prompt;
  second.insert(second.end(), turn.tokens.begin(), turn.tokens.end());
  second.push_back(7);
  EXPECT_EQ(ask(second).cached_tokens, 36);
  Tokens changed = prompt;
  changed[17] = changed[17] == 9 ? 10 : 9;
  const Usage usage = ask(changed);
  EXPECT_EQ(usage.cached_tokens, 17);
  EXPECT_EQ(usage.prefix_broken_at, 17);
  const Request alone{
      .tokens = prompt, .sampling = kGreedy, .max_tokens = 1, .reuse_prefix = false};
  EXPECT_EQ(engine.generate(alone).usage.cached_tokens, 0);
}

TEST(Engine, StreamsThePartsOfTheAnswer) {
  Engine engine(toy(), small());
  std::string text;
  Tokens tokens;
  const Completion answer = engine.generate(
      {.prompt = "HELLO", .sampling = kGreedy, .max_tokens = 30}, [&](const Piece& piece) {
        text += piece.text;
        for (const Sampled& sampled : piece.tokens) tokens.push_back(sampled.token);
      });
  EXPECT_EQ(text, answer.text);
  EXPECT_EQ(tokens, answer.tokens);
  EXPECT_EQ(answer.tokens, continued(ToyTokenizer().encode("HELLO", {}), 30));
}

TEST(Engine, AnExceptionOfTheReaderCancels) {
  Engine engine(toy(), small());
  EXPECT_THROW(engine.generate({.prompt = "A", .sampling = kGreedy, .ignore_end = true},
                               [](const Piece&) { throw std::runtime_error("enough"); }),
               std::runtime_error);
  EXPECT_EQ(engine.generate({.prompt = "B", .sampling = kGreedy, .max_tokens = 3}).tokens,
            continued(ToyTokenizer().encode("B", {}), 3));
}

TEST(Engine, StopsAtStringsAndTokens) {
  Engine engine(toy(), small());
  const Tokens expected = continued(ToyTokenizer().encode("STOP", {}), 30, false);
  const std::string text = ToyTokenizer().decode(expected, {});
  ASSERT_GT(text.size(), 12u);
  const std::string stop = text.substr(6, 3);
  Completion answer = engine.generate({.prompt = "STOP",
                                       .sampling = kGreedy,
                                       .max_tokens = 30,
                                       .stop = {"?", stop},
                                       .ignore_end = true});
  EXPECT_EQ(answer.text, text.substr(0, text.find(stop)));
  EXPECT_EQ(answer.stop, stop);
  EXPECT_EQ(answer.reason, FinishReason::stop);
  answer = engine.generate(
      {.prompt = "STOP", .sampling = kGreedy, .stop_tokens = {expected[4]}, .ignore_end = true});
  EXPECT_EQ(answer.reason, FinishReason::stop);
  EXPECT_LE(answer.usage.completion_tokens, 5);
}

TEST(Engine, TheEndOfAGrammarEndsAnAnswerThatIgnoresEnds) {
  Engine engine(toy(), small());
  const auto answer = [&](const std::string& grammar, int64_t min_tokens) {
    return engine.generate({.prompt = "A",
                            .sampling = {.temperature = 0, .grammar = grammar},
                            .max_tokens = 12,
                            .min_tokens = min_tokens,
                            .ignore_end = true});
  };
  for (const int64_t least : {0, 4, 12}) {
    const Completion fixed = answer("root ::= [A-Z]{5}", least);
    EXPECT_EQ(fixed.text.size(), 5u);
    EXPECT_EQ(fixed.reason, FinishReason::stop);
    const Completion endless = answer("root ::= [A-Z]*", least);
    EXPECT_EQ(endless.text.size(), 12u);
    EXPECT_EQ(endless.reason, FinishReason::length);
  }
}

TEST(Engine, CancelsAtEveryStep) {
  int cancelled = 0;
  for (int steps = 0; steps < 12; ++steps) {
    Engine engine(toy(100000), small({.context = 4096}));
    Generation long_one =
        engine.submit({.tokens = prompt_of(1, 50), .sampling = kGreedy, .ignore_end = true});
    Generation other =
        engine.submit({.tokens = prompt_of(2, 9), .sampling = kGreedy, .max_tokens = 50});
    for (int i = 0; i < steps; ++i) long_one.next();
    long_one.cancel();
    const Completion ended = long_one.wait();
    const Tokens expected = continued(prompt_of(1, 50), 4096, false);
    // On a busy machine the model may fill its context before this thread runs again.
    if (ended.reason == FinishReason::cancelled)
      ++cancelled;
    else
      EXPECT_EQ(ended.tokens.size(), 4096u - 50);
    EXPECT_TRUE(std::equal(ended.tokens.begin(), ended.tokens.end(), expected.begin()));
    EXPECT_EQ(other.wait().tokens, continued(prompt_of(2, 9), 50));
    EXPECT_EQ(engine.stats().blocks.used, 0);
  }
  EXPECT_GT(cancelled, 0);
}

TEST(Engine, ADroppedHandleFreesItsBlocks) {
  Engine engine(toy(100000), small({.context = 4096}));
  { engine.submit({.tokens = prompt_of(1, 5), .sampling = kGreedy, .ignore_end = true}); }
  engine.generate({.prompt = "X", .sampling = kGreedy, .max_tokens = 2});
  for (int i = 0; i < 1000 && engine.stats().blocks.used > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(engine.stats().blocks.used, 0);
}

TEST(Engine, DeadlinesEndAnAnswerAsItIs) {
  Engine engine(toy(1000000), small({.context = 100000}));
  const Completion answer = engine.generate(
      {.prompt = "LATE", .sampling = kGreedy, .ignore_end = true, .deadline = 0.02});
  EXPECT_EQ(answer.reason, FinishReason::deadline);
  EXPECT_LT(answer.timings.total, 5);
}

TEST(Engine, ClosingEndsRequestsWithAnError) {
  std::optional<Generation> left;
  {
    Engine engine(toy(1000000), small({.context = 100000}));
    left.emplace(engine.submit({.prompt = "LEFT", .sampling = kGreedy, .ignore_end = true}));
  }
  EXPECT_TRUE(contains(error_of([&] { left->wait(); }), "closed before the answer ended"));
  left->cancel();
}

TEST(Engine, AFailedStepReachesItsRequestsOnly) {
  EngineParts parts = toy();
  auto model = std::make_shared<ToyModel>();
  model->fails_at = 3;
  parts.model = model;
  Engine engine(parts, small());
  EXPECT_TRUE(contains(
      error_of([&] { engine.generate({.prompt = "F", .sampling = kGreedy, .max_tokens = 20}); }),
      "toy: this step fails"));
  EXPECT_EQ(engine.generate({.prompt = "G", .sampling = kGreedy, .max_tokens = 5}).tokens,
            continued(ToyTokenizer().encode("G", {}), 5));
}

TEST(Engine, ManyThreadsMaySubmit) {
  Engine engine(toy(), small({.max_sequences = 3, .cache_tokens = 512}));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (uint32_t thread = 0; thread < 6; ++thread)
    threads.emplace_back([&, thread] {
      for (uint32_t i = 0; i < 20; ++i) {
        const Tokens prompt = prompt_of(thread * 100 + i % 7, 3 + i);
        Generation generation =
            engine.submit({.tokens = prompt, .sampling = kGreedy, .max_tokens = 25});
        if (i % 5 == 4) {
          generation.cancel();
          generation.wait();
        } else if (generation.wait().tokens != continued(prompt, 25)) {
          ++wrong;
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(engine.stats().requests, 120);
  EXPECT_EQ(engine.stats().blocks.used, 0);
}

TEST(Engine, OverflowIsNeverSilent) {
  Engine engine(toy(), small({.context = 32}));
  const Tokens prompt = prompt_of(5, 40);
  EXPECT_TRUE(contains(error_of([&] { engine.submit({.tokens = prompt, .sampling = kGreedy}); }),
                       "the prompt has 40 tokens, but the context of 32 has room for 31"));
  Completion answer =
      engine.generate({.tokens = prompt_of(5, 20), .sampling = kGreedy, .ignore_end = true});
  EXPECT_EQ(answer.reason, FinishReason::length);
  EXPECT_TRUE(answer.context_full);
  EXPECT_EQ(answer.usage.completion_tokens, 12);

  answer = engine.generate({.tokens = prompt,
                            .sampling = kGreedy,
                            .max_tokens = 4,
                            .ignore_end = true,
                            .overflow = Overflow::truncate,
                            .keep = 3});
  EXPECT_EQ(answer.usage.truncated_tokens, 12);
  EXPECT_EQ(answer.usage.prompt_tokens, 28);
  Tokens seen(prompt.begin(), prompt.begin() + 3);
  seen.insert(seen.end(), prompt.begin() + 15, prompt.end());
  EXPECT_EQ(answer.tokens, continued(seen, 4, false));
}

TEST(Engine, AShiftedAnswerGoesOn) {
  Engine engine(toy(), small({.context = 32}));
  const Tokens prompt = prompt_of(6, 10);
  const Completion answer = engine.generate({.tokens = prompt,
                                             .sampling = kGreedy,
                                             .max_tokens = 100,
                                             .ignore_end = true,
                                             .overflow = Overflow::shift,
                                             .keep = 4});
  EXPECT_EQ(answer.usage.completion_tokens, 100);
  EXPECT_GT(answer.usage.shifted_tokens, 0);
  Tokens text = prompt, expected;
  for (int i = 0; i < 100; ++i) {
    text.push_back(next_of(text));
    expected.push_back(text.back());
    if (text.size() == 32) text.erase(text.begin() + 4, text.begin() + 4 + (32 - 4) / 2);
  }
  EXPECT_EQ(answer.tokens, expected);
}

TEST(Engine, GuessesOfNgramsAreCountedAndChangeNothing) {
  // A text that the toy would never write, so guesses are refused; and one that it writes.
  Engine engine(toy(), small({.speculation = {.draft_tokens = 6, .min_ngram = 1}}));
  const Tokens answer = continued(prompt_of(8, 6), 40, false);
  Tokens prompt = prompt_of(8, 6);
  prompt.insert(prompt.end(), answer.begin(), answer.end());
  prompt.insert(prompt.end(), answer.begin(), answer.begin() + 4);
  const Completion result = engine.generate(
      {.tokens = prompt, .sampling = kGreedy, .max_tokens = 40, .ignore_end = true});
  EXPECT_EQ(result.tokens, continued(prompt, 40, false));
  EXPECT_GT(result.usage.drafted_tokens, 0);
  EXPECT_LE(result.usage.accepted_tokens, result.usage.drafted_tokens);
}

TEST(Engine, AnAnswerOfNoTokensOnlyReads) {
  Engine engine(toy(), small({.context = 32}));
  const Completion answer =
      engine.generate({.tokens = prompt_of(1, 32), .sampling = kGreedy, .max_tokens = 0});
  EXPECT_EQ(answer.usage.completion_tokens, 0);
  EXPECT_EQ(answer.reason, FinishReason::length);
  EXPECT_TRUE(answer.text.empty());
}

TEST(Engine, HostileRequestsAreErrors) {
  Engine engine(toy(), small({.max_sequences = 1, .max_waiting = 2}));
  const double nan = std::nan("");
  const struct {
    Request request;
    const char* sentence;
  } mistakes[] = {
      {{.tokens = {1}, .prompt = "A"}, "one of tokens, prompt and messages"},
      {{.tokens = {-1}}, "expected tokens from 0 to 47, got -1"},
      {{.tokens = {48}}, "got 48"},
      {{.messages = {{.role = "user", .content = "A"}}}, "no chat template"},
      {{.prompt = "A", .max_tokens = -2}, "max_tokens"},
      {{.prompt = "A", .keep = -1}, "keep"},
      {{.prompt = "A", .deadline = nan}, "deadline"},
      {{.prompt = "A", .deadline = -1}, "deadline"},
      {{.prompt = "A", .sampling = {.temperature = nan}}, "temperature"},
      {{.prompt = "A", .sampling = {.temperature = -1}}, "temperature"},
      {{.prompt = "A", .sampling = {.top_k = -5}}, "top_k"},
      {{.prompt = "A", .stop = {""}}, "stop string"},
      {{.prompt = "A", .stop = std::vector<std::string>(65, "x")}, "64 stop strings"},
      {{.prompt = "A", .overflow = Overflow::shift, .keep = 1 << 20}, "keep"},
      {{.prompt = "~"}, "toy: no token"},
  };
  for (const auto& [request, sentence] : mistakes) {
    const std::string error = error_of([&] { engine.submit(request); });
    EXPECT_TRUE(contains(error, sentence)) << sentence << " / " << error;
  }
  EXPECT_EQ(engine.generate({.prompt = "A", .sampling = kGreedy, .max_tokens = 1 << 30}).reason,
            continued(ToyTokenizer().encode("A", {}), 254).back() == kEnd ? FinishReason::stop
                                                                          : FinishReason::length);
}

TEST(Engine, TheCacheHasRoomForAllSequencesAtOnce) {
  const auto tokens_of = [](int64_t sequences, int64_t context) {
    EngineOptions options = small({.max_sequences = sequences, .max_batch_tokens = 64});
    return Engine(toy(context), options).options().cache_tokens;
  };
  EXPECT_EQ(tokens_of(1, 2048), 2048);
  EXPECT_EQ(tokens_of(4, 2048), 4 * 2048);
  EXPECT_EQ(tokens_of(64, 2048), 4 * 2048 + 60 * 512);
  EXPECT_EQ(tokens_of(64, 256), 64 * 256);
}

TEST(Engine, AFullQueueRefuses) {
  EngineParts parts = toy(100000);
  auto model = std::make_shared<ToyModel>(100000);
  model->delay = std::chrono::milliseconds(2);
  parts.model = model;
  Engine engine(parts, small({.context = 4096, .max_sequences = 1, .max_waiting = 2}));
  std::vector<Generation> running;
  std::string error;
  for (int i = 0; i < 10 && error.empty(); ++i)
    error = error_of([&] {
      running.push_back(engine.submit({.prompt = "Q", .sampling = kGreedy, .ignore_end = true}));
    });
  EXPECT_TRUE(contains(error, "requests are waiting already")) << error;
}

TEST(Engine, NothingWaitsInAnIdleEngine) {
  auto parts = toy();
  std::static_pointer_cast<ToyModel>(std::const_pointer_cast<Model>(parts.model))->delay =
      std::chrono::milliseconds(2);
  Engine engine(parts, small({.max_sequences = 4}));
  std::vector<Generation> generations;
  for (uint32_t i = 0; i < 50; ++i)
    generations.push_back(engine.submit({.tokens = prompt_of(i, 10), .ignore_end = true}));
  while (engine.stats().running < 4) std::this_thread::yield();
  for (Generation& generation : generations) generation.cancel();
  for (Generation& generation : generations) generation.wait();
  EXPECT_EQ(engine.stats().waiting, 0);
  EXPECT_EQ(engine.stats().running, 0);
  EXPECT_EQ(engine.stats().requests, 50);
}

TEST(Engine, HostileOptionsAreErrors) {
  const struct {
    EngineOptions options;
    const char* sentence;
  } mistakes[] = {
      {{.context = -1}, "context"},
      {{.max_sequences = 0}, "sequences"},
      {{.max_sequences = 8, .max_batch_tokens = 4}, "tokens per step"},
      {{.block_size = 0}, "block size"},
      {{.context = 128, .cache_tokens = 64}, "needs a cache of as many"},
      {{.steps_at_once = -1}, "steps_at_once"},
      {{.batch_invariant = true, .speculation = {.draft_tokens = 2}}, "batch-invariant"},
      {{.speculation = {.draft_tokens = -1}}, "draft tokens"},
      {{.speculation = {.draft_tokens = 2, .max_ngram = 1}}, "min_ngram"},
  };
  for (const auto& [options, sentence] : mistakes) {
    const std::string error = error_of([&] { Engine engine(toy(), options); });
    EXPECT_TRUE(contains(error, sentence)) << sentence << " / " << error;
  }
  EXPECT_TRUE(contains(error_of([] { Engine engine({}); }), "a model is needed"));
}

}  // namespace
}  // namespace tensora::llm
