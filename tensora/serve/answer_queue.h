#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tensora/serve/api_error.h"

namespace tensora::serve {

class AnswerJob;

/// An answer of a job that waits for its turn.
struct QueuedAnswer {
  std::shared_ptr<AnswerJob> job;
  size_t answer = 0;
};

struct QueueLimits {
  int64_t most = 1024;  // that wait, in all
  int64_t most_per_key = 256;
};

/// Who is computed next. Every engine has a lane with as many places as it computes answers
/// together; those without a place wait here, and the keys of a lane take turns. May be used from
/// any thread.
class AnswerQueue {
 public:
  using Lane = const void*;  // an engine's address

  explicit AnswerQueue(const QueueLimits& limits) : limits_(limits) {}

  /// Takes a place for each of `count` answers if there are as many and nobody waits in the lane.
  bool start(Lane lane, int64_t places, int64_t count);
  /// Lets `count` answers of a job wait. Throws ApiError 429 where that are too many.
  void wait(Lane lane, int64_t places, const std::string& key, std::shared_ptr<AnswerJob> job,
            size_t count);
  /// Waits for an answer that has got a place; none: the queue is closed.
  std::optional<QueuedAnswer> next();
  /// A place is free again.
  void release(Lane lane);
  /// Answers that gave their places back while they paused go on, even if others have these places
  /// by now: the engine lets one of them wait.
  void resume(Lane lane, int64_t places, int64_t count);
  /// Nobody waits for these any more. Returns how many there were.
  size_t forget(Lane lane, const std::string& key, const AnswerJob& job);
  void close();

  /// Does not wait for the lock: /ready and /health ask while other threads are busy.
  int64_t waiting() const { return waiting_.load(std::memory_order_relaxed); }
  /// The mean time that an answer kept its place, for Retry-After.
  void count_time(double seconds);

 private:
  struct Queue {
    std::string key;
    std::deque<QueuedAnswer> answers;
  };
  struct LaneState {
    int64_t places = 0, used = 0;
    std::deque<Queue> queues;  // of keys that wait; the first one's turn is next
  };
  std::optional<QueuedAnswer> take();
  ApiError refusal(const LaneState& lane, int64_t count, const std::string& whose) const;

  QueueLimits limits_;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::map<Lane, LaneState> lanes_;  // those in use
  std::atomic<int64_t> waiting_ = 0;
  double mean_seconds_ = 1;
  bool is_closed_ = false;
};

}  // namespace tensora::serve
