#include "tensora/serve/delivery.h"

#include <gtest/gtest.h>

#include <thread>

#include "toy_service.h"

namespace tensora::serve {
namespace {

using namespace testing;

class CountingSink final : public AnswerSink {
 public:
  CountingSink() : AnswerSink(std::make_shared<RecordedReply>()) {}
  void on_event(const AnswerEvent&) override {}
  void on_flush() override {}
  void on_end(const std::vector<Answer>&) override { ++ended; }
  void on_error(const ApiError&) override { ++ended; }

  std::atomic<int> ended = 0;
};

template <class Condition>
bool soon(const Condition& condition) {
  for (int i = 0; i < 2000 && !condition(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return condition();
}

// A delivery, and a job of one answer for it.
struct DeliveryTest : ::testing::Test {
  DeliveryTest() {
    served->name = "toy";
    served->backend = backend;
    job = make_job(0);
  }
  std::shared_ptr<AnswerJob> make_job(double deadline) {
    AnswerRequest request;
    request.request.max_tokens = 2;
    request.request.deadline = deadline;
    request.request.listener = delivery.listener();
    request.prompts = {{1, 2, 3}};
    request.wants_parts = true;
    const AnswerFormat format(nullptr, backend->tokenizer(), request);
    return std::make_shared<AnswerJob>(served, std::move(request), format, sink,
                                       std::make_shared<AnswerMetrics>("toy", "toy"),
                                       ServiceClock::now());
  }
  void expect_end() {
    delivery.add(job);
    EXPECT_TRUE(soon([&] { return delivery.answers() == 0 && delivery.streams() == 0; }));
    EXPECT_TRUE(soon([&] { return job.use_count() == 1; }));
    EXPECT_EQ(left, 1);
    EXPECT_EQ(sink->ended, 1);
  }

  std::shared_ptr<ToyBackend> backend = std::make_shared<ToyBackend>();
  std::shared_ptr<ServedModel> served = std::make_shared<ServedModel>();
  std::shared_ptr<CountingSink> sink = std::make_shared<CountingSink>();
  std::atomic<int64_t> left = 0;
  std::shared_ptr<AnswerJob> job;
  Delivery delivery{{.most_unsent = 1000,
                     .on_left = [this](const AnswerJob&, int64_t count) { left += count; },
                     .on_resumed = [](const AnswerJob&, int64_t) {},
                     .on_over = [](const AnswerJob&) {},
                     .has_deadline = true}};
};

// An answer that waits for its turn may be started, and end, before the thread that brought it has
// told the delivery of it. A job that stayed would keep its model from being unloaded.
TEST_F(DeliveryTest, ForgetsAJobThatEndedBeforeItWasAdded) {
  llm::Generation generation = backend->submit(job->request_of(0));
  ASSERT_TRUE(soon([&] { return generation.is_done(); }));
  delivery.start(job, 0, std::move(generation), 0);
  ASSERT_TRUE(soon([&] { return left == 1; }));
  expect_end();
}

// Nobody gives it a place, and nobody rings.
TEST_F(DeliveryTest, EndsAnAnswerThatWaitsBeyondItsTime) {
  job = make_job(0.2);
  delivery.add(job);
  EXPECT_TRUE(soon([&] { return sink->ended == 1; }));
  EXPECT_TRUE(soon([&] { return delivery.answers() == 0; }));
}

// The engine rings for the last time while the delivery does not know the job.
TEST_F(DeliveryTest, DeliversWhatWasComputedBeforeTheJobWasAdded) {
  backend->model->delay = std::chrono::milliseconds(200);
  delivery.start(job, 0, backend->submit(job->request_of(0)), 0);
  ASSERT_TRUE(soon([&] { return backend->stats().requests == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  expect_end();
}

}  // namespace
}  // namespace tensora::serve
