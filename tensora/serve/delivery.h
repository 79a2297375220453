#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tensora/serve/answer_job.h"

namespace tensora::serve {

/// The thread that hands on what engines have computed: it wakes once after each step of an engine
/// and goes through all open jobs, so that a step costs one hand-over however many clients there
/// are. A request that comes costs a look at its own job.
class Delivery {
 public:
  struct Options {
    size_t most_unsent = 0;
    /// On that thread: so many answers of a job have left their engine, or pause.
    std::function<void(const AnswerJob& job, int64_t count)> on_left = nullptr;
    /// So many answers that paused go on.
    std::function<void(const AnswerJob& job, int64_t count)> on_resumed = nullptr;
    /// A job will not start any more answers.
    std::function<void(const AnswerJob& job)> on_over = nullptr;
    /// No job has been open for `idle_seconds`. Once, until there has been another one.
    std::function<void()> on_idle = nullptr;
    double idle_seconds = 5;
    bool has_deadline = false;  // jobs may have one, and end while they wait for an engine
    std::function<void(const std::string& line)> log = nullptr;
  };
  explicit Delivery(Options options);
  /// Ends what is open with an error.
  ~Delivery();
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;

  /// What engines are to tell about their steps.
  std::shared_ptr<llm::StepListener> listener() const;
  /// From now on, what the job's client does counts.
  void add(const std::shared_ptr<AnswerJob>& job);
  void start(const std::shared_ptr<AnswerJob>& job, size_t answer, llm::Generation generation,
             double waited);
  void fail(const std::shared_ptr<AnswerJob>& job, const ApiError& error);
  /// See AnswerJob::end_late.
  void end_late(const std::shared_ptr<AnswerJob>& job, size_t answer);
  void end_all(const ApiError& error);

  int64_t answers() const { return answers_.load(std::memory_order_relaxed); }
  int64_t streams() const { return streams_.load(std::memory_order_relaxed); }
  int64_t paused() const { return paused_.load(std::memory_order_relaxed); }
  uint64_t unsent() const { return unsent_.load(std::memory_order_relaxed); }

 private:
  class Bell;
  struct Letter {
    std::shared_ptr<AnswerJob> job = nullptr;  // null: all of them
    std::optional<llm::Generation> generation = {};
    size_t answer = 0;
    double waited = 0;
    std::optional<ApiError> error = {};
    bool is_late = false;  // the answer's time was over before the engine could begin
  };

  void post(Letter letter);
  void run();
  void read(Letter& letter);
  void go_through();
  void deliver(AnswerJob& job);
  void change(AnswerJob& job, const std::function<void()>& what);

  Options options_;
  std::shared_ptr<Bell> bell_;
  std::vector<std::shared_ptr<AnswerJob>> jobs_;
  bool is_any_over_ = false;  // of the jobs
  std::atomic<int64_t> answers_ = 0, streams_ = 0, paused_ = 0;
  std::atomic<uint64_t> unsent_ = 0;
  std::mutex mutex_;  // of what follows
  std::vector<Letter> letters_;
  std::atomic<bool> is_closing_ = false;
  std::thread thread_;  // the last: it uses all of the above
};

}  // namespace tensora::serve
