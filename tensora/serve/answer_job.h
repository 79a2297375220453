#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensora/serve/answer_format.h"
#include "tensora/serve/answer_metrics.h"
#include "tensora/serve/service.h"

namespace tensora::serve {

using ServiceClock = std::chrono::steady_clock;

inline constexpr const char* kTooLate = "deadline_exceeded";
/// 503, kTooLate: the deadline passed before the engine could begin.
ApiError too_late();

/// A client's request on its way: its answers, from the queue to the last event. What is called on
/// the thread that delivers says so; the rest is constant.
class AnswerJob {
 public:
  /// The request's prompts must be tokens.
  AnswerJob(ServedModelPtr model, AnswerRequest request, const AnswerFormat& format,
            std::shared_ptr<AnswerSink> sink, std::shared_ptr<AnswerMetrics> metrics,
            ServiceClock::time_point came);

  const ServedModel& model() const { return *model_; }
  const AnswerRequest& request() const { return request_; }
  const std::string& key() const { return request_.key; }
  size_t size() const { return answers_.size(); }
  /// What the engine is asked for one of the answers. Its deadline counts from now on; throws
  /// ApiError where that has passed.
  llm::Request request_of(size_t answer) const;
  bool is_stream() const { return request_.wants_parts; }

  /// The client has gone. From any thread.
  void set_gone() { is_gone_.store(true, std::memory_order_relaxed); }
  bool is_gone() const { return is_gone_.load(std::memory_order_relaxed); }
  Reply& reply() { return sink_->reply(); }

  // On the thread that delivers:

  /// The engine has one of the answers, after it had to wait for so many seconds. False: nobody
  /// wants it any more, and it is cancelled.
  bool start(size_t answer, llm::Generation generation, double waited);
  /// The engine was to begin with one of the answers when the request's time was over. It ends
  /// without a text, and with it all that wait; where none has begun, the request fails.
  void end_late(size_t answer);
  /// Hands on what is new.
  void deliver();
  /// End all answers.
  void cancel(CancelCause cause);
  void fail(const ApiError& error);
  /// How many of the answers take a place in the engine: none of them while the job pauses.
  int64_t active() const { return is_paused_ ? 0 : active_; }
  /// Pauses the answers where the client has more unsent bytes than `most`, and lets them go on
  /// below half of that. Returns the unsent bytes.
  size_t follow_client(size_t most);
  bool is_paused() const { return is_paused_; }
  bool is_over() const { return is_over_; }
  /// The request's time is over, and the engine has none of its answers, which would end there.
  bool is_late() const;
  /// Seconds since the request came.
  double age() const;

 private:
  struct One {
    std::optional<llm::Generation> generation = {};
    std::unique_ptr<AnswerParser> parser = nullptr;
    llm::Piece piece = {};  // that is being handed on
    Answer answer = {};
    ServiceClock::time_point last = {};  // when a piece came
    double waited = 0;                   // seconds before the engine got it
    bool has_begun = false, has_ended = false;
  };

  bool is_time_over() const;
  const std::vector<int32_t>& prompt_of(size_t answer) const;
  void deliver_one(One& one);
  void begin(One& one, std::vector<llm::Sampled> scores);
  void end_waiting();
  void end(One& one);
  void give(One& one, AnswerEvent&& event);
  void count_tokens(One& one, size_t tokens);
  void finish(One& one);
  void drop_generations();

  const ServedModelPtr model_;
  const AnswerRequest request_;
  const std::shared_ptr<AnswerSink> sink_;
  const std::shared_ptr<AnswerMetrics> metrics_;
  const ServiceClock::time_point came_;
  std::atomic<bool> is_gone_ = false;
  std::vector<One> answers_;
  size_t ended_ = 0;    // answers
  int64_t active_ = 0;  // answers that the engine has
  bool has_news_ = false, is_paused_ = false, is_over_ = false;
};

}  // namespace tensora::serve
