#include <condition_variable>
#include <mutex>

#include "tensora/llm/engine.h"
#include "toy_model.h"

namespace tensora::llm {
namespace {

using namespace testing;

// Counts, and lets others wait for a count.
class Counter final : public StepListener {
 public:
  void on_step() noexcept override {
    const std::lock_guard lock(mutex_);
    ++steps_;
    changed_.notify_all();
  }
  int64_t steps() {
    const std::lock_guard lock(mutex_);
    return steps_;
  }
  void wait_beyond(int64_t steps) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return steps_ > steps; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t steps_ = 0;
};

EngineParts toy() {
  return {std::make_shared<ToyModel>(256), std::make_shared<ToyTokenizer>(), {}};
}

Request request_of(int32_t first, const std::shared_ptr<Counter>& counter) {
  return {.tokens = {kBos, kFirstLetter + first},
          .sampling = {.temperature = 0},
          .max_tokens = 30,
          .ignore_end = true,
          .listener = counter};
}

// What `take` gives between the calls of the listener is what `next` would have given.
TEST(StepListenerTest, PartsCanBeTakenAfterEachStep) {
  Engine engine(toy(), {.cache_dtype = kFloat32});
  const Completion expected = engine.generate(request_of(3, nullptr));
  const auto counter = std::make_shared<Counter>();
  Generation generation = engine.submit(request_of(3, counter));
  std::string text;
  size_t tokens = 0;
  Piece piece;
  bool goes_on = true;
  for (int64_t seen = 0; goes_on;) {
    counter->wait_beyond(seen);
    seen = counter->steps();
    goes_on = generation.take(piece);
    text += piece.text;
    tokens += piece.tokens.size();
  }
  EXPECT_EQ(text, expected.text);
  EXPECT_EQ(tokens, expected.tokens.size());
  EXPECT_FALSE(generation.take(piece));
  EXPECT_TRUE(piece.is_empty());
}

TEST(StepListenerTest, OneCallServesAllRequestsOfAStep) {
  Engine engine(toy(), {.max_sequences = 16, .cache_dtype = kFloat32});
  const auto counter = std::make_shared<Counter>();
  std::vector<Generation> generations;
  for (int32_t i = 0; i < 16; ++i) generations.push_back(engine.submit(request_of(i % 4, counter)));
  for (Generation& generation : generations) generation.wait();
  const int64_t steps = engine.stats().steps;
  // The last call may come after `wait` returns, and a request may end without a step.
  EXPECT_LE(counter->steps(), steps + 16);
  EXPECT_GE(counter->steps(), 29);
  EXPECT_LT(counter->steps(), 16 * 30);
}

TEST(StepListenerTest, HearsOfCancellingAndClosing) {
  const auto counter = std::make_shared<Counter>();
  std::optional<Engine> engine(std::in_place, toy(), EngineOptions{.cache_dtype = kFloat32});
  Generation cancelled = engine->submit(request_of(1, counter));
  cancelled.cancel();
  while (!cancelled.is_done()) counter->wait_beyond(0);
  Generation closed = engine->submit(request_of(2, counter));
  const int64_t before = counter->steps();
  const bool was_done = closed.is_done();
  engine.reset();
  EXPECT_TRUE(was_done || counter->steps() > before);
  EXPECT_TRUE(closed.is_done());
}

}  // namespace
}  // namespace tensora::llm
