#include "tensora/llm/scheduler.h"

#include "../helpers.h"

namespace tensora::llm {
namespace {

// Steps as an engine does, with a text that goes on by counting.
struct Simulation {
  explicit Simulation(const SchedulerOptions& options, int64_t blocks, bool invariant = false)
      : manager({.blocks = blocks, .block_size = 4, .least_part = invariant ? 0 : 1}),
        scheduler(options, manager) {}

  Sequence& add(int32_t first, int64_t size, int64_t limit) {
    auto& sequence = *sequences.emplace_back(std::make_unique<Sequence>());
    for (int64_t i = 0; i < size; ++i) sequence.tokens.push_back(first + static_cast<int32_t>(i));
    sequence.prompt_size = size;
    sequence.limit = limit;
    scheduler.add(sequence);
    return sequence;
  }
  void step() {
    scheduler.plan(plan);
    for (const Slice& slice : plan.slices)
      if (slice.logits > 0) slice.sequence->tokens.push_back(slice.sequence->tokens.back() + 1);
    scheduler.commit(plan);
    for (const auto& sequence : sequences)
      if (sequence->size() >= sequence->limit) scheduler.remove(*sequence);
  }
  std::vector<int64_t> counts() const {
    std::vector<int64_t> out;
    for (const Slice& slice : plan.slices) out.push_back(slice.count);
    return out;
  }

  BlockManager manager;
  Scheduler scheduler;
  Step plan;
  std::vector<std::unique_ptr<Sequence>> sequences;
};

using Counts = std::vector<int64_t>;

TEST(Scheduler, ReadsLongPromptsInPartsBesideTheOthers) {
  Simulation run({.max_sequences = 4, .max_tokens = 8}, 64);
  run.add(0, 3, 100);
  run.step();
  EXPECT_EQ(run.counts(), (Counts{3}));
  run.add(1000, 20, 100);
  run.step();
  EXPECT_EQ(run.counts(), (Counts{1, 7}));
  run.step();
  EXPECT_EQ(run.counts(), (Counts{1, 7}));
  run.step();
  EXPECT_EQ(run.counts(), (Counts{1, 6}));
  run.step();
  EXPECT_EQ(run.counts(), (Counts{1, 1}));
}

// As where one request asks for several answers.
TEST(Scheduler, ReadsATextOnceThatSeveralBeginWith) {
  Simulation run({.max_sequences = 4, .max_tokens = 8}, 64);
  for (int i = 0; i < 3; ++i) run.add(0, 14, 100);
  run.add(500, 3, 100);  // does not wait for them
  run.step();
  EXPECT_EQ(run.counts(), (Counts{8}));
  run.step();
  EXPECT_EQ(run.counts(), (Counts{6, 2}));
  run.step();
  // Three blocks of four are shared.
  EXPECT_EQ(run.counts(), (Counts{1, 1, 2, 2}));
}

TEST(Scheduler, RunsNoMoreAtOnceThanItMay) {
  Simulation run({.max_sequences = 2, .max_tokens = 8}, 64);
  for (int i = 0; i < 5; ++i) run.add(i * 100, 2, 6);
  int steps = 0;
  while (run.scheduler.running() + run.scheduler.waiting() > 0 && steps < 100) {
    run.step();
    EXPECT_LE(run.plan.slices.size(), 2u);
    ++steps;
  }
  EXPECT_EQ(steps, 12);  // three rounds of four tokens
}

TEST(Scheduler, WhereBlocksRunOutTheYoungestWaits) {
  Simulation run({.max_sequences = 4, .max_tokens = 16}, 8);
  Sequence& first = run.add(0, 8, 28);
  Sequence& second = run.add(1000, 8, 28);
  int steps = 0;
  while (run.scheduler.running() + run.scheduler.waiting() > 0 && steps < 1000) {
    run.step();
    ++steps;
  }
  EXPECT_LT(steps, 100);
  EXPECT_EQ(first.preemptions, 0);
  EXPECT_GT(second.preemptions, 0);
  for (const Sequence* sequence : {&first, &second}) {
    ASSERT_EQ(sequence->size(), 28);
    for (int64_t i = 1; i < 28; ++i)
      EXPECT_EQ(sequence->tokens[static_cast<size_t>(i)], sequence->tokens[0] + i);
  }
  EXPECT_EQ(run.manager.use().used, 0);
}

TEST(Scheduler, DraftsTakeTheirPartOfAStep) {
  Simulation run({.max_sequences = 2, .max_tokens = 8}, 64);
  Sequence& sequence = run.add(0, 2, 100);
  run.step();
  sequence.draft = {1, 2, 3};
  run.scheduler.plan(run.plan);
  EXPECT_EQ(run.counts(), (Counts{4}));
  EXPECT_EQ(run.plan.slices[0].logits, 4);
  // Two were right, and one more was chosen.
  for (const int32_t token : {1, 2, 9}) sequence.tokens.push_back(token);
  run.scheduler.commit(run.plan);
  EXPECT_EQ(sequence.computed, 5);
  sequence.draft.assign(100, 1);
  run.scheduler.plan(run.plan);
  EXPECT_LE(run.plan.tokens, 8);
}

TEST(Scheduler, InvariantStepsDependOnTheirOwnRequestAlone) {
  const auto parts = [](bool beside_others, bool cached) {
    Simulation run({.max_sequences = 4, .max_tokens = 8, .batch_invariant = true}, 64, true);
    if (cached) {
      run.add(0, 21, 24);
      while (run.scheduler.running() + run.scheduler.waiting() > 0) run.step();
    }
    if (beside_others) run.add(500, 13, 40);
    Sequence& sequence = run.add(0, 21, 26);
    std::vector<std::pair<int64_t, int64_t>> out;
    for (int i = 0; i < 100 && sequence.size() < sequence.limit; ++i) {
      run.step();
      EXPECT_EQ(run.plan.slices.size(), 1u);
      const Slice& slice = run.plan.slices[0];
      if (slice.sequence == &sequence) out.emplace_back(slice.first, slice.count);
    }
    return out;
  };
  const auto alone = parts(false, false);
  EXPECT_EQ(alone[0], std::pair(int64_t{0}, int64_t{8}));
  EXPECT_EQ(parts(true, false), alone);
  const auto after = parts(true, true);
  // Whole parts are not computed again; what is left is cut the same.
  EXPECT_EQ(after[0], std::pair(int64_t{16}, int64_t{5}));
  EXPECT_TRUE(std::equal(after.begin(), after.end(), alone.begin() + 2, alone.end()));
}

TEST(Scheduler, RefusesStepsThatCannotContinueAll) {
  BlockManager manager({.blocks = 8, .block_size = 4});
  EXPECT_TRUE(testing::contains(
      testing::error_of([&] { Scheduler({.max_sequences = 9, .max_tokens = 8}, manager); }),
      "a step of 8 tokens cannot continue 9 sequences"));
  EXPECT_TRUE(testing::contains(
      testing::error_of([&] {
        Scheduler({.max_sequences = 1, .max_tokens = 7, .batch_invariant = true}, manager);
      }),
      "multiple of the block size"));
}

}  // namespace
}  // namespace tensora::llm
