#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "tensora/core/process_group.h"

namespace tensora::distributed {

/// The last calls of one rank, over all of its groups: what a report about a hang needs.
class Recorder {
 public:
  static constexpr size_t kCalls = 4096;
  using Clock = std::chrono::steady_clock;
  struct Record {
    uint64_t number = 0;  // among all calls of the rank, from 1 on
    std::string group;
    CallSummary call;
    Clock::time_point queued, started, done;
    bool has_started = false, is_done = false;
  };

  /// Notes a call; the result is its number.
  uint64_t queue(const std::string& group, const Collective& call);
  void start(uint64_t number);
  void finish(uint64_t number);
  /// The kept calls, oldest first.
  std::vector<Record> records() const;
  /// "call 17, all_reduce(…) in group world, waiting for 3.2 s"; empty before the first call.
  std::string last() const;
  /// The last calls as lines of text.
  std::string text(size_t most) const;

 private:
  Record* find(uint64_t number);

  mutable std::mutex mutex_;
  std::vector<Record> ring_;
  uint64_t calls_ = 0;
};

}  // namespace tensora::distributed
