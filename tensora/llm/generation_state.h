#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>

#include "tensora/llm/generation.h"

namespace tensora::llm {

/// Wakes the engine's thread where it has nothing to do.
class Doorbell {
 public:
  void ring() {
    {
      const std::lock_guard lock(mutex_);
      is_rung_ = true;
    }
    rung_.notify_one();
  }
  /// Waits for a ring since the last one that was waited for, at most until some time.
  void wait_until(std::chrono::steady_clock::time_point end) {
    std::unique_lock lock(mutex_);
    rung_.wait_until(lock, end, [&] { return is_rung_; });
    is_rung_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable rung_;
  bool is_rung_ = false;
};

/// What the engine's thread and the holder of a Generation share.
struct Generation::State {
  std::atomic<bool> cancelled = false, paused = false;  // read before every step
  std::shared_ptr<Doorbell> doorbell = nullptr;         // of the engine

  std::mutex mutex;  // of what follows
  std::condition_variable changed;
  Piece pending;  // not yet fetched
  bool has_pending = false, done = false, is_awaited = false;
  Completion completion;
  std::exception_ptr error;

  bool has_news() const { return has_pending || done; }
  void add(std::string_view text, Sampled token);
  void add_prompt(std::vector<Sampled> prompt);
  void finish(std::string_view text, Completion result);
  void fail(std::exception_ptr what);
};

}  // namespace tensora::llm
