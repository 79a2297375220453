// Engines in trouble: many threads that change their minds, several engines, an engine that goes
// away, a fork.
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "tensora/llm/engine.h"
#include "toy_model.h"

namespace tensora::llm {
namespace {

using namespace testing;
using tensora::testing::contains;
using tensora::testing::error_of;
using Tokens = std::vector<int32_t>;

Request request_of(uint32_t seed, int64_t count) {
  std::mt19937 random(seed);
  Tokens tokens{kBos};
  for (int i = 0; i < 9; ++i)
    tokens.push_back(kFirstLetter + static_cast<int32_t>(random() % (kVocabulary - 2)));
  return {.tokens = tokens, .sampling = {.temperature = 0}, .max_tokens = count};
}

EngineParts toy() {
  return {std::make_shared<ToyModel>(256), std::make_shared<ToyTokenizer>(), {}};
}

const EngineOptions kSmall{.max_sequences = 4,
                           .max_batch_tokens = 16,
                           .block_size = 4,
                           .cache_tokens = 320,
                           .cache_dtype = kFloat32};

void expect_right(Engine& engine, uint32_t seed) {
  const Request request = request_of(seed, 30);
  EXPECT_EQ(engine.generate(request).tokens, continued(request.tokens, 30));
}

TEST(EngineAttacks, AStormOfCancellations) {
  Engine engine(toy(), kSmall);
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 60; ++i) {
        Generation generation = engine.submit(request_of(static_cast<uint32_t>(random() % 7), 40));
        switch (random() % 4) {
          case 0:
            break;  // dropped at once
          case 1:
            generation.cancel();
            generation.cancel();
            EXPECT_LE(generation.wait().tokens.size(), 40u);
            break;
          case 2:
            generation.next();
            generation.cancel();
            while (generation.next()) {
            }
            break;
          default:
            EXPECT_LE(generation.wait().tokens.size(), 40u);
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (uint32_t seed = 0; seed < 5; ++seed) expect_right(engine, seed);
  EXPECT_EQ(engine.stats().running, 0);
  EXPECT_EQ(engine.stats().waiting, 0);
}

TEST(EngineAttacks, TwoEnginesShareAModel) {
  const EngineParts parts = toy();
  Engine a(parts, kSmall), b(parts, kSmall);
  std::thread other([&] {
    for (uint32_t seed = 0; seed < 20; ++seed) expect_right(a, seed);
  });
  for (uint32_t seed = 0; seed < 20; ++seed) expect_right(b, seed);
  other.join();
}

TEST(EngineAttacks, TheEngineGoesWhileOthersWait) {
  for (int round = 0; round < 10; ++round) {
    auto engine = std::make_unique<Engine>(toy(), kSmall);
    std::vector<Generation> running;
    for (uint32_t i = 0; i < 8; ++i) running.push_back(engine->submit(request_of(i, 200)));
    std::vector<std::thread> waiting;
    for (Generation& generation : running)
      waiting.emplace_back([&] {
        try {
          generation.wait();  // or it was done before
        } catch (const Error& error) {
          EXPECT_FALSE(std::string(error.what()).empty());
        }
      });
    std::this_thread::sleep_for(std::chrono::microseconds(300 * round));
    engine.reset();
    for (std::thread& thread : waiting) thread.join();
  }
}

TEST(EngineAttacks, AForkCanLeaveTheEngineAlone) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer allows no threads in the fork of a program with threads";
#endif
  auto engine = std::make_unique<Engine>(toy(), kSmall);
  Generation running = engine->submit(request_of(1, 100));
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // instead of waiting for ever
    const bool refused =
        contains(error_of([&] { engine->submit(request_of(2, 3)); }), "forked from that");
    engine.reset();
    Engine another(toy(), kSmall);
    const Request request = request_of(3, 10);
    const bool works = another.generate(request).tokens == continued(request.tokens, 10);
    _exit(refused && works ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(running.wait().tokens, continued(request_of(1, 100).tokens, 100));
  expect_right(*engine, 4);
}

}  // namespace
}  // namespace tensora::llm
