// The engine with a real model: the golden story, and the same tokens however they are computed.
#include <algorithm>

#include "../helpers.h"
#include "../real_data.h"
#include "../train/temporary_folder.h"
#include "tensora/llm/backends/native_backend.h"
#include "tensora/llm/benchmark.h"
#include "tensora/llm/embed.h"
#include "tensora/llm/engine.h"
#include "tensora/llm/model_file.h"
#include "tensora/llm/perplexity.h"
#include "tensora/llm/sequence_runner.h"

namespace tensora::llm {
namespace {

using Tokens = std::vector<int32_t>;

class EngineModel : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = testing::real_data("stories260K.gguf");
    if (path.empty()) GTEST_SKIP() << "../shared/data/stories260K.gguf is not there";
    if (!parts().model) parts() = load_parts(ModelFile::open(path));
  }
  static EngineParts& parts() {
    static EngineParts parts;
    return parts;
  }
};

const SamplingOptions kGreedy{.temperature = 0};
const char* const kPrompts[] = {"",
                                "Once upon a time",
                                "Lily and Tom",
                                "The dog was big. He",
                                "One day, a boy named Tim",
                                "Once upon a time, there was a cat",
                                "A",
                                "Mom said, \"Do not go out.\" But"};

TEST_F(EngineModel, TellsTheGoldenStory) {
  Engine engine(parts());
  const Completion story = engine.generate({.sampling = kGreedy, .max_tokens = 200});
  const std::string golden = testing::read_text(testing::real_data("stories260K.greedy200.txt"));
  // Its last line may end without a line's end; the story is the same byte for byte.
  EXPECT_EQ(story.text.substr(0, golden.size()), golden);
  EXPECT_EQ(story.usage.prompt_tokens, 1);
  EXPECT_EQ(story.usage.completion_tokens, 200);
}

// Keys and values in float32, so that sums are the only thing that could differ.
std::vector<Tokens> answers(const EngineParts& parts, EngineOptions options, bool at_once) {
  options.cache_dtype = kFloat32;
  Engine engine(parts, options);
  std::vector<Generation> running;
  std::vector<Tokens> out;
  for (const char* prompt : kPrompts) {
    running.push_back(engine.submit({.prompt = prompt, .sampling = kGreedy, .max_tokens = 60}));
    if (!at_once) running.back().wait();
  }
  for (Generation& generation : running) out.push_back(generation.wait().tokens);
  return out;
}

TEST_F(EngineModel, AnswersDoNotDependOnHowTheyAreComputed) {
  const std::vector<Tokens> expected = answers(parts(), {.max_sequences = 1}, false);
  const struct {
    const char* what;
    EngineOptions options;
  } ways[] = {
      {"eight at once", {.max_sequences = 8}},
      {"prompts in parts", {.max_sequences = 2, .max_batch_tokens = 3}},
      {"nothing cached", {.share_prefixes = false}},
      {"small blocks", {.block_size = 8}},
      {"few blocks", {.context = 128, .max_sequences = 8, .cache_tokens = 192}},
      {"guesses", {.speculation = {.draft_tokens = 5}}},
  };
  for (const auto& [what, options] : ways)
    EXPECT_EQ(answers(parts(), options, true), expected) << what;
}

TEST_F(EngineModel, ADraftModelChangesNothing) {
  const Tokens expected = answers(parts(), {.max_sequences = 1}, false)[1];
  Engine engine(parts(), {.cache_dtype = kFloat32,
                          .speculation = {.draft_tokens = 4, .draft_model = parts().model}});
  const Completion answer =
      engine.generate({.prompt = kPrompts[1], .sampling = kGreedy, .max_tokens = 60});
  EXPECT_EQ(answer.tokens, expected);
  // The draft is the model itself: nearly every guess is right.
  EXPECT_GT(answer.usage.accepted_tokens, 40);
  EXPECT_LE(answer.usage.accepted_tokens, answer.usage.drafted_tokens);
}

TEST_F(EngineModel, BatchInvariantModeIsExact) {
  // In float16, and with logprobs to see the last bit.
  const auto ask = [&](Engine& engine, bool beside_others) {
    std::vector<Generation> others;
    if (beside_others)
      for (const char* prompt : kPrompts)
        others.push_back(engine.submit({.prompt = prompt, .sampling = kGreedy, .max_tokens = 30}));
    const Completion answer =
        engine.generate({.prompt = "Once upon a time, there was a little girl named Lily. She",
                         .sampling = {.temperature = 0, .logprobs = true},
                         .max_tokens = 50});
    std::vector<float> out;
    for (const Sampled& sampled : answer.logprobs) out.push_back(sampled.logprob);
    return out;
  };
  const EngineOptions options{.max_batch_tokens = 8, .block_size = 8, .batch_invariant = true};
  Engine engine(parts(), options);
  const auto alone = ask(engine, false);
  EXPECT_EQ(ask(engine, true), alone);  // with cached parts, too
  EXPECT_EQ(ask(engine, false), alone);
  Engine other(
      parts(),
      {.max_batch_tokens = 8, .block_size = 8, .share_prefixes = false, .batch_invariant = true});
  EXPECT_EQ(ask(other, true), alone);
}

TEST_F(EngineModel, ASecondTurnComputesOnlyWhatIsNew) {
  Engine engine(parts(), {.block_size = 8});
  const Completion first =
      engine.generate({.prompt = "Once upon a time", .sampling = kGreedy, .max_tokens = 40});
  Tokens text = engine.tokens_of({.prompt = "Once upon a time"});
  text.insert(text.end(), first.tokens.begin(), first.tokens.end());
  const Completion second =
      engine.generate({.tokens = text, .sampling = kGreedy, .max_tokens = 10});
  EXPECT_GE(second.usage.cached_tokens, static_cast<int64_t>(text.size()) / 8 * 8 - 8);
  EXPECT_GT(second.usage.cached_tokens, 0);
}

