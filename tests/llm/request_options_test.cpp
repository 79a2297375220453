// Requests with min_tokens and prompt_logprobs.

#include <algorithm>
#include <cmath>
#include <random>

#include "tensora/llm/engine.h"
#include "toy_model.h"

namespace tensora::llm {
namespace {

using namespace testing;
using tensora::testing::contains;
using tensora::testing::error_of;
using Tokens = std::vector<int32_t>;

constexpr SamplingOptions greedy() { return {.temperature = 0}; }

Tokens prompt_of(uint32_t seed, size_t size) {
  std::mt19937 random(seed);
  Tokens tokens{kBos};
  while (tokens.size() < size)
    tokens.push_back(kFirstLetter + static_cast<int32_t>(random() % (kVocabulary - 2)));
  return tokens;
}

// A prompt whose answer ends within so many tokens.
Tokens brief_prompt(int64_t least, int64_t most) {
  for (uint32_t seed = 0;; ++seed) {
    Tokens prompt = prompt_of(seed, 6);
    const Tokens answer = continued(prompt, most);
    if (answer.back() == kEnd && std::ssize(answer) > least) return prompt;
  }
}

EngineParts toy() {
  return {std::make_shared<ToyModel>(256), std::make_shared<ToyTokenizer>(), {}};
}

EngineOptions small(EngineOptions options = {}) {
  options.cache_dtype = kFloat32;
  options.block_size = 4;
  options.max_batch_tokens = 16;
  return options;
}

TEST(MinTokens, PutsOffTheEnd) {
  const Tokens prompt = brief_prompt(2, 12);
  const int64_t natural = std::ssize(continued(prompt, 12));
  // Overlapped steps need tokens that the device chooses, from the time on at which it can.
  for (const bool overlap : {false, true})
    for (const int64_t drafts : {0, 3}) {
      if (overlap && drafts > 0) continue;
      Engine engine(toy(), small({.overlap = overlap, .speculation = {.draft_tokens = drafts}}));
      const auto ask = [&](int64_t least, const Tokens& stops = {}) {
        return engine.generate({.tokens = prompt,
                                .sampling = greedy(),
                                .max_tokens = 60,
                                .min_tokens = least,
                                .stop_tokens = stops});
      };
      EXPECT_EQ(ask(0).tokens, continued(prompt, 12));
      // The token that ends the answer counts, as in max_tokens.
      EXPECT_EQ(ask(natural - 1).tokens, continued(prompt, 12));
      const Completion longer = ask(natural + 20);
      ASSERT_GE(std::ssize(longer.tokens), natural + 20);
      const auto early = longer.tokens.begin() + static_cast<ptrdiff_t>(natural + 20);
      EXPECT_EQ(std::count(longer.tokens.begin(), early, kEnd), 0);
      // Whoever follows the text from there on comes to the same end.
      Tokens text = prompt;
      text.insert(text.end(), longer.tokens.begin(), early);
      EXPECT_EQ(Tokens(early, longer.tokens.end()), continued(text, 60 - natural - 20));
      // Stop tokens wait as well.
      const Completion stopped = ask(natural + 20, {longer.tokens[1], kVocabulary + 5});
      EXPECT_EQ(std::count(stopped.tokens.begin(), stopped.tokens.begin() + natural + 20,
                           longer.tokens[1]),
                0);
    }
}

TEST(MinTokens, LeavesTheEndToAGrammar) {
  Engine engine(toy(), small());
  const Completion answer =
      engine.generate({.tokens = prompt_of(1, 5),
                       .sampling = {.temperature = 0, .grammar = R"(root ::= "ABC")"},
                       .max_tokens = 20,
                       .min_tokens = 10});
  EXPECT_EQ(answer.text, "ABC");
  EXPECT_EQ(answer.reason, FinishReason::stop);
}

TEST(MinTokens, StopStringsAreTextBefore) {
  Engine engine(toy(), small());
  const Tokens prompt = prompt_of(3, 8);
  const auto ask = [&](int64_t least) {
    return engine.generate({.tokens = prompt,
                            .sampling = greedy(),
                            .max_tokens = 30,
                            .min_tokens = least,
                            .stop = {ToyTokenizer().decode(Tokens{continued(prompt, 3)[2]}, {})},
                            .ignore_end = true});
  };
  EXPECT_EQ(ask(0).usage.completion_tokens, 3);
  EXPECT_GT(ask(5).usage.completion_tokens, 5);
  EXPECT_TRUE(contains(error_of([&] { ask(31); }), "expected min_tokens from 0 to max_tokens"));
}

// The logprobs that the toy model's logits stand for.
void check_scores(const Tokens& prompt, const std::vector<Sampled>& scores) {
  ASSERT_EQ(scores.size() + 1, prompt.size());
  for (size_t i = 1; i < prompt.size(); ++i) {
    const Sampled& scored = scores[i - 1];
    ASSERT_EQ(scored.token, prompt[i]);
    const int32_t next = next_of(std::span(prompt).first(i));
    std::vector<double> logits;
    double sum = 0;
    for (int64_t v = 0; v < kVocabulary; ++v) {
      const auto place = static_cast<int64_t>(i) - 1;
      logits.push_back(v == next ? 4 : static_cast<double>((v * 7 + place) % 13) / 13);
      sum += std::exp(logits.back());
    }
    EXPECT_NEAR(scored.logprob, logits[static_cast<size_t>(prompt[i])] - std::log(sum), 1e-5) << i;
    ASSERT_EQ(scored.top.size(), 2u);
    EXPECT_EQ(scored.top[0].token, next);
  }
}

TEST(PromptLogprobs, AreTheModels) {
  // In parts, beside others, with too little memory for all, behind the same prompt in the cache.
  for (const int64_t tokens : {int64_t{0}, int64_t{256}}) {
    Engine engine(toy(), small({.max_sequences = 8, .cache_tokens = tokens}));
    const auto request = [](size_t i, bool scores) {
      return Request{.tokens = prompt_of(static_cast<uint32_t>(i / 2), 2 + i * 7),
                     .sampling = {.temperature = 0, .logprobs = true, .top_logprobs = 2},
                     .max_tokens = static_cast<int64_t>(i % 3) * 10,
                     .ignore_end = true,
                     .prompt_logprobs = scores};
    };
    std::vector<Generation> open;
    for (size_t i = 0; i < 24; ++i) open.push_back(engine.submit(request(i, i % 4 != 3)));
    for (size_t i = 0; i < open.size(); ++i) {
      const Request asked = request(i, true);
      std::vector<Sampled> streamed;
      size_t parts = 0;
      while (auto piece = open[i].next())
        if (!piece->prompt.empty()) {
          ++parts;
          streamed = std::move(piece->prompt);
        }
      const Completion answer = open[i].wait();
      EXPECT_EQ(answer.tokens, continued(asked.tokens, asked.max_tokens, false)) << i;
      if (i % 4 == 3) {
        EXPECT_TRUE(answer.prompt_logprobs.empty() && streamed.empty());
        continue;
      }
      EXPECT_EQ(parts, 1u);
      check_scores(asked.tokens, streamed);
      check_scores(asked.tokens, answer.prompt_logprobs);
      EXPECT_EQ(answer.usage.cached_tokens, 0);
    }
  }
}

TEST(PromptLogprobs, OfALongPromptComeInParts) {
  EngineOptions options = small();
  options.max_batch_tokens = 512;
  const auto model = std::make_shared<ToyModel>(1024);
  Engine engine({model, std::make_shared<ToyTokenizer>(), {}}, options);
  const Tokens prompt = prompt_of(9, 700);
  const Completion answer = engine.generate({.tokens = prompt,
                                             .sampling = {.temperature = 0, .top_logprobs = 2},
                                             .max_tokens = 0,
                                             .prompt_logprobs = true});
  check_scores(prompt, answer.prompt_logprobs);
  EXPECT_LE(model->largest_step, 128);
  // Nothing comes before the first token.
  EXPECT_TRUE(engine.generate({.tokens = {5}, .max_tokens = 0, .prompt_logprobs = true})
                  .prompt_logprobs.empty());
}

}  // namespace
}  // namespace tensora::llm