TEST_F(EngineModel, PerplexityKnowsItsOwnStories) {
  const std::string story = testing::read_text(testing::real_data("stories260K.greedy200.txt"));
  const Tokens tokens = parts().tokenizer->encode(story);
  SequenceRunner session(parts().model, {.context = 64}),
      small_steps(parts().model, {.context = 64, .max_batch_tokens = 7});
  const PerplexityResult own = perplexity(session, tokens, {.bos = 1});
  EXPECT_GT(own.perplexity, 1);
  EXPECT_LT(own.perplexity, 6);
  Tokens shuffled = tokens;
  std::reverse(shuffled.begin(), shuffled.end());
  EXPECT_GT(perplexity(session, shuffled, {}).perplexity, 20 * own.perplexity);
  // Parts of a batch, or all at once: the same.
  EXPECT_NEAR(perplexity(small_steps, tokens, {.bos = 1}).perplexity, own.perplexity, 1e-2);
  EXPECT_TRUE(testing::contains(
      testing::error_of([&] { SequenceRunner(parts().model, {.context = 1 << 20}); }),
      "the model reads at most 2048 tokens"));
}

TEST_F(EngineModel, LikeTextsHaveLikeEmbeddings) {
  SequenceRunner session(parts().model, {.context = 64});
  const auto vector = [&](const char* text) {
    return embed(session, parts().tokenizer->encode(text));
  };
  const auto likeness = [](const std::vector<float>& a, const std::vector<float>& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
    return sum;
  };
  const auto cat = vector("The cat was happy."), dog = vector("The dog was happy."),
             other = vector("\"No!\" said Tim.");
  EXPECT_NEAR(likeness(cat, cat), 1, 1e-5);
  EXPECT_GT(likeness(cat, dog), likeness(cat, other));
}

TEST_F(EngineModel, StepsAtOnceGiveTheTokensOfSingleSteps) {
  SequenceRunner single(parts().model, {.sequences = 2, .context = 64});
  SequenceRunner grouped(parts().model, {.sequences = 2, .context = 64, .generates = true});
  std::vector<int32_t> tokens{1, 300}, next = tokens;
  for (const int64_t count : {1, 5, 7}) {
    for (int64_t i = 0; i < count; ++i) {
      const SequenceRunner::Part both[] = {{0, std::span(tokens).first(1)},
                                           {1, std::span(tokens).subspan(1)}};
      const auto best =
          to_vector<int64_t>(argmax(single.forward(both, SequenceRunner::Rows::last), 1));
      tokens.assign(best.begin(), best.end());
    }
    next = grouped.generate(next, count);
    EXPECT_EQ(next, tokens) << count;
  }
  for (const int64_t sequence : {0, 1})
    EXPECT_TRUE(std::ranges::equal(single.tokens(sequence), grouped.tokens(sequence)));
  EXPECT_TRUE(testing::contains(testing::error_of([&] { grouped.generate(next, 60); }),
                                "do not fit the context of 64"));
  EXPECT_TRUE(testing::contains(testing::error_of([&] { single.generate(next, 1); }),
                                "the option `generates`"));
}

TEST_F(EngineModel, ACopiedSequenceGoesOnAsTheOriginal) {
  SequenceRunner session(parts().model, {.sequences = 3, .context = 64, .block_size = 8});
  const Tokens text = parts().tokenizer->encode("Once upon a time there was a girl");
  session.read(0, text);
  session.copy(0, 2, text);
  const int32_t token[] = {300};
  for (const int64_t sequence : {0, 2}) EXPECT_EQ(session.length(sequence), std::ssize(text));
  const auto next = [&](int64_t sequence) {
    const SequenceRunner::Part part{sequence, token};
    return to_vector<float>(session.forward({&part, 1}, SequenceRunner::Rows::last));
  };
  EXPECT_EQ(next(0), next(2));
  EXPECT_TRUE(testing::contains(testing::error_of([&] { session.copy(0, 2, text); }),
                                "an empty sequence 2"));
  EXPECT_TRUE(testing::contains(testing::error_of([&] { session.copy(0, 1, text); }),
                                "the tokens of sequence 0"));
}

TEST_F(EngineModel, BenchmarksCountWhatTheyRan) {
  const BenchTest test{.prompt = 20, .generate = 5, .depth = 7, .sequences = 3};
  NativeBackend backend{Device()};
  backend.load_model(testing::real_data("stories260K.gguf"), {});
  const BenchSamples samples = run_benchmark(backend, test, {.repetitions = 2, .batch = 8});
  EXPECT_EQ(samples.total.size(), 2u);
  EXPECT_EQ(samples.steps.size(), 10u);
  const BenchmarkResult result = result_of(test, samples);
  EXPECT_EQ(result.iterations, 2);
  EXPECT_GT(result.avg_tokens_per_second, 0);
  EXPECT_LE(result.min_token_time, result.avg_token_time);
  EXPECT_LE(result.avg_token_time, result.max_token_time);
  EXPECT_EQ(test.name(), "pp20+tg5 x3 @ d7");
  EXPECT_EQ(run_benchmark(backend, test, {.repetitions = 1, .steps_at_once = 2}).steps.size(), 5u);
  EXPECT_TRUE(testing::contains(testing::error_of([&] { run_benchmark(backend, {}, {}); }),
                                "expected a prompt"));
}

}  // namespace
}  // namespace tensora::llm
